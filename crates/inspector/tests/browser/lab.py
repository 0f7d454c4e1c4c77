"""Sessions as pages in a browser, from a file or a server, and the command line's output about the same sessions."""

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import sessions
from playwright.sync_api import expect, sync_playwright

PROJECT = Path(__file__).resolve().parents[4]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
LOOKBACK = os.environ.get("LOOKBACK", str(TARGET / "debug" / "lookback"))
NPM = PROJECT / ".npm" / "axe"
AXE = "4.14.1"
CHROMIUM = "/usr/bin/chromium"
# An upper bound for every wait here, in milliseconds.
LONGEST = 180_000
EXAMPLE = PROJECT / "examples" / "session.jsonl"
# Small limits, so that the session is cut several times.
SMALL = (
    "default:limits.body=32000,target.body=10000,cold.limits.body=14000,cold.target.body=10000,"
    "caps.file=4000,caps.other=400,caps.numbers=true"
)
POLICIES = [SMALL, "none", "messages"]

# What a row shows, in the order of the page.
ROWS = """rows => rows.map(row => {
    const [entry, role, says, fate, tokens] = [...row.firstElementChild.children]
    return {
        entry: Number(entry.textContent), role: role.textContent, says: says.textContent, fate: fate.textContent,
        why: row.querySelector(':scope > .why').textContent, tokens: Number(tokens.textContent.replaceAll(',', '')),
        is: ['sent', 'gone', 'later'].find(is => row.classList.contains(is)), isNew: row.classList.contains('new'),
        isVisible: row.checkVisibility(), id: row.id,
    }
})"""

# What the policy of the page forbids is reported as an error.
REPORT = "addEventListener('securitypolicyviolation', event => console.error(event.violatedDirective))"


class Wrong(Exception):
    """A check failed."""


def must(condition, what):
    if not condition:
        raise Wrong(what)


