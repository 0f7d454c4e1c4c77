"""Uses the pages of sessions as their readers do: in Chromium, with clicks and keys.

    .venv/bin/python crates/inspector/tests/browser/run.py [NAME]...

The program makes the pages. They are opened from files and from its server, in a network namespace that has only the
loopback interface, because Chromium calls its makers whatever its settings. Prints a line for each test, with some
figures that no check depends on.
"""

import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import served
import tests
from lab import AXE, NPM, Lab

HERE = Path(__file__).resolve().parent


def install():
    """Installs the accessibility checks into a folder outside the sources."""
    package = NPM / "node_modules" / "axe-core" / "package.json"
    if package.exists() and f'"version": "{AXE}"' in package.read_text():
        return
    NPM.mkdir(parents=True, exist_ok=True)
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run(["npm", "install", "--prefix", str(NPM), *quiet, f"axe-core@{AXE}"], check=True)


def isolated(script, args):
    """Runs a script of this folder without a network. Returns its exit code."""
    return subprocess.run(["unshare", "-n", sys.executable, str(HERE / script), "--inside", *args]).returncode


def bring_loopback_up():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def can_isolate():
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode == 0:
        return True
    print("skipped: this machine lets nobody make a network namespace, so Chromium could reach its makers")
    return False


def inside(names):
    bring_loopback_up()
    chosen = [test for test in [*tests.ALL, *served.ALL] if not names or any(name in sentence(test) for name in names)]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="lookback-pages-") as folder, Lab(folder) as lab:
        for test in chosen:
            begun = time.monotonic()
            try:
                said = test(lab)
                lab.close_pages()
                took = f"{time.monotonic() - begun:.1f} s"
                print(f"ok       {sentence(test)} ({f'{said}; ' if said else ''}{took})", flush=True)
            except Exception as error:
                failed += 1
                # The browser's errors contain the whole page.
                where = "".join(traceback.format_tb(error.__traceback__)[1:3])
                print(f"FAILED   {sentence(test)}\n{where}{type(error).__name__}: {str(error)[:1500]}", flush=True)
                lab.forget_pages()
    print(f"{len(chosen)} ran, {failed} failed")
    return 1 if failed or not chosen else 0


def sentence(test):
    return test.__name__.replace("_", " ")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        sys.exit(inside(sys.argv[2:]))
    if can_isolate():
        install()
        sys.exit(isolated("run.py", sys.argv[1:]))
