"""Runs the frameworks' own tests, once as they are, and once with Lookback's adapter in the place of the original.

    run.py [--folder FOLDER] [NAME ...]

``suites.toml`` says which tests, and what is expected of them. The tests come from the frameworks' source archives,
into a folder that is no part of the project. A plugin of pytest puts the adapter in its place before they are imported.
A test that passes on the original alone must be listed there, with the reason, and one that is listed must not pass.
The suites are those of the frameworks that are installed where this runs: some need an environment of their own.
"""

import argparse
import json
import os
import subprocess
import sys
import tarfile
import time
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
FOLDER = HERE.parents[3] / ".python" / "upstream"
MOST_SECONDS = 1200

ENVIRONMENT = {
    # Nothing is to be sent anywhere.
    "AWS_EC2_METADATA_DISABLED": "true",
    "LANGSMITH_TRACING": "false",
}


class Ended(NamedTuple):
    """How a run of the tests ended."""

    passed: dict[str, bool]
    reached: list[str]


def is_installed(package: str) -> bool:
    """Returns whether a package is there, in whatever version."""
    try:
        return bool(version(package.split("==")[0]))
    except PackageNotFoundError:
        return False


def fetch(package: str, folder: Path) -> Path:
    """Returns the folder with the tests of a package, which is fetched if it is not there."""
    name, pinned = package.split("==")
    if version(name) != pinned:
        sys.exit(f"the tests are those of {package}, but {version(name)} is installed")
    root = folder / f"{name.replace('-', '_')}-{pinned}"
    if not root.exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", name, "--dest", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, package], check=True)
        with tarfile.open(folder / f"{root.name}.tar.gz") as archive:
            # Not the package itself: the one that is installed is tested.
            wanted = (f"{root.name}/tests/", f"{root.name}/pyproject.toml")
            members = [member for member in archive if member.name.startswith(wanted)]
            archive.extractall(folder, members, filter="data")
    return root


def start(suite: dict[str, Any], root: Path, record: Path, *plugins: str) -> subprocess.Popen[bytes]:
    """Begins a run of the tests of a suite."""
    record.unlink(missing_ok=True)
    tests = [str(path.relative_to(root)) for pattern in suite["files"] for path in sorted(root.glob(pattern))]
    options = ["-q", "--tb=short", "-o", "addopts=", "-p", "no:cacheprovider", "-k", suite.get("select", "")]
    loaded = [option for plugin in ("record", *plugins) for option in ("-p", plugin)]
    path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
    with record.with_suffix(".log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *loaded, *tests],
            cwd=root,
            env=os.environ | ENVIRONMENT | suite.get("environment", {}) | {"PYTHONPATH": path, "RECORD": str(record)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def finish(process: subprocess.Popen[bytes], record: Path) -> Ended:
    """Waits for a run to end."""
    try:
        process.wait(timeout=MOST_SECONDS)
    finally:
        process.kill()
    if not record.exists():
        sys.exit(record.with_suffix(".log").read_text())
    return Ended(**json.loads(record.read_text()))


def short(test: str) -> str:
    """A test by the name of its file, without folders."""
    file, name = test.split("::", 1)
    return f"{Path(file).name}::{name}"


def compared(suite: dict[str, Any], original: Ended, ours: Ended) -> tuple[dict[str, int], list[str]]:
    """Counts, and returns what is not as the table says."""

    def passed(ended: Ended, test: str) -> bool:
        return ended.passed.get(test, False)

    reached = [test for test in ours.reached if passed(original, test)]
    counts = {
        "tests": len(original.passed),
        "reach": len(ours.reached),
        "original": len(reached),
        "ours": sum(passed(ours, test) for test in reached),
    }
    wrong = [f"{name}: expected {suite[name]}, found {found}" for name, found in counts.items() if suite[name] != found]
    broken = {short(test) for test in original.passed if passed(original, test) and not passed(ours, test)}
    # A test that is listed without parameters is listed with all.
    listed = {test for difference in suite.get("difference", []) for test in difference["tests"]}
    wrong += [f"it fails with ours: {test}" for test in sorted(broken) if not {test, test.split("[")[0]} & listed]
    failing = broken | {test.split("[")[0] for test in broken}
    wrong += [f"it is listed, and does not fail: {test}" for test in sorted(listed - failing)]
    return counts, wrong


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--folder", type=Path, default=FOLDER, help="where the tests are kept")
    arguments.add_argument("names", nargs="*", help="words in the names of the suites to run")
    given = arguments.parse_args()
    suites = tomllib.loads((HERE / "suites.toml").read_text())["suite"]
    failed = False
    print(f"{'suite':<40} {'tests':>6} {'reach':>6} {'original':>9} {'ours':>6} {'seconds':>8}")
    for suite in suites:
        if given.names and not any(name.lower() in suite["name"].lower() for name in given.names):
            continue
        if not is_installed(suite["package"]):
            print(f"{suite['name']:<40} left to an environment with {suite['package']}", flush=True)
            continue
        root = fetch(suite["package"], given.folder.resolve())
        began = time.monotonic()
        records = [root.parent / f"{suite['plugin']}.{run}.json" for run in ("original", "ours")]
        runs = [start(suite, root, records[0]), start(suite, root, records[1], suite["plugin"])]
        counts, wrong = compared(suite, *map(finish, runs, records))
        seconds = time.monotonic() - began
        print(
            f"{suite['name']:<40} {counts['tests']:>6} {counts['reach']:>6} {counts['original']:>9}"
            f" {counts['ours']:>6} {seconds:>8.0f}",
            flush=True,
        )
        for line in wrong:
            print(f"    {line}")
        failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
