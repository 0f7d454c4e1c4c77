"""Agents of Pydantic AI with the capability, against a provider that enforces its rules."""

import asyncio
import json
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import POLICY, StandIn
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.capabilities import Capability, ModelFallback, ProcessHistory
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from test_mirror import threads_of_sessions

import lookback
from lookback.pydantic_ai import LookbackCapability, _Messages

TASK = "Run steps 1 to 24."


def run(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def agent(stand_in: StandIn, *capabilities: Any, sent: list[Any] | None = None, **more: Any) -> Agent[None, str]:
    async def watch(request: Any) -> None:
        if sent is not None:
            sent.append(json.loads(request.content)["messages"])

    http = DefaultAsyncHttpxClient(event_hooks={"request": [watch]})
    client = AsyncOpenAI(base_url=f"{stand_in.base}/v1", api_key="k", max_retries=0, http_client=http)
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(openai_client=client))
    options: Any = {"instructions": "Be brief.", "tools": [run], "capabilities": capabilities, **more}
    return Agent(model, **options)


def parts(messages: list[ModelMessage], kind: Any) -> list[Any]:
    return [part for message in messages if isinstance(message, kind) for part in message.parts]


def must_be_whole(messages: list[ModelMessage]) -> None:
    """Asserts that the history contains every step, as its tool returned it."""
    results = [str(part.content) for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    assert sorted(int(result.split()[1]) for result in results) == list(range(1, 25))
    assert all(len(result) > 1000 for result in results)


async def read(_: Any, events: Any) -> None:
    """Consumes a model's stream."""
    async for _ in events:
        pass


STREAMS = pytest.mark.parametrize("streams", [None, read], ids=["whole", "streamed"])


def test_without_it_the_model_refuses(stand_in: StandIn) -> None:
    with pytest.raises(ModelHTTPError):
        agent(stand_in).run_sync(TASK)


@pytest.mark.parametrize("stored", [False, True])
@STREAMS
def test_an_agent_keeps_a_window_and_its_history_whole(
    stand_in: StandIn, tmp_path: Path, stored: bool, streams: Any
) -> None:
    store = tmp_path / "memory.db" if stored else None
    first = agent(stand_in, LookbackCapability(store=store, policy=POLICY))
    result = first.run_sync(TASK, event_stream_handler=streams)
    must_be_whole(result.all_messages())
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    # Another process continues the conversation.
    history = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(result.all_messages()))
    made = agent(stand_in, LookbackCapability(store=store, policy=POLICY))
    again = made.run_sync("And now?", message_history=history)
    assert again.output and again.conversation_id == result.conversation_id
    must_be_whole(again.all_messages())
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    if store is not None:
        kept = lookback.Session(f"pydantic-ai/{again.conversation_id}", store=store)
        said = [entry["text"] for entry in kept.history() if entry["role"] != "assistant"]
        assert said == [getattr(part, "content") for part in parts(again.all_messages(), ModelRequest)]


def test_between_cuts_a_request_extends_the_one_before(stand_in: StandIn) -> None:
    sent: list[Any] = []
    made = agent(stand_in, LookbackCapability(policy=POLICY), sent=sent)
    must_be_whole(made.run_sync(TASK).all_messages())
    extended = sum(later[: len(before)] == before for before, later in zip(sent, sent[1:]))
    assert len(sent) > 15 and extended > 0.5 * len(sent), extended
    for messages in sent:
        calls = {call["id"] for message in messages for call in message.get("tool_calls", [])}
        assert calls == {message["tool_call_id"] for message in messages if message["role"] == "tool"}


@STREAMS
def test_a_refused_request_is_sent_again_with_less(stand_in: StandIn, streams: Any) -> None:
    result = agent(stand_in, LookbackCapability(policy="none")).run_sync(TASK, event_stream_handler=streams)
    must_be_whole(result.all_messages())
    report = stand_in.report()
    assert report["too_long"] > 0 and report["refused"] == []


def test_a_smaller_window_comes_before_another_model(stand_in: StandIn) -> None:
    fallback = ModelFallback(FunctionModel(lambda messages, info: ModelResponse([TextPart("Another model.")])))
    for capabilities in ([LookbackCapability(policy="none"), fallback], [fallback, LookbackCapability(policy="none")]):
        assert agent(stand_in, *capabilities).run_sync(TASK).output == "All steps up to 24 are done."


def test_what_cannot_become_smaller_raises_the_models_own_error(stand_in: StandIn) -> None:
    with pytest.raises(ModelHTTPError):
        agent(stand_in, LookbackCapability()).run_sync("A long question. " * 20_000)


