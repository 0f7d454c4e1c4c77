"""Agents and chat engines of LlamaIndex with the memory, against a provider that enforces its rules."""

import asyncio
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import POLICY, StandIn, examples, run_example
from llama_index.core.agent.workflow import AgentInput, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.workflow import Context
from llama_index.llms.openai_like import OpenAILike  # type: ignore[import-untyped]
from openai import BadRequestError
from test_mirror import threads_of_sessions

import lookback
from lookback.llama_index import LookbackAgent, LookbackMemory

TASK = "Run steps 1 to 24."


def run(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def model(stand_in: StandIn) -> OpenAILike:
    server: Any = {"api_base": f"{stand_in.base}/v1", "api_key": "k", "max_retries": 1}
    return OpenAILike(model="gpt-4o", is_chat_model=True, is_function_calling_model=True, **server)


def ask(agent: FunctionAgent, text: str, **more: Any) -> list[list[ChatMessage]]:
    """Has the agent answer, and returns the messages of each model call."""

    async def answer() -> list[list[ChatMessage]]:
        handler = agent.run(user_msg=text, max_iterations=100, **more)
        sent = [event.input async for event in handler.stream_events() if isinstance(event, AgentInput)]
        await handler
        return sent

    return asyncio.run(answer())


def agent(stand_in: StandIn, kind: type[FunctionAgent] = LookbackAgent, **more: Any) -> FunctionAgent:
    return kind(llm=model(stand_in), tools=[run], system_prompt="Be brief.", **more)


def results(messages: list[ChatMessage]) -> list[str]:
    return [message.content or "" for message in messages if message.role == MessageRole.TOOL]


def must_be_whole(messages: list[ChatMessage]) -> None:
    """Asserts that the conversation contains every step, as its tool returned it."""
    assert sorted(int(result.split()[1]) for result in results(messages)) == list(range(1, 25))
    assert all(len(result) > 1000 for result in results(messages))


def must_be_valid(messages: list[ChatMessage]) -> None:
    """Asserts that each call has its result, and each result its call."""
    calls = [block.tool_call_id for message in messages for block in message.blocks if isinstance(block, ToolCallBlock)]
    answered = [message.additional_kwargs["tool_call_id"] for message in messages if message.role == MessageRole.TOOL]
    assert sorted(map(str, calls)) == sorted(answered)


def written(messages: list[ChatMessage]) -> list[dict[str, Any]]:
    return [message.model_dump() for message in messages]


def nothing_was_refused(stand_in: StandIn) -> bool:
    report = stand_in.report()
    return (report["refused"], report["too_long"]) == ([], 0)


def test_without_it_the_model_refuses(stand_in: StandIn) -> None:
    with pytest.raises(BadRequestError):
        ask(agent(stand_in, FunctionAgent), TASK)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("streaming", [False, True])
def test_an_agent_keeps_a_window_and_its_conversation_whole(
    stand_in: StandIn, tmp_path: Path, stored: bool, streaming: bool
) -> None:
    store = tmp_path / "memory.db" if stored else None
    memory = LookbackMemory("chat", store=store, policy=POLICY)
    ask(agent(stand_in, streaming=streaming), TASK, memory=memory)
    must_be_whole(memory.get_all())
    again = LookbackMemory("chat", store=store, policy=POLICY) if store else memory
    ask(agent(stand_in, streaming=streaming), "And now?", memory=again)
    must_be_whole(again.get_all())
    assert nothing_was_refused(stand_in)
    if store is not None:
        kept = lookback.Session("llama-index/chat", store=store)
        said = [entry["text"] for entry in kept.history() if entry["role"] != "assistant"]
        assert said == [message.content for message in again.get_all() if message.role != MessageRole.ASSISTANT]


def test_a_history_that_the_caller_keeps_is_gone_on_with(stand_in: StandIn) -> None:
    memory = LookbackMemory("chat", policy=POLICY)
    ask(agent(stand_in), TASK, memory=memory)
    again = LookbackMemory("chat", policy=POLICY)
    ask(agent(stand_in), "And now?", chat_history=memory.get_all(), memory=again)
    must_be_whole(again.get_all())
    assert nothing_was_refused(stand_in)


def test_another_process_goes_on_with_what_is_stored(stand_in: StandIn, tmp_path: Path) -> None:
    memory = LookbackMemory("chat", store=tmp_path / "memory.db", policy=POLICY)
    memory.put(ChatMessage([ImageBlock(url="https://example.com/a.png"), TextBlock(text="What is this?")]))
    memory.put(ChatMessage("An apple.", role="assistant", additional_kwargs={"mine": 1}))
    sent = ask(agent(stand_in), TASK, memory=memory)
    again = LookbackMemory.from_dict(memory.to_dict())
    assert written(again.get_all()) == written(memory.get_all())
    assert again.get_all()[:2] == memory.get_all()[:2]
    resent = ask(agent(stand_in), "And now?", memory=again)
    assert written(resent[0])[: len(sent[-1])] == written(sent[-1])
    must_be_whole(again.get_all())
    assert nothing_was_refused(stand_in)


def test_between_cuts_a_request_extends_the_one_before(stand_in: StandIn) -> None:
    memory = LookbackMemory(policy=POLICY)
    sent = ask(agent(stand_in), TASK, memory=memory)
    must_be_whole(memory.get_all())
    extended = sum(later[: len(before)] == before for before, later in zip(sent, sent[1:]))
    assert len(sent) > 15 and extended > 0.5 * len(sent), extended
    for messages in sent:
        must_be_valid(messages)
    # Unchanged messages are the conversation's own objects.
    own = {id(message) for message in memory.get_all()}
    assert sum(id(message) in own for messages in sent for message in messages) > 3 * len(sent)


def test_a_refused_request_is_sent_again_with_less(stand_in: StandIn) -> None:
    memory = LookbackMemory(policy="none")
    ask(agent(stand_in), TASK, memory=memory)
    must_be_whole(memory.get_all())
    report = stand_in.report()
    assert report["too_long"] > 0 and report["refused"] == []


def test_an_agent_of_llama_index_has_a_window_of_the_runs_before(stand_in: StandIn) -> None:
    memory = LookbackMemory(policy=POLICY)
    sent = [
        ask(agent(stand_in, FunctionAgent), f"Run steps {first} to {first + 3}.", memory=memory)
        for first in range(1, 25, 4)
    ]
    must_be_whole(memory.get_all())
    assert nothing_was_refused(stand_in)
    for messages in [messages for run in sent for messages in run]:
        must_be_valid(messages)
    for run_of in sent:
        assert all(later[: len(before)] == before for before, later in zip(run_of, run_of[1:]))


def test_an_agents_state_is_seen_in_each_step(stand_in: StandIn) -> None:
    memory = LookbackMemory(policy=POLICY)
    sent = ask(agent(stand_in, initial_state={"city": "Bern"}), TASK, memory=memory)
    assert all(any("Bern" in (message.content or "") for message in messages) for messages in sent)
    must_be_whole(memory.get_all())
    assert nothing_was_refused(stand_in)


def test_a_run_that_ended_early_leaves_no_open_call(stand_in: StandIn) -> None:
    made = agent(stand_in, early_stopping_method="generate")
    memory = LookbackMemory(policy=POLICY)
    context: Any = Context(made)

    async def answer(text: str) -> None:
        await made.run(user_msg=text, memory=memory, ctx=context, max_iterations=2)

    asyncio.run(answer(TASK))
    asyncio.run(answer("And now?"))
    assert nothing_was_refused(stand_in)


def test_a_context_that_was_written_down_has_the_memory(stand_in: StandIn, tmp_path: Path) -> None:
    made = agent(stand_in)
    memory = LookbackMemory("chat", store=tmp_path / "memory.db", policy=POLICY)

    async def memory_of(context: Any) -> Any:
        await context.store.set("memory", memory)
        return await Context.from_dict(made, context.to_dict()).store.get("memory")

    memory.put(ChatMessage("Hello"))
    again = asyncio.run(memory_of(Context(made)))
    assert isinstance(again, LookbackMemory) and again is not memory
    assert again.to_dict() == memory.to_dict() and again.get_all() == memory.get_all()


def test_a_chat_engine_sees_a_window(stand_in: StandIn) -> None:
    memory = LookbackMemory(policy={"limits": {"messages": 6}, "target": {"messages": 3}, "stages": [{"kind": "drop"}]})
    engine = SimpleChatEngine.from_defaults(llm=model(stand_in), memory=memory, system_prompt="Be brief.")
    for number in range(8):
        engine.chat(f"Question {number}")
    asyncio.run(engine.achat("Question 8"))
    assert [message.content for message in engine.chat_history if message.role == MessageRole.USER] == [
        f"Question {number}" for number in range(9)
    ]
    assert len(memory.get()) <= 6
    engine.reset()
    assert (engine.chat_history, memory.get()) == ([], [])
    engine.chat("Anew")
    assert [message.content for message in memory.get()][:1] == ["Anew"]
    assert nothing_was_refused(stand_in)


def test_what_is_put_is_stored_at_once(tmp_path: Path) -> None:
    memory = LookbackMemory("chat", store=tmp_path / "memory.db")
    memory.put(ChatMessage("Hello"))
    memory.put(ChatMessage("Hi", role="assistant"))
    again = LookbackMemory("chat", store=tmp_path / "memory.db")
    assert again.get_all() == again.get() == memory.get_all()


def test_a_rewritten_conversation_is_followed() -> None:
    memory = LookbackMemory.from_defaults(chat_history=[ChatMessage(text) for text in ("One", "Two", "Three")])
    memory.set(memory.get_all()[2:])
    memory.put(ChatMessage("Four"))
    assert [message.content for message in memory.get()] == ["Three", "Four"]
    assert memory.get() == memory.get_all()


def test_calls_beside_the_blocks_are_calls() -> None:
    openai = {"id": "2", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    for call in (ToolSelection(tool_id="2", tool_name="look", tool_kwargs={}), openai):
        memory = LookbackMemory()
        memory.put(ChatMessage("Look"))
        memory.put(ChatMessage(role="assistant", additional_kwargs={"tool_calls": [call]}))
        memory.put(ChatMessage("A tree", role="tool", additional_kwargs={"tool_call_id": "2"}))
        assert all(shown is said for shown, said in zip(memory.get(), memory.get_all(), strict=True))


@pytest.mark.parametrize("stored", [False, True])
def test_pictures_stay_what_they_are(tmp_path: Path, stored: bool) -> None:
    picture = ImageBlock(image=b"\x89PNG\r\n\x1a\n" + bytes(100))
    asked = ChatMessage([TextBlock(text="What is this?"), picture])
    called = ChatMessage(role="assistant", blocks=[ToolCallBlock(tool_call_id="1", tool_name="look")])
    seen = ChatMessage(
        role="tool", blocks=[TextBlock(text="long " * 50_000), picture], additional_kwargs={"tool_call_id": "1"}
    )
    memory = LookbackMemory(store=tmp_path / "memory.db" if stored else None)
    memory.put_messages([asked, called, seen])
    window = memory.get()
    assert window[0] is asked and window[1] is called
    # The text of the result was truncated.
    assert window[2].blocks[-1] is picture and len(window[2].content or "") < len(seen.content or "")
    assert memory.get_all()[2] is seen


def test_the_example_of_the_page_runs(stand_in: StandIn, tmp_path: Path) -> None:
    assert run_example(examples("guides/adapters.md")["LlamaIndex"], tmp_path, stand_in).strip()
    assert (tmp_path / "memory.db").exists()


def test_a_store_holds_the_loop_up_nowhere(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of_sessions(monkeypatch)
    memory = LookbackMemory("task", store=tmp_path / "memory.db", policy="none")
    threads.clear()
    # The window is also reduced.
    ask(agent(stand_in), TASK, memory=memory)
    assert threads and threading.main_thread() not in threads
