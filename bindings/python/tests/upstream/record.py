"""A pytest plugin that records how each test ended, and which tests called the adapter."""

import json
import os
from pathlib import Path

import pytest

_passed: dict[str, bool] = {}
_reached: set[str] = set()


def reach() -> None:
    """Records that the current test has called the adapter."""
    _reached.add(os.environ["PYTEST_CURRENT_TEST"].rsplit(" (", 1)[0])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # A test has three reports: of its setup, its call and its teardown.
    _passed[report.nodeid] = report.passed and _passed.get(report.nodeid, True)


def pytest_sessionfinish() -> None:
    Path(os.environ["RECORD"]).write_text(json.dumps({"passed": _passed, "reached": sorted(_reached)}))
