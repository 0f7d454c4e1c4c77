"""Sessions: what goes in, what a call sends, and what is kept."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import lookback

RECORDED = Path(__file__).parents[3] / "examples" / "session.jsonl"


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def recorded() -> list[bytes]:
    return RECORDED.read_bytes().splitlines()


def test_a_message_comes_back_as_it_was_given() -> None:
    session = lookback.Session("s")
    message = {"role": "user", "content": [{"type": "text", "text": "é\u2028\U0001f600"}], "x": [1, 2.5, None, True, 10**30]}
    assert session.push(message) == [0]
    window = session.window()
    assert window.messages == [message]
    assert window.messages is window.messages
    assert (window.compacted, window.over, session.dialect) == (False, [], "openai-chat")


def test_text_keeps_its_bytes() -> None:
    session = lookback.Session("s")
    text = '{ "role":"user",  "content":"Hi" }'
    session.push([text, text.encode()])
    assert session.window().json == f"[{text},{text}]".encode()


def test_a_session_goes_on_where_it_was(tmp_path: Path) -> None:
    stores = [str(tmp_path / "memory.db"), str(tmp_path / "files") + "/"]
    for number, store in enumerate(stores):
        first = lookback.Session("s", store=store)
        first.push(user(f"Question {number}"))
        first.push({"role": "assistant", "content": "Answer"})
        again = lookback.Session("s", store=store)
        assert [message["role"] for message in again.window().messages] == ["user", "assistant"]
        assert again.search("question")[0]["entry"] == 0


def test_a_recorded_session_is_cut_and_stays_valid() -> None:
    session = lookback.Session("s", model="gpt-4o", policy="frugal")
    cuts = 0
    for line in recorded():
        if json.loads(line)["role"] == "assistant":
            window = session.window()
            cuts += window.compacted
            assert not [finding for finding in lookback.check(window.json) if finding["severity"] == "refused"]
            assert len(window.sources) == len(window.messages)
        session.push(line)
    assert cuts > 1
    assert {outcome["action"] for outcome in session.why()} >= {"keep", "drop"}


def test_sources_tell_what_is_as_it_came() -> None:
    session = lookback.Session("s", dialect="bedrock")
    positions = session.push([{"role": "user", "content": [{"text": text}]} for text in ("One.", "Two.")])
    source = session.window().sources[0]
    assert (source.kind, source.positions) == ("changed", positions), "Bedrock wants them in one message"
    call: dict[str, Any] = {"toolUse": {"toolUseId": "c1", "name": "read", "input": {}}}
    session.push({"role": "assistant", "content": [call]})
    assert [source.kind for source in session.window().sources] == ["changed", "unchanged", "own"]


def test_a_whole_history_is_recognized() -> None:
    session = lookback.Session("s")
    history = [user("One."), {"role": "assistant", "content": "Two."}]
    assert session.sync(history) == {"known": 0, "new": 2, "left": 0, "positions": [0, 1]}
    assert session.sync([*history, user("Three.")]) == {"known": 2, "new": 1, "left": 0, "positions": [0, 1, 2]}
    # A branch begins with its own entry and its own checkpoint.
    assert session.sync([user("Other.")]) == {"known": 0, "new": 1, "left": 3, "positions": [5]}


def test_each_message_has_a_position_also_one_that_is_not_written_again() -> None:
    session = lookback.Session("s", policy="message-window:max_messages=10")
    system = {"role": "system", "content": "Be brief."}
    assert session.push([system, user("One."), system]) == [0, 1, 0]
    assert session.push([system, user("Two.")]) == [0, 2]
    assert session.sync([system, user("One."), system, system, user("Two.")])["positions"] == [0, 1, 0, 0, 2]


def test_items_that_are_one_message_share_its_position() -> None:
    session = lookback.Session("s", dialect="openai-responses")
    call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    output = {"type": "function_call_output", "call_id": "c", "output": "1"}
    assert session.push([user("One."), said, call, output]) == [0, 1, 1, 2]
    assert [source.positions for source in session.window().sources] == [[0], [1], [1], [2]]


def test_an_answer_is_recorded_with_what_the_provider_reports() -> None:
    session = lookback.Session("s", model="gpt-4o")
    session.push(user("What is the capital of France? " * 100))
    counted = session.window().tokens
    session.answered(
        {
            "model": "gpt-4o",
            "choices": [{"message": {"role": "assistant", "content": "Paris."}}],
            "usage": {"prompt_tokens": counted * 2, "completion_tokens": 2},
        }
    )
    window = session.window()
    assert window.messages[-1] == {"role": "assistant", "content": "Paris."}
    assert window.tokens > counted * 1.2, "the report corrects the count"


def test_system_and_tools_are_counted() -> None:
    session = lookback.Session("s", model="claude-sonnet-5")
    session.push(user("Hi"))
    before = session.window().tokens
    session.preamble(system="Be brief. " * 50, tools=[{"name": "read", "input_schema": {"type": "object"}}])
    assert session.window().tokens > before + 90


class TooLong(Exception):
    """An error with the attributes that the SDKs' errors have."""

    status_code = 400

    class response:  # noqa: N801
        text = '{"error": {"code": "context_length_exceeded", "message": "maximum context length is 20 tokens"}}'


def test_a_refused_window_becomes_smaller() -> None:
    for error in (TooLong(), TooLong.response.text):
        session = lookback.Session("s")
        session.push([user(text) for text in ("first", "second", "third", "fourth")])
        assert len(session.overflow(error).messages) < 4
    other = RuntimeError("no credit")
    with pytest.raises(RuntimeError) as raised:
        session.overflow(other)
    assert raised.value is other
    with pytest.raises(lookback.LookbackError, match="too long"):
        session.overflow("no credit")
    with pytest.raises(lookback.Irreducible) as left:
        for _ in range(20):
            session.overflow(TooLong())
    assert left.value.pinned and left.value.reductions < 20


def test_threads_wait_for_each_other(tmp_path: Path) -> None:
    session = lookback.Session("s", store=tmp_path / "memory.db")

    def push(number: int) -> None:
        for turn in range(20):
            session.push(user(f"{number}.{turn}"))
            session.window()

    threads = [threading.Thread(target=push, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = [message["content"] for message in session.window().messages]
    assert len(said) == 80
    for number in range(4):
        own = [text for text in said if text.startswith(f"{number}.")]
        assert own == [f"{number}.{turn}" for turn in range(20)]


def test_each_message_has_its_position_also_if_the_window_does_not_show_it() -> None:
    session = lookback.Session("s", policy={"system": {"one": True}})
    system = {"role": "system", "content": "Be brief."}
    assert session.push([system, user("One.")]) == [0, 1]
    orphan = {"role": "tool", "tool_call_id": "none", "content": "A result of no call."}
    assert session.push([orphan, system, user("Two.")]) == [2, 0, 3]
    assert session.push(system) == [0]
