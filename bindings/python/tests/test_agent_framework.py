"""Agents of Microsoft's Agent Framework with the middleware, against a provider that enforces its rules."""

import asyncio
import gc
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

os.environ |= {"AGENT_FRAMEWORK_USER_AGENT_DISABLED": "true", "ENABLE_INSTRUMENTATION": "false"}
from agent_framework import (
    Agent,
    AgentSession,
    ChatMiddleware,
    ChatResponseUpdate,
    Content,
    FileHistoryProvider,
    InMemoryHistoryProvider,
    Message,
    tool,
)
from agent_framework.exceptions import ChatClientException, ChatClientInvalidRequestException
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from conftest import POLICY, StandIn
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from test_mirror import threads_of_sessions

import lookback
from lookback.agent_framework import LookbackMiddleware, _Messages

TASK = "Run steps 1 to 24."
KINDS = [(OpenAIChatCompletionClient, False), (OpenAIChatClient, True)]


@tool
def run(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def agent(stand_in: StandIn, *middleware: Any, kind: Any = OpenAIChatCompletionClient, **more: Any) -> Agent[Any]:
    # Each run has its own event loop, so no connection may outlive the run.
    options: Any = {"max_retries": 0, "default_headers": {"Connection": "close"}, "http_client": more.pop("http", None)}
    client = kind(model="gpt-4o", async_client=AsyncOpenAI(base_url=f"{stand_in.base}/v1", api_key="k", **options))
    return Agent(client, "Be brief.", name="Bob", tools=[run], middleware=middleware, **more)


async def ask(made: Agent[Any], text: str, session: AgentSession | None = None, stream: bool = False) -> str:
    """Returns the agent's answer."""
    if stream:
        return (await made.run(text, session=session, stream=True).get_final_response()).text
    return (await made.run(text, session=session)).text


def results(messages: list[Message]) -> list[str]:
    contents = [content for message in messages for content in message.contents]
    return [content.result for content in contents if content.type == "function_result"]


def must_be_whole(messages: list[Message]) -> None:
    """Asserts that the history contains every step, as its tool returned it."""
    assert sorted(int(result.split()[1]) for result in results(messages)) == list(range(1, 25))
    assert all(len(result) > 1000 for result in results(messages))


def kept(session: AgentSession) -> list[Message]:
    messages: list[Message] = session.state[InMemoryHistoryProvider.DEFAULT_SOURCE_ID]["messages"]
    return messages


def test_without_it_the_model_refuses(stand_in: StandIn) -> None:
    with pytest.raises(ChatClientException):
        asyncio.run(ask(agent(stand_in), TASK))


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(("kind", "stream"), KINDS)
def test_an_agent_keeps_a_window_and_its_history_whole(
    stand_in: StandIn, tmp_path: Path, stored: bool, kind: Any, stream: bool
) -> None:
    store = tmp_path / "memory.db" if stored else None

    def made() -> Agent[Any]:
        middleware = LookbackMiddleware(store=store, policy=POLICY)
        return agent(stand_in, middleware, kind=kind, default_options={"store": False})

    session = AgentSession(session_id="s")
    asyncio.run(ask(made(), TASK, session, stream))
    must_be_whole(kept(session))
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    # Another process continues the session.
    session = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
    assert asyncio.run(ask(made(), "And now?", session, stream))
    must_be_whole(kept(session))
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    if store is not None:
        log = lookback.Session("agent_framework/s", store=store)
        said = [entry["text"] for entry in log.history() if entry["role"] != "assistant"]
        assert said == [TASK, *results(kept(session)), "And now?"]


def test_between_cuts_a_request_extends_the_one_before(stand_in: StandIn) -> None:
    sent: list[list[Any]] = []

    async def note(request: Any) -> None:
        sent.append(json.loads(request.content)["messages"])

    http = DefaultAsyncHttpxClient(event_hooks={"request": [note]})
    asyncio.run(ask(agent(stand_in, LookbackMiddleware(policy=POLICY), http=http), TASK))
    extended = sum(later[: len(before)] == before for before, later in zip(sent, sent[1:]))
    assert len(sent) > 15 and extended > 0.5 * len(sent), extended
    for messages in sent:
        calls = {call["id"] for message in messages for call in message.get("tool_calls", [])}
        assert calls == {message["tool_call_id"] for message in messages if message["role"] == "tool"}


@pytest.mark.parametrize(("kind", "stream"), KINDS)
def test_a_refused_request_is_sent_again_with_less(stand_in: StandIn, kind: Any, stream: bool) -> None:
    session = AgentSession()
    made = agent(stand_in, LookbackMiddleware(policy="none"), kind=kind, default_options={"store": False})
    asyncio.run(ask(made, TASK, session, stream))
    must_be_whole(kept(session))
    report = stand_in.report()
    assert report["too_long"] > 0 and report["refused"] == []


def test_what_cannot_become_smaller_raises_the_providers_error(stand_in: StandIn) -> None:
    with pytest.raises(ChatClientException, match="maximum context length"):
        asyncio.run(ask(agent(stand_in, LookbackMiddleware()), "A long question. " * 20_000))


@pytest.mark.filterwarnings("ignore:.*FileHistoryProvider is experimental")
def test_a_history_in_files_works_beside_it(stand_in: StandIn, tmp_path: Path) -> None:
    def made() -> Agent[Any]:
        middleware = LookbackMiddleware(store=tmp_path / "memory.db", policy=POLICY)
        return agent(stand_in, middleware, context_providers=[FileHistoryProvider(tmp_path / "files")])

    asyncio.run(ask(made(), TASK, AgentSession(session_id="s")))
    asyncio.run(ask(made(), "And now?", AgentSession(session_id="s")))
    messages = asyncio.run(FileHistoryProvider(tmp_path / "files").get_messages("s"))
    must_be_whole(messages)
    log = lookback.Session("agent_framework/s", store=tmp_path / "memory.db").history()
    assert [entry["text"] for entry in log if entry["role"] == "tool"] == results(messages)
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)