def test_conversations_are_sessions_of_their_own(stand_in: StandIn, tmp_path: Path) -> None:
    made = agent(stand_in, LookbackCapability(store=tmp_path / "memory.db"))

    async def both() -> None:
        await asyncio.gather(*(made.run(f"I am {name}.", conversation_id=name) for name in ("a", "b")))

    asyncio.run(both())
    for name in ("a", "b"):
        [said] = lookback.Session(f"pydantic-ai/{name}", store=tmp_path / "memory.db").history()
        assert said["text"] == f"I am {name}."


def test_a_rewritten_history_is_followed(stand_in: StandIn) -> None:
    made = agent(stand_in, ProcessHistory(lambda messages: messages[-3:]), LookbackCapability())
    history: list[ModelMessage] = []
    for text in ("One", "Two", "Three"):
        history = made.run_sync(text, message_history=history).all_messages()
    history = made.run_sync("Four", message_history=history[2:]).all_messages()
    assert [part.content for part in parts(history, ModelRequest)] == ["Three", "Four"]
    assert stand_in.report()["refused"] == []


def test_a_system_prompt_that_changes_is_no_new_conversation(stand_in: StandIn, tmp_path: Path) -> None:
    sent: list[Any] = []
    made = agent(stand_in, LookbackCapability(store=tmp_path / "memory.db"), sent=sent)
    times = iter(range(3))
    made.system_prompt(dynamic=True)(lambda: f"It is {next(times)} o'clock.")
    result = made.run_sync("One")
    for text in ("Two", "Three"):
        result = made.run_sync(text, message_history=result.all_messages())
    assert sent[-1][0]["content"] == "It is 2 o'clock."
    kept = lookback.Session(f"pydantic-ai/{result.conversation_id}", store=tmp_path / "memory.db")
    assert [entry["text"] for entry in kept.history() if entry["role"] == "user"] == ["One", "Two", "Three"]
    assert [entry["position"] for entry in kept.history()][:2] == [1, 2]


def test_a_cut_hides_no_tool_and_no_instruction() -> None:
    seen: list[tuple[list[ModelMessage], AgentInfo]] = []
    asks = [ToolCallPart("search_tools", {"queries": ["weather"]}), ToolCallPart("load_capability", {"id": "extra"})]

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append((messages, info))
        calls = [*asks, *(ToolCallPart("read", {}) for _ in range(12))]
        step = len(seen) - 1
        return ModelResponse([calls[step] if step < len(calls) else TextPart("Done.")])

    def read() -> str:
        return "word " * 400

    def weather() -> str:
        """Tells the weather."""
        return "Sunny."

    def special() -> str:
        return "Special."

    extra = Capability[None](id="extra", description="More.", defer_loading=True, tools=[special], instructions="Ask.")
    window = LookbackCapability(policy=POLICY | {"limits": {"body": 3000}, "target": {"body": 800}})
    tools: Any = [read, Tool(weather, defer_loading=True)]
    made = Agent(FunctionModel(answer), tools=tools, capabilities=[extra, window])

    @made.instructions(name="mode", on_change="append")
    def mode(ctx: RunContext[None]) -> str:
        return "Be quick." if ctx.run_step < 3 else "Be slow."

    made.run_sync("Go.")
    messages, info = seen[-1]
    assert len(messages) < 15
    assert {"read", "weather", "special"} <= {tool.name for tool in info.function_tools}
    words = f"{info.instructions} {[part.content for part in parts(messages, ModelRequest)]}"
    assert "Ask." in words and words.rindex("Be slow.") > words.rindex("Be quick.")


OLD = pytest.mark.filterwarnings("ignore:.RetryPromptPart. is deprecated")
PICTURE = BinaryContent(b"\x89PNG\r\n\x1a\n" + bytes(100), media_type="image/png")


