"""Invalid input: an exception names the problem and its place, and nothing is written."""

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import lookback


def cyclic() -> dict[str, Any]:
    message: dict[str, Any] = {"role": "user"}
    message["content"] = [message]
    return message


class Endless:
    def model_dump(self, **_: object) -> "Endless":
        return self


class Raises:
    def model_dump(self, **_: object) -> object:
        raise KeyError("mine")


class Changes(dict[str, Any]):
    """A dictionary that changes while it is read."""


@pytest.mark.parametrize(
    ("message", "where", "words"),
    [
        ({"role": "user", "content": float("nan")}, "messages.content", "not a finite number"),
        ([{"role": "user", "content": ["a", "\ud800"]}], "messages[0].content[1]", "half of a character"),
        ({"role": "user", "\udfff": 1}, "messages", "half of a character"),
        ({"role": "user", 1: 2}, "messages", "a member's name is a str, and not int"),
        ({"role": "user", "content": {1, 2}}, "messages.content", "JSON has no set"),
        ({"role": "user", "content": b"bytes"}, "messages.content", "JSON has no bytes"),
        (object(), "messages", "JSON has no object"),
        (3, "messages[0]", "a message must be an object"),
        (Endless(), "messages", "nested too deep; it may contain itself"),
        ("not JSON", "messages", "a text has to be JSON"),
        (b"\xff", "messages", "not valid UTF-8 at byte 0"),
        ({"role": "pirate", "content": "Arr"}, "messages[0]", "unknown role `pirate`"),
        ({"role": "user", "content": 5}, "messages[0]", "`content` must be"),
    ],
)
def test_what_is_no_message_is_told_with_its_place(message: Any, where: str, words: str) -> None:
    session = lookback.Session("s")
    with pytest.raises(lookback.DecodeError) as raised:
        session.push(message)
    assert raised.value.where == where
    assert words in str(raised.value)
    assert isinstance(raised.value, ValueError)
    assert session.push({"role": "user", "content": "Hi"}) == [0], "nothing was written"


def test_what_contains_itself_is_told() -> None:
    with pytest.raises(lookback.DecodeError, match="it may contain itself"):
        lookback.Session("s").push(cyclic())


def test_what_an_object_raises_is_raised() -> None:
    with pytest.raises(KeyError, match="mine"):
        lookback.Session("s").push({"role": "user", "content": [Raises()]})


def test_any_mapping_is_a_message() -> None:
    session = lookback.Session("s")
    session.push((MappingProxyType({"role": "user", "content": "Hi"}), Changes(role="user", content="Ho")))
    assert [message["content"] for message in session.window().messages] == ["Hi", "Ho"]


def test_a_long_text_passes() -> None:
    session = lookback.Session("s")
    text = "A long text. " * 2_000_000
    session.push({"role": "user", "content": text})
    assert session.window().messages[0]["content"] == text


def test_the_objects_of_the_sdks_are_messages() -> None:
    anthropic = pytest.importorskip("anthropic.types")
    openai = pytest.importorskip("openai.types.chat")
    answer = {"role": "assistant", "content": "Hi", "refusal": None}
    session = lookback.Session("s")
    session.push(openai.ChatCompletionMessage.model_validate(answer))
    assert session.window().messages[-1] == answer
    session = lookback.Session("s", dialect="anthropic")
    session.push({"role": "user", "content": "Hi"})
    block = anthropic.ToolUseBlock.model_validate({"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}})
    session.push({"role": "assistant", "content": [anthropic.TextBlock(type="text", text="Yes"), block]})
    content = session.window().messages[1]["content"]
    assert content == [{"type": "text", "text": "Yes"}, {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}]


def test_a_session_of_another_process_is_told_after_a_fork() -> None:
    program = """
import os, lookback
session = lookback.Session("s")
if os.fork() == 0:
    try:
        session.push({"role": "user", "content": "Hi"})
    except lookback.LookbackError as error:
        assert "open it here again" in str(error)
        assert lookback.Session("t").push({"role": "user", "content": "Hi"}) == [0]
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=300)


@pytest.mark.parametrize("place", ["memory.db", "files/"])
def test_a_store_in_a_forked_process_is_told(tmp_path: Path, place: str) -> None:
    program = f"""
import os, signal, lookback
store = {str(tmp_path) + "/" + place!r}
def push():
    return lookback.Session("s", store=store).push({{"role": "user", "content": "Hi"}})
if os.fork() == 0:
    os._exit(7 if push() == [0] else 1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7, "nothing was open before this fork"
assert push() == [1]
if os.fork() == 0:
    signal.alarm(20)
    try:
        push()
    except lookback.LookbackError as error:
        os._exit(7 if "open stores after the fork" in str(error) else 1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=300)


def test_a_store_that_cannot_be_opened_is_told(tmp_path: Any) -> None:
    (tmp_path / "text.db").write_text("not a database, and long enough to be seen as none" * 20)
    with pytest.raises(lookback.StoreError) as raised:
        lookback.Session("s", store=tmp_path / "text.db")
    assert isinstance(raised.value, OSError) and "text.db" in str(raised.value)
    with pytest.raises(lookback.LookbackError):
        lookback.Session("../s")


@pytest.mark.parametrize(
    ("call", "where", "words"),
    [
        (lambda: lookback.Session("s", summarizer="x"), "summarizer", "not a function"),  # type: ignore[arg-type]
        (lambda: lookback.Session("s", on_compact_end=5), "on_compact_end", "not a function"),  # type: ignore[arg-type]
        (lambda: lookback.Session("s").preamble(system=5), "system", "not a text or a list of parts"),  # type: ignore[arg-type]
        (lambda: lookback.Session("s").preamble(tools="x"), "tools", "not a list"),
        (lambda: lookback.Memory("s").remember("finding", "x", confidence=float("nan")), "confidence", "not a finite"),
        (lambda: lookback.Memory("s").remember("finding", "x", confidence=5), "confidence", "from 0 to 1"),
        (lambda: lookback.Memory("s").remember("finding", "x", by="q"), "by", "not `person`, `model`"),  # type: ignore[arg-type]
        (lambda: lookback.Session("s").push({"role": "user", "n": 10**5000}), "messages.n", "too many digits"),
    ],
)
def test_what_has_no_meaning_is_refused_when_it_is_given(call: Any, where: str, words: str) -> None:
    with pytest.raises(lookback.DecodeError, match=words) as raised:
        call()
    assert raised.value.where == where


def test_the_place_of_what_contains_itself_is_short() -> None:
    with pytest.raises(lookback.DecodeError) as raised:
        lookback.Session("s").push(cyclic())
    assert raised.value.where.startswith("messages.content[0].content[0]") and len(raised.value.where) < 150


def test_a_number_of_any_length_can_be_read_again() -> None:
    session = lookback.Session("s")
    session.push('{"role":"user","content":"x","n":' + "1" * 5000 + ',"m":7}')
    [message] = session.messages()
    assert message["m"] == 7 and message["n"] == Decimal("1" * 5000)


@pytest.mark.parametrize("given", [bytes, bytearray, str, tuple])
def test_a_recording_is_taken_in_every_form_that_a_request_is(given: type, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    text = json.dumps(messages)
    recording: Any = tuple(messages) if given is tuple else text if given is str else given(text.encode())
    assert lookback.replay(recording)["total"]["calls"] == 1