def test_a_rewritten_history_is_followed(stand_in: StandIn) -> None:
    made, session = agent(stand_in, LookbackMiddleware()), AgentSession()

    async def talk() -> None:
        for text in ("One", "Two", "Three"):
            await ask(made, text, session)
        del kept(session)[:4]
        await ask(made, "Four", session)

    asyncio.run(talk())
    assert [message.text for message in kept(session) if message.role == "user"] == ["Three", "Four"]
    assert stand_in.report()["refused"] == []


def test_runs_without_a_session_have_their_own(stand_in: StandIn) -> None:
    middleware = LookbackMiddleware(policy=POLICY)
    made = agent(stand_in, middleware)

    async def both() -> list[str]:
        return list(await asyncio.gather(ask(made, TASK), ask(made, TASK)))

    assert all(said.endswith("All steps up to 24 are done.") for said in asyncio.run(both()))
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    gc.collect()
    assert len(middleware._runs) == 0


def test_a_history_that_is_kept_elsewhere_is_refused(stand_in: StandIn) -> None:
    service = agent(stand_in, LookbackMiddleware(), kind=OpenAIChatClient)
    with pytest.raises(ChatClientInvalidRequestException, match="store"):
        asyncio.run(ask(service, TASK, AgentSession()))
    loads = agent(
        stand_in,
        LookbackMiddleware(),
        context_providers=[InMemoryHistoryProvider()],
        require_per_service_call_history_persistence=True,
    )
    with pytest.raises(ChatClientInvalidRequestException, match="require_per_service_call_history_persistence"):
        asyncio.run(ask(loads, TASK, AgentSession()))


def test_what_other_middleware_does_to_a_stream_is_kept(stand_in: StandIn) -> None:
    class Loud(ChatMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            def loud(update: ChatResponseUpdate) -> ChatResponseUpdate:
                return ChatResponseUpdate(role="assistant", contents=[Content.from_text(update.text.upper())])

            context.stream_transform_hooks.append(loud)
            await call_next()

    async def talk() -> None:
        assert "ANSWER" in await ask(agent(stand_in, Loud(), LookbackMiddleware()), "Hello", stream=True)
        # A caller need not read a stream to its end.
        updates = agent(stand_in, LookbackMiddleware()).run("Hello", stream=True)
        await anext(updates)
        await updates.close()

    asyncio.run(talk())


def test_a_message_of_several_contents_stays_one() -> None:
    picture = Content.from_data(b"\x89PNG\r\n\x1a\n" + bytes(100), "image/png")
    thought = Content.from_text_reasoning(id="r", text="Hm.", protected_data="secret")
    calls = [Content.from_function_call(name, "run", arguments='{"command": "ls"}') for name in ("a", "b")]
    long = "\n".join(map(str, range(5000)))
    messages = [
        Message("user", ["What is this?", picture]),
        Message("assistant", [thought, "I look.", *calls]),
        Message(
            "tool",
            [
                Content.from_function_result("a", result=[Content.from_text("A picture."), picture]),
                Content.from_function_result("b", result=long, additional_properties={"mine": 1}),
            ],
        ),
    ]
    assert all(a is b for a, b in zip(_Messages("whole", policy="none").window(messages), messages, strict=True))
    *before, shown = _Messages("less").window(messages)
    assert [message.contents for message in before] == [message.contents for message in messages[:2]]
    first, second = shown.contents
    assert first is messages[2].contents[0]
    assert second.additional_properties == {"mine": 1} and len(second.result) < len(long)
    assert second.items is not None and second.items[0].text == second.result
    # The user writes before the second call is answered.
    interrupted = [*messages[:2], Message("tool", [messages[2].contents[0]]), Message("user", ["Stop."])]
    own = _Messages("mended").window(interrupted)[3]
    assert (own.role, own.contents[0].call_id, own.message_id) == ("tool", "b", "lookback-4")


def test_a_store_holds_the_loop_up_nowhere(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of_sessions(monkeypatch)
    made = agent(stand_in, LookbackMiddleware(store=tmp_path / "memory.db", policy="none"))
    # The window is also reduced.
    asyncio.run(ask(made, TASK, made.create_session()))
    assert threads and threading.main_thread() not in threads
