"""Policies, presets, prices, replays, pictures for notebooks, and the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lookback

EXAMPLES = Path(__file__).parents[3] / "examples"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_a_policy_is_a_value(tmp_path: Path) -> None:
    policy = lookback.Policy("turns:max_turns=8")
    assert policy == lookback.Policy(policy.to_dict()) == lookback.Policy("turns:max_turns=8")
    assert policy != lookback.Policy() and policy.to_dict()["limits"]["turns"] == 8
    file = tmp_path / "policy.toml"
    file.write_text(policy.to_toml())
    assert lookback.Policy(str(file)) == policy
    session = lookback.Session("s", policy=policy)
    session.set_policy("messages:max_messages=1")
    session.push([user("One."), {"role": "assistant", "content": "Two."}, user("Three.")])
    assert session.window().messages == [user("Three.")]


@pytest.mark.parametrize("wrong", ["turns:max_turns=-1", "nothing", {"limits": {"turns": "many"}}, "a\nb"])
def test_a_wrong_policy_is_told(wrong: Any) -> None:
    with pytest.raises(lookback.PolicyError):
        lookback.Policy(wrong)


def test_presets_and_prices_are_listed() -> None:
    names = [preset["name"] for preset in lookback.presets()]
    assert "default" in names and all(lookback.Policy(name) for name in names if name != "message-window")
    assert "anthropic-5m" in lookback.prices()


def test_a_recording_is_replayed() -> None:
    replay = lookback.replay(EXAMPLES / "session.jsonl")
    assert replay["total"]["calls"] == 78 == len(replay["recordings"][0]["calls"])
    assert replay["total"]["invalid_requests"] == 0
    whole = lookback.replay(str(EXAMPLES / "session.jsonl"), policy="none")
    assert replay["total"]["cost"] < whole["total"]["cost"]
    messages = [user("One."), {"role": "assistant", "content": "Two."}]
    assert lookback.replay(messages, price="openai")["total"]["calls"] == 1
    with pytest.raises(lookback.DecodeError, match="there is no price"):
        lookback.replay(messages, price="gold")
    with pytest.raises(lookback.DecodeError, match="cannot read"):
        lookback.replay("nothing.jsonl")


def test_a_receipt_has_every_call() -> None:
    session = lookback.Session("s")
    session.push(user("One."))
    session.window()
    session.push({"role": "assistant", "content": "Two."})
    receipt = session.receipt()
    assert [call["call"] for call in receipt["calls"]] == [1] and receipt["total"]["cost"] > 0


def test_a_session_goes_on_with_a_task(tmp_path: Path) -> None:
    session = lookback.Session("s", store=tmp_path / "memory.db")
    for number in range(20):
        session.push([user(f"Question {number}?"), {"role": "assistant", "content": "Yes."}])
    again = lookback.Session("s", store=tmp_path / "memory.db")
    assert again.resume(user("And now?"), turns=2) == {"turns": 2, "unfinished": False}
    assert len(again.window().messages) == 5
    with pytest.raises(lookback.DecodeError, match="one message"):
        again.resume([user("a"), user("b")])


def test_the_messages_are_those_that_came() -> None:
    session = lookback.Session("s", policy="messages:max_messages=1")
    given = [user("One."), {"role": "assistant", "content": "Two.", "extra": 1.0}, user("Three.")]
    session.push(given)
    assert len(session.window().messages) == 1
    assert session.messages() == given


def test_a_window_of_a_session_knows_why_it_was_cut_also_later() -> None:
    session = lookback.Session("s", policy="messages:max_messages=2")
    session.push([user("One."), {"role": "assistant", "content": "Two."}, user("Three.")])
    window = session.window()
    before = window.why()
    assert before == session.why() and before[0]["action"] == "drop"
    session.push([{"role": "assistant", "content": "Four."}, user("Five.")])
    session.window()
    assert window.why() == before


def test_a_notebook_shows_a_picture_and_a_table() -> None:
    session = lookback.Session("<script>", policy="messages:max_messages=2")
    session.push([user("<b>One.</b>"), {"role": "assistant", "content": "Two."}, user("Three.")])
    for shown in (session.window()._repr_html_(), session._repr_html_()):
        assert "<svg" in shown and "<table>" in shown and "drop" in shown
        assert "<script>" not in shown and "<b>One" not in shown


def command(*args: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "lookback", *args], capture_output=True, text=True, cwd=cwd, stdin=subprocess.DEVNULL
    )


def test_the_command_line_comes_with_the_package(tmp_path: Path) -> None:
    done = command("replay", str(EXAMPLES / "session.jsonl"), "--json", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[-1])["calls"] == 78
    assert command("--version", cwd=tmp_path).stdout.startswith("lookback ")
    wrong = command("replay", "nothing", cwd=tmp_path)
    assert wrong.returncode == 2 and "nothing" in wrong.stderr
    no_command = command("nonsense", cwd=tmp_path)
    assert no_command.returncode == 2 and "nonsense" in no_command.stderr


def test_an_import_brings_no_asyncio() -> None:
    program = "import sys, lookback; print('asyncio' in sys.modules); lookback.AsyncSession; lookback.wrap; print(dir(lookback))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ})
    assert done.stdout.startswith("False\n") and "AsyncSession" in done.stdout, done.stderr
