"""Agents of Google's Agent Development Kit with the plugin, against a provider that enforces its rules."""

import asyncio
import os
import subprocess
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from conftest import POLICY, StandIn
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.context_cache_config import ContextCacheConfig
from google.adk.agents.run_config import StreamingMode  # type: ignore[attr-defined]
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models import BaseLlm, Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.errors import ClientError
from google.genai.types import Blob, Content, FunctionCall, FunctionResponse, Part
from test_mirror import threads_of_sessions

import lookback
from lookback.google_adk import LookbackPlugin, _Contents

os.environ["OTEL_SDK_DISABLED"] = "true"
TASK = "Run steps 1 to 24."


def run(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


class Watched(Gemini):
    """A model that records the contents that it sends."""

    sent: list[list[dict[str, Any]]] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.sent.append([content.model_dump(mode="json", exclude_none=True) for content in llm_request.contents])
        async for response in super().generate_content_async(llm_request, stream):
            yield response


def worker(stand_in: StandIn, **more: Any) -> LlmAgent:
    model = Watched(model="gemini-3-pro", base_url=stand_in.base, client_kwargs={"api_key": "k"}, sent=[])
    options: dict[str, Any] = {"name": "worker", "model": model, "instruction": "Be brief.", "tools": [run], **more}
    return LlmAgent(**options)


def runner(agent: LlmAgent, *plugins: Any, sessions: Any = None) -> Runner:
    app = App(name="app", root_agent=agent, plugins=list(plugins))
    return Runner(app=app, session_service=sessions or InMemorySessionService(), auto_create_session=True)


async def turn(made: Runner, words: str, session: str = "s", **config: Any) -> list[Event]:
    """Sends a message, and returns all events of the session."""
    message = Content(role="user", parts=[Part(text=words)])
    run_config = RunConfig(**config)
    async for _ in made.run_async(user_id="u", session_id=session, new_message=message, run_config=run_config):
        pass
    kept = await made.session_service.get_session(app_name="app", user_id="u", session_id=session)
    assert kept is not None
    return kept.events


def talk(made: Runner, *words: str, **config: Any) -> list[Event]:
    async def turns() -> list[Event]:
        events: list[Event] = []
        for said in words:
            events = await turn(made, said, **config)
        return events

    return asyncio.run(turns())


def sent_by(agent: LlmAgent) -> list[list[dict[str, Any]]]:
    assert isinstance(agent.model, Watched)
    return agent.model.sent


def must_be_whole(events: list[Event]) -> None:
    """Asserts that the session contains every step, as its tool returned it."""
    answers = [response.response for event in events for response in event.get_function_responses()]
    results = [answer["result"] for answer in answers if answer]
    assert sorted(int(result.split()[1]) for result in results) == list(range(1, 25))
    assert all(len(result) > 1000 for result in results)


STREAMS = pytest.mark.parametrize("streams", [StreamingMode.NONE, StreamingMode.SSE], ids=["whole", "streamed"])


def test_without_it_the_model_refuses(stand_in: StandIn) -> None:
    with pytest.raises(ClientError):
        talk(runner(worker(stand_in)), TASK)


@pytest.mark.parametrize("stored", [False, True])
@STREAMS
def test_an_agent_keeps_a_window_and_its_session_whole(
    stand_in: StandIn, tmp_path: Path, stored: bool, streams: Any
) -> None:
    store = tmp_path / "memory.db" if stored else None
    memory = InMemorySessionService()

    def made() -> Runner:
        sessions = SqliteSessionService(str(tmp_path / "adk.db")) if stored else memory
        return runner(worker(stand_in), LookbackPlugin(store=store, policy=POLICY), sessions=sessions)

    must_be_whole(talk(made(), TASK, streaming_mode=streams))
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    # Another process continues the session.
    events = talk(made(), "And now?", streaming_mode=streams)
    must_be_whole(events)
    assert events[-1].content and events[-1].content.role == "model"
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    if store is not None:
        kept = lookback.Session("google-adk/app/u/s/worker", store=store, dialect="gemini")
        assert len(kept.history()) == len(events) - 1


def test_between_cuts_a_request_extends_the_one_before(stand_in: StandIn) -> None:
    agent = worker(stand_in)
    made = runner(agent, LookbackPlugin(policy=POLICY))
    # Without asyncio, too.
    message = Content(role="user", parts=[Part(text=TASK)])
    must_be_whole(list(made.run(user_id="u", session_id="s", new_message=message)))
    sent = sent_by(agent)
    extended = sum(later[: len(before)] == before for before, later in zip(sent, sent[1:]))
    assert len(sent) > 15 and extended > 0.5 * len(sent), extended
    for contents in sent:
        parts = [part for content in contents for part in content["parts"]]
        calls = [part["function_call"]["id"] for part in parts if "function_call" in part]
        assert calls == [part["function_response"]["id"] for part in parts if "function_response" in part]


def test_what_is_only_for_one_request_moves_no_cut(stand_in: StandIn, tmp_path: Path) -> None:
    # With a static instruction, the other instruction is a content, whose position changes with each request.
    agent = worker(stand_in, static_instruction="Be brief.", instruction="Be kind.")
    store = tmp_path / "memory.db"
    must_be_whole(talk(runner(agent, LookbackPlugin(store=store, policy=POLICY)), TASK, "And now?"))
    sent = sent_by(agent)
    assert all(str(contents).count("Be kind.") == 1 for contents in sent)
    assert "Be kind." in str(sent[0][0]) and "Be kind." in str(sent[-2][-1])
    extended = sum(later[: len(before) - 1] == before[:-1] for before, later in zip(sent, sent[1:]))
    assert extended > 0.5 * len(sent), extended
    kept = lookback.Session("google-adk/app/u/s/worker", store=store, dialect="gemini")
    assert "Be kind." not in str(kept.history())


@STREAMS
def test_a_refused_request_is_sent_again_with_less(stand_in: StandIn, streams: Any) -> None:
    made = runner(worker(stand_in), LookbackPlugin(policy="none"))
    must_be_whole(talk(made, TASK, streaming_mode=streams))
    report = stand_in.report()
    assert report["too_long"] > 0 and report["refused"] == []


def test_what_cannot_become_smaller_raises_the_models_own_error(stand_in: StandIn) -> None:
    with pytest.raises(ClientError):
        talk(runner(worker(stand_in), LookbackPlugin()), "A long question. " * 20_000)


def test_agents_of_a_session_have_sessions_of_their_own(stand_in: StandIn, tmp_path: Path) -> None:
    alone: Any = {"disallow_transfer_to_parent": True, "disallow_transfer_to_peers": True}
    helper = worker(stand_in, name="helper", description="Helps.", **alone)
    made = runner(worker(stand_in, sub_agents=[helper]), LookbackPlugin(store=tmp_path / "memory.db", policy=POLICY))
    events = talk(made, 'CALL transfer_to_agent {"agent_name": "helper"} for: ' + TASK, "And now?")
    must_be_whole([event for event in events if event.author == "helper"])
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    for agent, words in (("worker", "[helper] said:"), ("helper", "[worker] called tool")):
        kept = lookback.Session(f"google-adk/app/u/s/{agent}", store=tmp_path / "memory.db", dialect="gemini")
        assert words in str(kept.history())


def test_sessions_run_at_once(stand_in: StandIn, tmp_path: Path) -> None:
    made = runner(worker(stand_in), LookbackPlugin(store=tmp_path / "memory.db"))

    async def both() -> None:
        await asyncio.gather(*(turn(made, f"I am {name}.", session=name) for name in ("a", "b")))

    asyncio.run(both())
    for name in ("a", "b"):
        kept = lookback.Session(f"google-adk/app/u/{name}/worker", store=tmp_path / "memory.db", dialect="gemini")
        assert [said["text"] for said in kept.history()] == [f"I am {name}."]


class Cached(BaseLlm):
    """A model that removes from a request what its provider has cached, and refuses the first request as too long."""

    asked: list[LlmRequest] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.asked.append(llm_request.model_copy(update={"config": llm_request.config.model_copy()}))
        if llm_request.cache_config:
            llm_request.config.cached_content = "cachedContents/1"
            llm_request.config.system_instruction = llm_request.config.tools = None
            llm_request.contents = llm_request.contents[1:]
            words = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
            raise ClientError(400, {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}})
        yield LlmResponse(content=Content(role="model", parts=[Part(text="Done.")]))


