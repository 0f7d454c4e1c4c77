"""A server that stands in for the providers: it enforces their rules, counts tokens, and follows a script."""

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STAND_IN = Path(__file__).parents[3] / "target" / "debug" / "stand-in"


class StandIn:
    """The server, while it runs."""

    def __init__(self, log: Path, *options: str) -> None:
        with log.open("w") as out:
            self.process = subprocess.Popen([STAND_IN, *options], stderr=out, stdout=subprocess.DEVNULL)
        for _ in range(400):
            if found := re.match(r"listening on (http://\S+)\n", log.read_text()):
                self.base = found[1]
                return
            time.sleep(0.05)
        raise AssertionError(log.read_text())

    def report(self) -> Any:
        """What was seen."""
        with urllib.request.urlopen(f"{self.base}/stand-in/report") as answer:
            return json.load(answer)


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    """A provider whose models take 12,000 tokens."""
    server = StandIn(tmp_path / "stand-in.log", "--window", "12000")
    yield server
    server.process.kill()
    server.process.wait()
