"""A server that stands in for the providers: it enforces their rules, counts tokens, and follows a script."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

POLICY: dict[str, Any] = {
    "limits": {"body": 7000},
    "target": {"body": 3500},
    "start": "user_or_tool_pair",
    "stages": [{"kind": "clear_results", "keep": 2}, {"kind": "drop"}],
}
"""A policy that cuts several times in a task of 24 steps."""

STAND_IN = Path(__file__).parents[3] / "target" / "debug" / "stand-in"


class StandIn:
    """A running server."""

    def __init__(self, log: Path, *options: str) -> None:
        with log.open("w") as out:
            self.process = subprocess.Popen([STAND_IN, *options], stderr=out, stdout=subprocess.DEVNULL)
        begun = time.monotonic()
        while not (found := re.match(r"listening on (http://\S+)\n", log.read_text())):
            assert self.process.poll() is None and time.monotonic() - begun < 120, log.read_text()
            time.sleep(0.05)
        self.base = found[1]

    def report(self) -> Any:
        """Returns the server's record of its requests."""
        with urllib.request.urlopen(f"{self.base}/stand-in/report") as answer:
            return json.load(answer)


DOCS = Path(__file__).parents[3] / "docs"


def examples(page: str) -> dict[str, str]:
    """Returns the Python examples of a page by the headings above them."""
    found: dict[str, str] = {}
    for section in re.split(r"^#+ ", (DOCS / page).read_text(), flags=re.M):
        for number, example in enumerate(re.findall(r"```python\n(.*?)```", section, re.S)):
            heading = section.split("\n")[0]
            found[f"{heading} {number + 1}" if number else heading] = example
    return found


def run_example(code: str, folder: Path, server: StandIn) -> str:
    """Runs an example as a separate program, against a provider that enforces its rules. Returns what it prints."""
    environment = os.environ | {
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": f"{server.base}/v1",
        "OPENAI_API_BASE": f"{server.base}/v1",
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": server.base,
        "GOOGLE_API_KEY": "k",
        "GOOGLE_GEMINI_BASE_URL": server.base,
        "HAYSTACK_TELEMETRY_ENABLED": "False",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "OTEL_SDK_DISABLED": "true",
    }
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    assert server.report()["refused"] == []
    return done.stdout


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    """A provider whose models accept 12,000 tokens."""
    server = StandIn(tmp_path / "stand-in.log", "--window", "12000")
    yield server
    server.process.kill()
    server.process.wait()