def test_a_cached_request_is_sent_again_as_a_whole() -> None:
    model = Cached(model="m", asked=[])
    agent = LlmAgent(name="worker", model=model, instruction="Be brief.", tools=[run])
    app = App(name="app", root_agent=agent, plugins=[LookbackPlugin(policy="none")])
    made = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)
    talk(made, *("word " * 400 for _ in range(3)))
    app = app.model_copy(update={"context_cache_config": ContextCacheConfig()})
    made = Runner(app=app, session_service=made.session_service)
    events = talk(made, "And now?")
    first, again = model.asked[-2:]
    assert events[-1].content == Content(role="model", parts=[Part(text="Done.")])
    assert again.config.tools == first.config.tools and not again.config.cached_content
    assert again.config.system_instruction == first.config.system_instruction
    assert len(again.contents) < len(first.contents) and again.contents[-1] == first.contents[-1]


def test_what_follows_an_interaction_stays_as_it_is() -> None:
    contents = [Content(role="user", parts=[Part(text="And now?")])]
    request, context = LlmRequest(contents=contents, previous_interaction_id="i"), MagicMock()
    assert asyncio.run(LookbackPlugin().before_model_callback(callback_context=context, llm_request=request)) is None
    assert request.contents == contents and not context.mock_calls


PICTURE = Part(inline_data=Blob(data=b"\x89PNG\r\n\x1a\n\xff\xfe" + bytes(100), mime_type="image/png"))


