"""The programs of the folder `examples` run, against a provider that enforces its rules."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import StandIn

EXAMPLES = Path(__file__).parents[3] / "examples" / "python"


def run(name: str, folder: Path, stand_in: StandIn) -> str:
    environment = os.environ | {
        "OPENAI_API_KEY": "k",
        "OPENAI_BASE_URL": f"{stand_in.base}/v1",
        "ANTHROPIC_API_KEY": "k",
        "ANTHROPIC_BASE_URL": stand_in.base,
    }
    asked = "Hello.\nAnd now?\n"
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, input=asked)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("name", "dialect"), [("openai_chat.py", "openai-chat"), ("anthropic_chat.py", "anthropic")])
def test_a_chat_goes_on_after_a_restart(name: str, dialect: str, tmp_path: Path, stand_in: StandIn) -> None:
    import lookback

    for _ in range(2):
        assert len(run(name, tmp_path, stand_in).splitlines()) >= 2
    kept = lookback.Session("chat-1", store=tmp_path / "memory.db", dialect=dialect).history()
    assert [entry["role"] for entry in kept] == ["user", "assistant"] * 4
    assert stand_in.report()["refused"] == []


def test_a_summary_takes_the_place_of_what_has_left(tmp_path: Path, stand_in: StandIn) -> None:
    printed = run("summaries.py", tmp_path, stand_in)
    assert "They spoke about" in printed and printed.endswith("20 messages are kept\n")


def test_facts_are_read_by_the_next_session(tmp_path: Path, stand_in: StandIn) -> None:
    printed = run("memory.py", tmp_path, stand_in)
    assert "is remembered." in printed and "Use pnpm, not npm." in printed and "5050" not in printed


def test_all_are_tested() -> None:
    text = Path(__file__).read_text()
    assert [file.name for file in EXAMPLES.glob("*.py") if f'"{file.name}"' not in text] == []
