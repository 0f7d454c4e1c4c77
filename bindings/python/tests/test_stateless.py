"""Single requests: their windows, repairs and errors."""

import json
from pathlib import Path

import pytest

import lookback

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_request_is_fitted() -> None:
    messages = [{"role": "user", "content": f"Question {number}"} for number in range(50)]
    window = lookback.fit(messages, policy="messages:max_messages=10")
    assert window.messages == messages[-10:]
    assert window.compacted
    dropped, *kept = window.why()
    assert (dropped["span"], dropped["action"]) == ([0, 40], "drop")
    assert dropped["words"] == "50 messages exceed the limit of 10; the target is 10"
    assert [(outcome["span"], outcome["action"]) for outcome in kept] == [([at, at + 1], "keep") for at in range(40, 50)]


def test_a_longer_request_begins_with_the_same_bytes() -> None:
    lines = [json.loads(line) for line in (EXAMPLES / "session.jsonl").read_text().splitlines()]
    policy = {"limits": {"tokens": 20_000}, "target": {"tokens": 8_000}}
    breaks, before = 0, b"["
    for end in [end for end, line in enumerate(lines) if line["role"] == "assistant" and end > 1]:
        sent = lookback.fit(lines[:end], policy=policy).json
        breaks += not sent.startswith(before.rstrip(b"]"))
        before = sent
    assert 0 < breaks < 10


def test_a_broken_request_is_told_and_repaired() -> None:
    broken = (EXAMPLES / "broken.json").read_text()
    for request in (broken, broken.encode(), json.loads(broken)):
        findings = lookback.check(request)
        assert {"rule", "path", "problem"} <= set(findings[0])
        assert "have the request repaired" in findings[0]["words"]
        repaired = lookback.repair(request)
        assert not [finding for finding in lookback.check(repaired.messages) if finding["severity"] == "refused"]


@pytest.mark.parametrize(
    ("policy", "words"),
    [("nope", "there is no policy"), ("turns:max_turns=x", "max_turns"), ({"limit": 3}, "limit"), ({"limits": float("nan")}, "finite")],
)
def test_a_wrong_policy_is_told(policy: object, words: str) -> None:
    with pytest.raises(lookback.LookbackError, match=words):
        lookback.fit([], policy=policy)  # type: ignore[arg-type]


def test_a_wrong_format_is_told() -> None:
    with pytest.raises(lookback.DecodeError, match="there is no format `latin`; there are openai-chat, anthropic"):
        lookback.check([], dialect="latin")
