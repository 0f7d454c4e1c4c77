"""Runs the frameworks' own tests, once unchanged, and once with Lookback's adapter instead of the original.

    run.py [--folder FOLDER] [NAME ...]

``suites.toml`` lists the tests and the expected results. The tests are taken from the frameworks' source archives, into
a folder outside the project's sources. A pytest plugin installs the adapter before the tests are imported. A test that
passes only with the original must be listed there, with the reason, and a listed test must fail. Only the suites of the
installed frameworks run: some frameworks need a separate environment.
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
    # Disables requests to the network.
    "AWS_EC2_METADATA_DISABLED": "true",
    "LANGSMITH_TRACING": "false",
}


class Ended(NamedTuple):
    """The result of a test run."""

    passed: dict[str, bool]
    reached: list[str]


def is_installed(package: str) -> bool:
    """Returns whether any version of a package is installed."""
    try:
        return bool(version(package.split("==")[0]))
    except PackageNotFoundError:
        return False


def fetch(package: str, folder: Path) -> Path:
    """Returns the folder with the tests of a package. Downloads it if it is missing."""
    name, pinned = package.split("==")
    if version(name) != pinned:
        sys.exit(f"the tests are those of {package}, but {version(name)} is installed")
    root = folder / f"{name.replace('-', '_')}-{pinned}"
    if not root.exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", name, "--dest", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, package], check=True)
        with tarfile.open(folder / f"{root.name}.tar.gz") as archive:
            # Leaves out the package itself, because the installed one is tested.
            wanted = (f"{root.name}/tests/", f"{root.name}/pyproject.toml")
            members = [member for member in archive if member.name.startswith(wanted)]
            archive.extractall(folder, members, filter="data")
    return root


def start(suite: dict[str, Any], root: Path, record: Path, *plugins: str) -> subprocess.Popen[bytes]:
    """Starts a run of a suite's tests."""
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
    """Returns a test's name with only the file name of its path."""
    file, name = test.split("::", 1)
    return f"{Path(file).name}::{name}"


def compared(suite: dict[str, Any], original: Ended, ours: Ended) -> tuple[dict[str, int], list[str]]:
    """Counts the results, and returns the deviations from the table."""

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
    # A test that is listed without parameters covers all of its parameters.
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
