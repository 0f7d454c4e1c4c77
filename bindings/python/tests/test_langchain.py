"""Agents of LangChain with the middleware, against a provider that enforces its rules."""

import asyncio
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import POLICY, StandIn
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from openai import BadRequestError
from test_mirror import threads_of_sessions

import lookback
from lookback.langchain import LookbackMiddleware

TASK = {"messages": [{"role": "user", "content": "Run steps 1 to 24."}]}
THREAD: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 200}


@tool
def run(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def agent(stand_in: StandIn, *middleware: Any, saver: Any = None) -> Any:
    model: Any = ChatOpenAI(model="gpt-4o", base_url=f"{stand_in.base}/v1", api_key=lambda: "k", max_retries=0)
    return create_agent(model, [run], middleware=middleware, system_prompt="Be brief.", checkpointer=saver)


def must_be_whole(messages: list[Any]) -> None:
    """Asserts that the state contains every step, as its tool returned it."""
    results = [message.text for message in messages if isinstance(message, ToolMessage)]
    assert [result.split("\n")[0] for result in sorted(results, key=lambda text: int(text.split()[1]))] == [
        f"STEP {step} OF 24" for step in range(1, 25)
    ]
    assert all(len(result) > 1000 for result in results)


def test_without_it_the_model_refuses(stand_in: StandIn) -> None:
    with pytest.raises(BadRequestError):
        agent(stand_in).invoke(TASK, THREAD)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("awaited", [False, True])
def test_an_agent_keeps_a_window_and_its_state_whole(
    stand_in: StandIn, tmp_path: Path, stored: bool, awaited: bool
) -> None:
    store = tmp_path / "memory.db" if stored else None
    saver = InMemorySaver()
    made = agent(stand_in, LookbackMiddleware(store=store, policy=POLICY), saver=saver)
    state = asyncio.run(made.ainvoke(TASK, THREAD)) if awaited else made.invoke(TASK, THREAD)
    must_be_whole(state["messages"])
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    # Another process continues the thread.
    made = agent(stand_in, LookbackMiddleware(store=store, policy=POLICY), saver=saver)
    state = made.invoke({"messages": [{"role": "user", "content": "And now?"}]}, THREAD)
    assert isinstance(state["messages"][-1], AIMessage) and state["messages"][-1].content
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    if store is not None:
        kept = lookback.Session("langchain/t", store=store)
        said = [entry["text"] for entry in kept.history() if entry["role"] != "assistant"]
        assert said == [message.text for message in state["messages"] if not isinstance(message, AIMessage)]


def test_between_cuts_a_request_extends_the_one_before(stand_in: StandIn) -> None:
    sent: list[list[Any]] = []

    class Watched(LookbackMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            def watched(request: Any) -> Any:
                sent.append(request.messages)
                return handler(request)

            return super().wrap_model_call(request, watched)

    state = agent(stand_in, Watched(policy=POLICY)).invoke(TASK, {"recursion_limit": 200})
    must_be_whole(state["messages"])
    extended = sum(later[: len(before)] == before for before, later in zip(sent, sent[1:]))
    assert len(sent) > 15 and extended > 0.5 * len(sent), extended
    for messages in sent:
        calls = {call["id"] for message in messages if isinstance(message, AIMessage) for call in message.tool_calls}
        assert calls == {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}


def test_a_refused_request_is_sent_again_with_less(stand_in: StandIn) -> None:
    state = agent(stand_in, LookbackMiddleware(policy="none")).invoke(TASK, THREAD)
    must_be_whole(state["messages"])
    report = stand_in.report()
    assert report["too_long"] > 0 and report["refused"] == []


def test_a_rewritten_state_is_followed(stand_in: StandIn) -> None:
    saver = InMemorySaver()
    made = agent(stand_in, LookbackMiddleware(), saver=saver)
    for text in ("One", "Two", "Three"):
        state = made.invoke({"messages": [{"role": "user", "content": text}]}, THREAD)
    removed = [RemoveMessage(message.id) for message in state["messages"][:4]]
    state = made.invoke({"messages": [*removed, HumanMessage("Four")]}, THREAD)
    assert [message.content for message in state["messages"] if isinstance(message, HumanMessage)] == ["Three", "Four"]
    assert stand_in.report()["refused"] == []


def test_an_agent_that_is_a_tool_has_a_session_of_its_own(stand_in: StandIn, tmp_path: Path) -> None:
    window = LookbackMiddleware(store=f"{tmp_path}/", policy=POLICY)
    helper = agent(stand_in, window)

    @tool("run")
    def ask(command: str) -> str:
        """Runs a command."""
        state = helper.invoke({"messages": [{"role": "user", "content": f"Say {command}"}]})
        return str(state["messages"][-1].content)

    model: Any = ChatOpenAI(model="gpt-4o", base_url=f"{stand_in.base}/v1", api_key=lambda: "k", max_retries=0)
    made = create_agent(model, [ask], middleware=[window])
    state = made.invoke({"messages": [{"role": "user", "content": "Run steps 1 to 3."}]}, THREAD)
    kept = lookback.Session("langchain/t", store=f"{tmp_path}/")
    assert [said["content"] for said in kept.messages()] == [said.content for said in state["messages"][:-1]]
    last = max(found["entry"] for found in kept.search("step", 100))
    assert last < 2 * len(state["messages"]), "nothing is written again"
    assert stand_in.report()["refused"] == []


def test_a_store_holds_the_loop_up_nowhere(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of_sessions(monkeypatch)
    made = agent(stand_in, LookbackMiddleware(store=tmp_path / "memory.db"))
    asyncio.run(made.ainvoke({"messages": [{"role": "user", "content": "Hello."}]}, THREAD))
    assert threads and threading.main_thread() not in threads


def test_a_store_that_cannot_be_opened_is_told(stand_in: StandIn, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database, and long enough to be seen as none" * 20)
    made = agent(stand_in, LookbackMiddleware(store=tmp_path / "text.db"))
    with pytest.raises(lookback.StoreError):
        made.invoke(TASK, THREAD)