def test_unchanged_contents_are_the_requests_own() -> None:
    call = Part(function_call=FunctionCall(name="look", args={"at": None}), thought_signature=b"\xff\xfe\xfb")
    result = Part(function_response=FunctionResponse(name="look", response={"seen": [1, None]}))
    contents = [
        Content(role="user", parts=[Part(text="What is this?"), PICTURE]),
        Content(role="model", parts=[Part(text="Hm.", thought=True), call]),
        Content(role="user", parts=[result]),
    ]
    mirror = _Contents("a")
    assert all(shown is content for shown, content in zip(mirror.window(contents), contents, strict=True))
    # Each request contains copies.
    copies = [content.model_copy(deep=True) for content in contents]
    assert all(shown is content for shown, content in zip(mirror.window(copies), copies, strict=True))
    assert len(mirror.session.history()) == 3


def test_pictures_stay_bytes() -> None:
    calls = [Part(function_call=FunctionCall(name="look", args={"at": at}), thought_signature=b"\xff") for at in (1, 2)]
    result = Part(function_response=FunctionResponse(name="look", response={"output": "Red."}))
    contents = [
        Content(role="user", parts=[Part(text="What is this?"), PICTURE]),
        Content(role="model", parts=calls),
        # One result is missing.
        Content(role="user", parts=[result, PICTURE]),
    ]
    shown = _Contents("a").window(contents)
    assert shown[:2] == contents[:2] and shown[2].parts is not None
    responses = [part.function_response for part in shown[2].parts if part.function_response]
    assert [response.name for response in responses] == ["look", "look"] and responses[0] == result.function_response
    assert PICTURE in shown[2].parts


def test_a_store_holds_the_loop_up_nowhere(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of_sessions(monkeypatch)
    window = LookbackPlugin(store=tmp_path / "memory.db", policy="none")
    # The window is also reduced.
    talk(runner(worker(stand_in), window), TASK)
    assert threads and threading.main_thread() not in threads
