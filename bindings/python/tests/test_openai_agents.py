"""Agents of OpenAI's Agents SDK with the filter and the session, against a provider that enforces its rules."""

import asyncio
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SessionSettings,
    SQLiteSession,
    function_tool,
    handoff,
)
from agents.extensions.handoff_filters import remove_all_tools
from agents.memory import Session
from agents.testing import ScriptedModel, assistant_message, function_call
from conftest import POLICY, StandIn
from openai import AsyncOpenAI, BadRequestError
from test_mirror import threads_of_sessions

import lookback
from lookback.openai_agents import LookbackFilter, LookbackSession

TASK = "Run steps 1 to 24."


@function_tool
def run(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def agent(stand_in: StandIn, kind: Any = OpenAIResponsesModel, **more: Any) -> Agent[Any]:
    client = AsyncOpenAI(base_url=f"{stand_in.base}/v1", api_key="k", max_retries=0)
    options: dict[str, Any] = {"name": "worker", "instructions": "Be brief.", "tools": [run], **more}
    return Agent(model=kind(model="gpt-4o", openai_client=client), **options)


async def talk(made: Agent[Any], words: Any, window: Any, streamed: bool = False, **more: Any) -> Any:
    config = RunConfig(call_model_input_filter=window, tracing_disabled=True)
    if not streamed:
        return await Runner.run(made, words, run_config=config, max_turns=40, **more)
    result = Runner.run_streamed(made, words, run_config=config, max_turns=40, **more)
    async for _ in result.stream_events():
        pass
    return result


def outputs(items: Any) -> list[str]:
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def must_be_whole(items: Any) -> None:
    """Asserts that the items contain every step, as its tool returned it."""
    found = sorted(int(output.split()[1]) for output in outputs(items))
    assert found == list(range(1, 25))
    assert all(len(output) > 1000 for output in outputs(items))


class Watched(LookbackFilter):
    """A filter that records what it has returned."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent: list[list[Any]] = []

    async def __call__(self, data: Any) -> Any:
        answer = await super().__call__(data)
        self.sent.append(answer.input)
        return answer


def test_without_it_the_model_refuses(stand_in: StandIn) -> None:
    with pytest.raises(BadRequestError):
        asyncio.run(talk(agent(stand_in), TASK, None))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    ("kind", "streamed"),
    [(OpenAIResponsesModel, False), (OpenAIResponsesModel, True), (OpenAIChatCompletionsModel, False)],
)
def test_an_agent_keeps_a_window_and_its_items_whole(
    stand_in: StandIn, tmp_path: Path, kind: Any, streamed: bool, stored: bool
) -> None:
    store = tmp_path / "memory.db" if stored else None

    async def twice() -> Any:
        window = LookbackFilter("task", store=store, policy=POLICY)
        result = await talk(agent(stand_in, kind), TASK, window, streamed)
        must_be_whole(result.to_input_list())
        # Another process continues the conversation.
        window = LookbackFilter("task", store=store, policy=POLICY)
        words = [*result.to_input_list(), {"role": "user", "content": "And now?"}]
        return await talk(agent(stand_in, kind), words, window, streamed)

    result = asyncio.run(twice())
    must_be_whole(result.to_input_list())
    assert result.final_output
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    if store is not None:
        kept = lookback.Session("openai-agents/task", store=store, dialect="openai-responses")
        assert [said["text"] for said in kept.history() if said["role"] == "tool"] == outputs(result.to_input_list())


def test_between_cuts_a_request_extends_the_one_before(stand_in: StandIn) -> None:
    window, session = Watched("task", policy=POLICY), SQLiteSession("task")

    async def twice() -> None:
        await talk(agent(stand_in), "Run steps 1 to 12.", window, session=session)
        await talk(agent(stand_in), "Run steps 13 to 24.", window, session=session)
        must_be_whole(await session.get_items())

    asyncio.run(twice())
    extended = sum(later[: len(before)] == before for before, later in zip(window.sent, window.sent[1:]))
    assert len(window.sent) > 15 and extended > 0.7 * len(window.sent), extended
    for items in window.sent:
        calls = {item["call_id"] for item in items if item.get("type") == "function_call"}
        assert calls == {item["call_id"] for item in items if item.get("type") == "function_call_output"}


def test_a_run_that_is_refused_goes_on_with_less(stand_in: StandIn) -> None:
    window, session = LookbackFilter("task", policy="none"), SQLiteSession("task")

    async def recovered() -> Any:
        words: Any = TASK
        for _ in range(10):
            try:
                return await talk(agent(stand_in), words, window, session=session)
            except BadRequestError as error:
                await window.overflow(error)
                words = []
        raise AssertionError("it is refused again and again")

    assert asyncio.run(recovered()).final_output == "All steps up to 24 are done."
    must_be_whole(asyncio.run(session.get_items()))
    report = stand_in.report()
    assert report["too_long"] > 0 and report["refused"] == []


def test_what_is_no_overflow_or_cannot_become_smaller_is_raised_again(stand_in: StandIn) -> None:
    window, other = LookbackFilter("task"), ValueError("Something else.")

    async def refused() -> None:
        with pytest.raises(ValueError) as raised:
            await window.overflow(other)
        assert raised.value is other
        with pytest.raises(BadRequestError) as refusal:
            await talk(agent(stand_in), "A long question. " * 20_000, window)
        with pytest.raises(ValueError) as raised:
            await window.overflow(other)
        assert raised.value is other
        with pytest.raises(BadRequestError) as again:
            await window.overflow(refusal.value)
        assert again.value is refusal.value

    asyncio.run(refused())


@pytest.mark.parametrize("stored", [False, True])
def test_agents_that_are_tools_have_conversations_of_their_own(
    stand_in: StandIn, tmp_path: Path, stored: bool
) -> None:
    store = tmp_path / "memory.db" if stored else None
    window = Watched("task", store=store, policy=POLICY)
    tools = [agent(stand_in).as_tool(name, "Asks.", max_turns=40) for name in ("ask", "consult")]
    # Both tools begin with the same words at the same time.
    words = 'CALL ask {"input": "Run steps 1 to 12."} CALL consult {"input": "Run steps 1 to 12."}'
    result = asyncio.run(talk(agent(stand_in, tools=tools), words, window))
    assert outputs(result.to_input_list()) == ["All steps up to 12 are done."] * 2
    assert outputs(window.sent[-1]) == outputs(result.to_input_list())
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    if store is not None:
        kept = lookback.Session("openai-agents/task", store=store, dialect="openai-responses")
        assert len(kept.history()) == len(window.sent[-1]) - 2


def test_what_the_provider_keeps_is_left_alone() -> None:
    window = Watched("task")
    kept: list[Any] = [{"conversation_id": "c"}, {"previous_response_id": "r"}, {"auto_previous_response_id": True}]
    for options in kept:
        call = function_call("run", {"command": "echo 1"}, call_id="1")
        model = ScriptedModel([[call], [assistant_message("Done.")]])
        result = asyncio.run(talk(Agent("worker", model=model, tools=[run]), "Go.", window, **options))
        assert result.final_output == "Done."
        first, second = window.sent[-2:]
        assert first == [{"role": "user", "content": "Go."}]
        assert second == [{"type": "function_call_output", "call_id": "1", "output": "1\n"}]


def test_a_rewritten_history_is_followed(stand_in: StandIn) -> None:
    window = Watched("task", policy=POLICY)
    clerk = agent(stand_in, name="clerk", handoff_description="Answers.")
    worker = agent(stand_in, handoffs=[handoff(clerk, input_filter=remove_all_tools)])

    async def rewritten() -> None:
        result = await talk(worker, "Run steps 1 to 4.", window)
        words = [*result.to_input_list(), {"role": "user", "content": "CALL transfer_to_clerk {}"}]
        result = await talk(worker, words, window)
        assert result.last_agent is clerk
        before, after = window.sent[-2:]
        assert len(outputs(before)) == 4 and outputs(after) == []
        # The caller sends only the beginning of the history.
        words, calls = [words[0], {"role": "user", "content": "And now?"}], len(window.sent)
        await talk(worker, words, window)
        assert window.sent[calls] == words

    asyncio.run(rewritten())
    assert stand_in.report()["refused"] == []


@pytest.mark.parametrize(("stored", "streamed"), [(False, False), (True, True)])
def test_a_session_keeps_what_runs_say(stand_in: StandIn, tmp_path: Path, stored: bool, streamed: bool) -> None:
    store = tmp_path / "memory.db" if stored else None
    session = LookbackSession("task", store=store)
    window = LookbackFilter("task", store=store, policy=POLICY)

    async def twice() -> None:
        result = await talk(agent(stand_in), TASK, window, streamed, session=session)
        assert await session.get_items() == result.to_input_list()
        again = LookbackSession("task", store=store) if stored else session
        result = await talk(agent(stand_in), "And now?", window, streamed, session=again)
        items = await session.get_items()
        must_be_whole(items)
        assert items == result.to_input_list()

    asyncio.run(twice())
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)


@pytest.mark.parametrize("stored", [False, True])
def test_items_of_a_session_come_back_as_they_are(tmp_path: Path, stored: bool) -> None:
    session: Session = LookbackSession("s", store=tmp_path / "memory.db" if stored else None)
    assert isinstance(session, Session)
    items: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,iVBO"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "mine": 1.50},
        {"type": "function_call", "id": "__fake_id__", "call_id": "1", "name": "run", "arguments": "{ }"},
        {"type": "function_call_output", "call_id": "1", "output": "Grüße, \u0000 and 𝄞"},
        # An answer to no call, the same answer again, an empty message, and an item that another session has encrypted.
        {"type": "function_call_output", "call_id": "2", "output": "x"},
        {"type": "function_call_output", "call_id": "1", "output": "Grüße, \u0000 and 𝄞"},
        {"role": "user", "content": ""},
        {"__enc__": 1, "payload": "x"},
        {"role": "system", "content": "Be brief."},
    ]

    async def all_calls() -> None:
        assert await session.get_items() == [] and await session.pop_item() is None
        await session.add_items([])
        await session.add_items(items)
        assert await session.get_items() == items
        assert await session.get_items(limit=2) == items[-2:]
        assert (await session.get_items(limit=0), await session.get_items(limit=99)) == ([], items)
        # Removes items down into the model's parallel calls, and adds items again.
        for length in range(len(items) - 1, 2, -1):
            assert await session.pop_item() == items[length]
            assert await session.get_items() == items[:length]
        await session.add_items(items[3:])
        assert await session.get_items() == items
        await session.clear_session()
        assert await session.get_items() == []
        await session.add_items(items[:1])
        assert await session.get_items() == items[:1]

    asyncio.run(all_calls())


def test_sessions_of_one_name_see_each_others_items(tmp_path: Path) -> None:
    def opened(**options: Any) -> LookbackSession:
        return LookbackSession("s", store=tmp_path / "memory.db", **options)

    one, other = opened(), opened(session_settings=SessionSettings(limit=2))
    items: list[Any] = [{"role": "user", "content": str(number)} for number in range(4)]

    async def in_turns() -> None:
        await one.add_items(items[:1])
        await other.add_items(items[1:])
        assert (await one.get_items(), await other.get_items()) == (items, items[2:])
        assert [await session.pop_item() for session in (one, other, one)] == items[:0:-1]
        assert await other.get_items() == await one.get_items() == items[:1]
        assert await LookbackSession("t", store=tmp_path / "memory.db").get_items() == []

    asyncio.run(in_turns())


def test_a_store_holds_the_loop_up_nowhere(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of_sessions(monkeypatch)
    window = LookbackFilter("task", store=tmp_path / "memory.db")
    asyncio.run(talk(agent(stand_in), "Hello.", window))
    assert threads and threading.main_thread() not in threads
