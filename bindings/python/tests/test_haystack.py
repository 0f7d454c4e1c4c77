"""Agents of Haystack with the chat generator, against a provider that enforces its rules."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Annotated, Any

import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
from conftest import POLICY, StandIn
from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, TextContent, ToolCall
from haystack.tools import tool
from haystack.utils import Secret
from openai import BadRequestError

import lookback
from lookback.haystack import LookbackChatGenerator, _Messages

TASK = ChatMessage.from_user("Run steps 1 to 24.")


@tool
def run(command: Annotated[str, "What to run"]) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def generator(stand_in: StandIn, kind: Any = OpenAIChatGenerator) -> Any:
    key = Secret.from_env_var("HAYSTACK_TEST_KEY")
    return kind(api_key=key, model="gpt-4o", api_base_url=f"{stand_in.base}/v1", max_retries=0)


def ask(chat_generator: Any, messages: list[ChatMessage], awaited: bool = False) -> list[ChatMessage]:
    """Returns the messages of an agent after a run."""
    agent = Agent(chat_generator=chat_generator, tools=[run], system_prompt="Be brief.")
    result = asyncio.run(agent.run_async(messages=messages)) if awaited else agent.run(messages=messages)
    said: list[ChatMessage] = result["messages"]
    return said


def results(messages: list[ChatMessage]) -> list[Any]:
    return [result.result for message in messages for result in message.tool_call_results]


def must_be_whole(messages: list[ChatMessage]) -> None:
    """Asserts that the messages contain every step, as its tool returned it."""
    assert sorted(int(result.split()[1]) for result in results(messages)) == list(range(1, 25))
    assert all(len(result) > 1000 for result in results(messages))


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYSTACK_TEST_KEY", "k")


def test_without_it_the_model_refuses(stand_in: StandIn) -> None:
    with pytest.raises(BadRequestError):
        ask(generator(stand_in), [TASK])


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("awaited", [False, True])
def test_an_agent_keeps_a_window_and_its_messages_whole(
    stand_in: StandIn, tmp_path: Path, stored: bool, awaited: bool
) -> None:
    store = tmp_path / "memory.db" if stored else None

    def made() -> LookbackChatGenerator:
        return LookbackChatGenerator(generator(stand_in), "task", store=store, policy=POLICY)

    messages = ask(made(), [TASK], awaited)
    must_be_whole(messages)
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    # Another process continues the conversation.
    messages = ask(made(), [*messages[1:], ChatMessage.from_user("And now?")], awaited)
    must_be_whole(messages)
    assert messages[-1].text
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    if store is not None:
        log = lookback.Session("task", store=store)
        said = [entry["text"] for entry in log.history() if entry["role"] in ("user", "tool")]
        assert said == [TASK.text, *results(messages), "And now?"]


class Watched:
    """A generator without an asynchronous call, which records the messages that it is given."""

    def __init__(self, other: Any) -> None:
        self.other = other
        self.given: list[list[ChatMessage]] = []

    def run(self, messages: list[ChatMessage], tools: Any = None) -> Any:
        self.given.append(messages)
        return self.other.run(messages=messages, tools=tools)


@pytest.mark.parametrize("awaited", [False, True])
def test_between_cuts_a_request_extends_the_one_before(stand_in: StandIn, awaited: bool) -> None:
    watched = Watched(generator(stand_in))
    ask(LookbackChatGenerator(watched, "task", policy=POLICY), [TASK], awaited)
    sent: Any = [[message.to_openai_dict_format() for message in messages] for messages in watched.given]
    extended = sum(later[: len(before)] == before for before, later in zip(sent, sent[1:]))
    assert len(sent) > 15 and extended > 0.5 * len(sent), extended
    for messages in sent:
        calls = {call["id"] for message in messages for call in message.get("tool_calls", [])}
        assert calls == {message["tool_call_id"] for message in messages if message["role"] == "tool"}


@pytest.mark.parametrize(("kind", "awaited"), [(OpenAIChatGenerator, False), (OpenAIResponsesChatGenerator, True)])
def test_a_refused_request_is_sent_again_with_less(stand_in: StandIn, kind: Any, awaited: bool) -> None:
    must_be_whole(ask(LookbackChatGenerator(generator(stand_in, kind), "task", policy="none"), [TASK], awaited))
    report = stand_in.report()
    assert report["too_long"] > 0 and report["refused"] == []


def test_a_stream_is_begun_again_with_less(stand_in: StandIn) -> None:
    said: list[str] = []
    agent = Agent(
        chat_generator=LookbackChatGenerator(generator(stand_in), "task", policy="none"),
        tools=[run],
        streaming_callback=lambda chunk: said.append(chunk.content),
    )
    must_be_whole(agent.run(messages=[TASK])["messages"])
    assert "".join(said).endswith("All steps up to 24 are done.")
    assert stand_in.report()["too_long"] > 0


def test_what_cannot_become_smaller_raises_the_providers_error(stand_in: StandIn) -> None:
    long = ChatMessage.from_user("A long question. " * 20_000)
    with pytest.raises(BadRequestError, match="maximum context length"):
        ask(LookbackChatGenerator(generator(stand_in), "task"), [long])


def test_a_rewritten_history_is_followed(stand_in: StandIn) -> None:
    made = LookbackChatGenerator(generator(stand_in), "task")
    messages: list[ChatMessage] = []
    for text in ("One", "Two", "Three"):
        messages = ask(made, [*messages[1:], ChatMessage.from_user(text)])
    messages = ask(made, [*messages[5:], ChatMessage.from_user("Four")])
    assert [message.text for message in messages if message.is_from("user")] == ["Three", "Four"]
    assert stand_in.report()["refused"] == []


def test_a_pipeline_is_saved_with_it(stand_in: StandIn, tmp_path: Path) -> None:
    pipeline = Pipeline()
    made = LookbackChatGenerator(generator(stand_in), "task", store=tmp_path / "memory.db", policy=POLICY)
    pipeline.add_component("agent", Agent(chat_generator=made, tools=[run]))
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["lookback.haystack", __name__])
    must_be_whole(loaded.run({"agent": {"messages": [TASK]}})["agent"]["messages"])
    assert len(lookback.Session("task", store=tmp_path / "memory.db").history()) > 24
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)


def test_the_parts_of_messages_are_kept() -> None:
    picture = ImageContent(base64_image="iVBORw0KGgo=" * 9, mime_type="image/png", validation=False)
    calls = [ToolCall(tool_name="run", arguments={"command": "ls"}, id=name, extra={"mine": 1}) for name in "ab"]
    long = "\n".join(map(str, range(5000)))
    messages = [
        ChatMessage.from_user(content_parts=["What is this?", picture]),
        ChatMessage.from_assistant("I look.", tool_calls=calls, reasoning="Hm.", meta={"usage": {}}),
        ChatMessage.from_tool([TextContent("A picture."), picture], origin=calls[0]),
        ChatMessage.from_tool(long, origin=calls[1], meta={"mine": 2}),
    ]
    assert all(a is b for a, b in zip(_Messages("whole", policy="none").window(messages), messages, strict=True))
    *before, shown = _Messages("less").window(messages)
    assert all(a is b for a, b in zip(before, messages[:3], strict=True))
    [result] = shown.tool_call_results
    assert (shown.meta, result.origin) == ({"mine": 2}, calls[1]) and len(result.result) < len(long)
    # The user writes before the second call is answered.
    own = _Messages("mended").window([*messages[:3], ChatMessage.from_user("Stop.")])[3]
    assert own.tool_call_result and own.meta == {"lookback": "lookback-4"}
    assert (own.tool_call_result.origin.id, own.tool_call_result.origin.tool_name) == ("b", "run")


def test_calls_without_identifiers_keep_their_results() -> None:
    messages = [ChatMessage.from_user("Go.")]
    for step in range(40):
        call = ToolCall(tool_name="run", arguments={"step": step})
        messages.append(ChatMessage.from_assistant(tool_calls=[call]))
        messages.append(ChatMessage.from_tool(f"{step} " * 400, origin=call))
    window = _Messages("task", policy=POLICY).window(messages)
    assert len(str(results(window))) < 0.5 * len(str(results(messages)))
    assert [call for message in window for call in message.tool_calls] == [
        result.origin for message in window for result in message.tool_call_results
    ]