def conversation() -> list[ModelMessage]:
    """Returns a history with everything that only the framework knows."""
    return [
        ModelRequest([SystemPromptPart("Be brief."), UserPromptPart(["What is this?", PICTURE])]),
        ModelResponse([ThinkingPart("Hm.", signature="c2ln"), ToolCallPart("look", {"at": 1}, "c1")]),
        # The user writes while the tool runs.
        ModelRequest([UserPromptPart("Hurry."), ToolReturnPart("look", ["It is " + "red. " * 400, PICTURE], "c1")]),
        ModelResponse([NativeToolCallPart("web", {"q": "red"}, "n1"), NativeToolReturnPart("web", {"hits": 2}, "n1")]),
        ModelRequest([RetryPromptPart("Use the tool.")]),
        ModelResponse([TextPart("So I do."), ToolCallPart("look", '{"at": "x"}', "c2")]),
        ModelRequest([RetryPromptPart("Not a number.", tool_name="look", tool_call_id="c2")]),
        ModelResponse([ToolCallPart("look", {"at": 2}, "c3"), ToolCallPart("look", {"at": 3}, "c4")]),
        ModelRequest([ToolReturnPart("look", {"a": 1}, "c3"), ToolReturnPart("look", "No.", "c4", outcome="failed")]),
    ]


@OLD
def test_unchanged_messages_are_the_historys_own() -> None:
    mirror = _Messages("a", policy="none")
    history = conversation()
    assert all(shown is message for shown, message in zip(mirror.window(history), history, strict=True))
    # A run begins with copies of the messages.
    copies = [replace(message) for message in history]
    assert all(shown is message for shown, message in zip(mirror.window(copies), copies, strict=True))
    assert {entry["position"] for entry in mirror.session.history()} == set(range(12))


@OLD
def test_a_request_keeps_the_parts_that_are_shown() -> None:
    stage = {"kind": "truncate_results", "head": 20, "tail": 0, "keep": 1}
    policy = {"limits": {"body": 200}, "target": {"body": 100}, "stages": [stage]}
    history = conversation()
    note = ToolAvailabilityDeltaPart(tools_added=["look"])
    said = history[2].parts[0]
    history[2] = ModelRequest([*parts(history[2:3], ModelRequest), note])
    window = _Messages("a", policy=policy).window(history)
    result, words, kept = window[2].parts
    assert isinstance(result, ToolReturnPart) and (result.tool_name, result.tool_call_id) == ("look", "c1")
    text, picture = result.content_items(mode="str")
    assert str(text).startswith("It is red.") and len(str(text)) < 200 and picture is PICTURE
    assert words is said and kept is note
    assert [shown is message for shown, message in zip(window, history)] == [True, True, False] + [True] * 6


@OLD
def test_an_old_retry_stays_a_result() -> None:
    history = conversation()
    history[6] = ModelRequest([RetryPromptPart("Not a number. " * 90, tool_name="look", tool_call_id="c2")])
    policy = {"limits": {"body": 200}, "target": {"body": 100}, "stages": [{"kind": "clear_results", "keep": 1}]}
    [result] = _Messages("a", policy=policy).window(history)[6].parts
    assert isinstance(result, ToolReturnPart) and (result.tool_name, result.tool_call_id) == ("look", "c2")
    assert result.outcome == "retried" and len(str(result.content)) < 100


def test_a_broken_history_is_repaired() -> None:
    history: list[ModelMessage] = [
        ModelRequest([UserPromptPart("Go.")]),
        ModelResponse([ToolCallPart("look", {"at": 1}, "c1"), ToolCallPart("look", "not json", "c2")]),
        ModelRequest([ToolReturnPart("look", "Red.", "c1")]),
        ModelRequest([UserPromptPart("And?")]),
    ]
    mirror = _Messages("a")
    window = mirror.window(history)
    made = window[3]
    [result] = made.parts
    assert isinstance(result, ToolReturnPart) and (result.tool_name, result.tool_call_id) == ("look", "c2")
    assert window == [*history[:3], made, history[3]] and mirror.window(history) == window
    # Two calls have the same identifier.
    history[1:3] = [ModelResponse([ToolCallPart("look", {"at": at}, "c1") for at in (1, 2)])]
    calls, results = (parts(_Messages("b").window(history), kind) for kind in (ModelResponse, ModelRequest))
    assert len({call.tool_call_id for call in calls}) == 2 and [call.args_as_dict()["at"] for call in calls] == [1, 2]
    assert [call.tool_call_id for call in calls] == [result.tool_call_id for result in results[1:-1]]


def test_a_request_without_words_is_sent() -> None:
    history: list[ModelMessage] = [ModelRequest([], instructions="Begin.")]
    assert _Messages("a").window(history) == history


def test_a_store_holds_the_loop_up_nowhere(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of_sessions(monkeypatch)
    made = agent(stand_in, LookbackCapability(store=tmp_path / "memory.db", policy="none"))
    # The window is also reduced.
    asyncio.run(made.run(TASK))
    assert threads and threading.main_thread() not in threads