class Lab:
    """A folder with a store and pages, and a browser that opens them."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.store = str(self.folder / "memory.db")
        self.pages = []
        self.servers = []

    def __enter__(self):
        (self.folder / "home").mkdir()
        self.playwright = sync_playwright().start()
        env = {"HOME": str(self.folder / "home"), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        self.browser = self.playwright.chromium.launch(executable_path=CHROMIUM, env=env, timeout=LONGEST)
        expect.set_options(timeout=LONGEST)
        return self

    def __exit__(self, *_):
        self.browser.close()
        self.playwright.stop()
        for server in self.servers:
            server.kill()
            server.wait()

    def lookback(self, *args):
        done = subprocess.run([LOOKBACK, *args, "--store", self.store], capture_output=True, text=True)
        must(done.returncode == 0, f"lookback {args} failed: {done.stderr}")
        return done.stdout

    # The sessions, each as a page that is made on first use.

    @cache
    def example(self, *options):
        """The recorded session with several policies."""
        policies = [word for policy in POLICIES for word in ["--policy", policy]]
        return self._replayed(EXAMPLE, *policies, *options)

    @cache
    def cut(self):
        """The recorded session with a small window, which leaves out most messages."""
        file = self.folder / "cut.jsonl"
        file.write_text(EXAMPLE.read_text())
        return self._replayed(file, "--policy", "tokens:max_tokens=16000,target_tokens=8000")

    @cache
    def compacted(self):
        """A session whose client has replaced its first messages by a summary."""
        file = self.folder / "compacted.jsonl"
        sessions.write(file, [sessions.compacted()])
        return self._replayed(file, "--policy", "none")

    @cache
    def hostile(self):
        """A session whose messages try to be more than text."""
        file = self.folder / "hostile.jsonl"
        sessions.write(file, sessions.hostile())
        return self._replayed(file, "--policy", "messages:max_messages=12")

    @cache
    def large(self):
        """A session of 10,000 messages and 5,000 calls."""
        file, page = self.folder / "large.jsonl", self.folder / "large.html"
        sessions.write(file, sessions.large())
        sessions.live(file, "large", self.store)
        self.lookback("sessions", "export", "large", "--html", str(page))
        return page

    @cache
    def unused(self):
        """A session that made no call."""
        file, page = self.folder / "unused.jsonl", self.folder / "unused.html"
        sessions.write(file, [{"role": "user", "content": "Hello."}])
        self.lookback("sessions", "import", str(file))
        self.lookback("sessions", "export", "unused", "--html", str(page))
        return page

    @cache
    def week(self):
        """What the agents used whose logs are among the tests."""
        page = self.folder / "week.html"
        logs = PROJECT / "crates" / "recordings" / "tests"
        command = [LOOKBACK, "week", str(logs), "--html", str(page)]
        done = subprocess.run(command, capture_output=True, text=True)
        must(done.returncode == 0, f"{command} failed: {done.stderr}")
        return page

    @cache
    def served(self, *options):
        """Starts an inspector of the store and returns its address."""
        command = [LOOKBACK, "inspect", self.store, "--http", "127.0.0.1:0", *options]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.servers.append(server)
        told = server.stderr.readline()
        must(told.startswith("open http://"), f"the inspector says {told!r}")
        return told.split()[1]

    def _replayed(self, file, *options):
        page = self.folder / f"{file.stem}{'-masked' if '--no-contents' in options else ''}.html"
        self.lookback("replay", str(file), *options, "--html", str(page))
        return page

    # The output of the command line.

    @cache
    def rows(self, session, call):
        """Returns the fate of each message at a call."""
        told = self.lookback("sessions", "window", session, "--call", str(call), "--json", "--explain")
        return json.loads(told)["rows"]

    @cache
    def calls(self, session):
        """Returns the messages and costs of each call."""
        return [json.loads(line) for line in self.lookback("sessions", "calls", session, "--json").splitlines()][:-1]

    @cache
    def sent(self, session, call):
        """The messages of a call, byte for byte."""
        return self.lookback("sessions", "window", session, "--call", str(call)).strip()

    @cache
    def messages(self, session):
        """Returns the messages up to the last call by their entries. The log also has entries that are not messages."""
        entries = [of["entry"] for of in self.rows(session, len(self.calls(session))) if "kind" not in of]
        return dict(zip(entries, map(json.loads, self.lookback("sessions", "export", session).splitlines())))

    @cache
    def differences(self, session, before, after):
        lines = self.lookback("sessions", "diff", session, str(before), str(after), "--json").splitlines()
        return [line for line in map(json.loads, lines) if "change" in line]

    # The browser.

    def open(self, page, anchor="", width=1280, height=900, **options):
        """Opens a file, or an address of an inspector, in a separate window, and records its faults."""
        context = self.browser.new_context(viewport={"width": width, "height": height}, **options)
        context.set_default_timeout(LONGEST)
        is_file = isinstance(page, Path)
        page_url = page.as_uri() if is_file else page
        tab = context.new_page()
        tab.faults = []
        # A page from a file loads nothing, and a served page loads only from its server.
        own = lambda url: url.split("#")[0] == page_url if is_file else urlsplit(url).netloc == urlsplit(page_url).netloc
        may = lambda request: own(request.url) or request.url.startswith("data:image/")
        tab.on("request", lambda request: may(request) or tab.faults.append(f"a request: {request.url[:200]}"))
        tab.on("console", lambda message: tab.faults.append(f"the console: {message.text[:500]}"))
        tab.on("pageerror", lambda error: tab.faults.append(f"an error: {error}"))
        tab.on("dialog", lambda dialog: tab.faults.append(f"a dialog: {dialog.message}") or dialog.dismiss())
        tab.on("popup", lambda other: tab.faults.append(f"a window: {other.url}"))
        tab.on("framenavigated", lambda frame: own(frame.url) or tab.faults.append(f"left for {frame.url}"))
        tab.add_init_script(REPORT)
        tab.goto(page_url + anchor, wait_until="load")
        self.pages.append(tab)
        return tab

    def close_pages(self):
        """Closes all pages. None may have loaded or run anything foreign."""
        faults = [fault for page in self.pages for fault in page.faults]
        self.forget_pages()
        must(not faults, f"pages did what they may not: {faults}")

    def forget_pages(self):
        for page in self.pages:
            page.context.close()
        self.pages.clear()


def rows_of(page):
    """Returns the contents of a page's rows."""
    return page.locator("#rows > .row").evaluate_all(ROWS)


def go_to(page, call):
    """Drags the slider to a call."""
    page.locator("#call").fill(str(call))
    at(page, call)


def at(page, call):
    """Waits until a call is shown."""
    expect(page.locator("#at")).to_have_text(str(call))


def axe(page):
    """Returns the findings of the accessibility checks as lines."""
    page.evaluate((NPM / "node_modules" / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']}).then(({violations}) => violations)")
    where = lambda of: [node["html"][:200] for node in of["nodes"][:3]]
    return [(of["impact"], f"{of['id']}: {of['help']}: {where(of)}") for of in found]
