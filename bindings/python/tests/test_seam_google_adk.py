"""Vectors that restate the tests of Google's ADK about plugins, callbacks and contents, with our plugin."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

os.environ["OTEL_SDK_DISABLED"] = "true"
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode  # type: ignore[attr-defined]
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.plugins.context_filter_plugin import ContextFilterPlugin
from google.adk.plugins.global_instruction_plugin import GlobalInstructionPlugin
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.errors import ClientError
from google.genai.types import Content, FunctionCall, FunctionResponse, Part
from seam import Message, Seam, Vector, check, must_be, vectors

import lookback
from lookback.google_adk import LookbackPlugin


class Model(BaseLlm):
    """A model that answers as the vector says, at once or word by word."""

    seam: Any

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        answer = self.seam.asked(llm_request)
        for word in (answer.parts[0].text or "").split() if stream else ():
            yield LlmResponse(content=Content(role="model", parts=[Part(text=word)]), partial=True)
        yield LlmResponse(content=answer)


def response(words: str) -> LlmResponse:
    return LlmResponse(content=Content(role="model", parts=[Part(text=words)]))


class Beside(BasePlugin):
    """Another plugin, which has a single effect."""

    def __init__(self, does: str) -> None:
        super().__init__(does)

    async def before_model_callback(self, *, callback_context: Any, llm_request: LlmRequest) -> LlmResponse | None:
        if self.name == "forget":
            llm_request.contents = [content for content in llm_request.contents if content.role == "user"]
        return None

    async def after_model_callback(self, *, callback_context: Any, llm_response: LlmResponse) -> LlmResponse | None:
        return response("Rewritten.") if self.name == "rewrite" else None

    async def on_model_error_callback(
        self, *, callback_context: Any, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        return response("Recovered.") if self.name == "recover" else None

    async def after_tool_callback(self, *, result: dict[str, Any], **more: Any) -> dict[str, Any] | None:
        return {"result": "Changed."} if self.name == "change" else None


def plugin(name: str, value: Any = None) -> BasePlugin:
    match name:
        case "filter":
            return ContextFilterPlugin(num_invocations_to_keep=value)
        case "global":
            return GlobalInstructionPlugin(global_instruction=value)
        case _:
            return Beside(name)


def answered(callback_context: Any, llm_request: LlmRequest) -> LlmResponse:
    return response("Answered.")


def cut(callback_context: Any, llm_request: LlmRequest) -> None:
    """A callback that keeps only the newest content."""
    del llm_request.contents[:-1]


def recovered(callback_context: Any, llm_request: LlmRequest, error: Exception) -> LlmResponse:
    return response("Recovered.")


CALLBACKS: dict[str, Any] = {
    "answer": {"before_model_callback": answered},
    "cut": {"before_model_callback": cut},
    "recover": {"on_model_error_callback": recovered},
}


class GoogleAdk(Seam):
    """An agent with a model that answers as the vector says, in a runner with our plugin."""

    session = "google-adk/app/u/chat/worker"

    def make(self) -> None:
        options = self.options
        before = [plugin(*given) for given in options.get("before", [])]
        behind = [plugin(*given) for given in options.get("behind", [])]
        names = ("instruction", "static_instruction", "include_contents")
        more = {name: options[name] for name in names if name in options} | CALLBACKS.get(options.get("agent", ""), {})
        agent = LlmAgent(name="worker", model=Model(model="m", seam=self), tools=[self.look], **more)
        window = LookbackPlugin(store=self.store, policy=self.vector.policy)
        app = App(name="app", root_agent=agent, plugins=[*before, window, *behind])
        self.service = SqliteSessionService(str(Path(self.store).with_name("adk.db")))
        self.runner = Runner(app=app, session_service=self.service, auto_create_session=True)
        self.words: list[str] = []
        self.replies: list[str] = []

    def asked(self, request: LlmRequest) -> Content:
        # Checks Gemini's own rules, in addition to those of all providers.
        contents = [content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in request.contents]
        must_be(lookback.check({"contents": contents}, dialect="gemini"), [])
        config: Any = request.config
        # The framework appends the name of the agent.
        said = (config.system_instruction or "").split("You are an agent")[0].replace("\n\n", " ").strip()
        return written(self.answer([*([Message("system", said)] if said else []), *neutral(request.contents)]))

    def refusal(self, words: str) -> Exception:
        return ClientError(400, {"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}})

    def run(self, *said: Message) -> None:
        asyncio.run(self.turn(said[0].text, "chat"))

    def at_once(self, *said: Message) -> None:
        """Runs several conversations at the same time."""

        async def all() -> None:
            await asyncio.gather(*(self.turn(message.text, message.text) for message in said))

        asyncio.run(all())
        self.sent.sort()

    async def turn(self, words: str, session: str) -> None:
        mode = StreamingMode.SSE if self.options.get("runs") == "streamed" else StreamingMode.NONE
        self.words, self.replies = [], []
        async for event in self.runner.run_async(
            user_id="u",
            session_id=session,
            new_message=Content(role="user", parts=[Part(text=words)]),
            run_config=RunConfig(streaming_mode=mode),
        ):
            said = "".join(part.text or "" for part in (event.content and event.content.parts) or ())
            if said:
                (self.words if event.partial else self.replies).append(said)

    def past(self, *said: Message) -> None:
        """Adds events to the session, each turn as an invocation."""
        self.append("worker", said)

    def other(self, *said: Message) -> None:
        """Adds events of another agent to the session."""
        self.append("helper", said)

    def waiting(self, *said: Message) -> None:
        """Adds events to the session whose calls wait for a person."""
        self.append("worker", said, waits=True)

    def append(self, author: str, said: tuple[Message, ...], waits: bool = False) -> None:
        async def appended() -> None:
            session = await self.kept_session() or await self.service.create_session(**KEY)
            for number, each in enumerate(said):
                by = "user" if each.role == "user" else author
                turn = f"{author}-{sum(earlier.role == 'user' for earlier in said[: number + 1])}"
                event = Event(author=by, invocation_id=turn, content=written(each))
                event.long_running_tool_ids = set(each.calls) if waits else None
                await self.service.append_event(session, event)

        asyncio.run(appended())

    def rewind(self, *said: Message) -> None:
        """Rewinds the session to before the turn that begins with the message."""

        async def rewound() -> None:
            session = await self.kept_session()
            assert session is not None
            turn = next(event for event in session.events if event.content and neutral([event.content]) == list(said))
            await self.runner.rewind_async(
                user_id="u", session_id="chat", rewind_before_invocation_id=turn.invocation_id
            )

        asyncio.run(rewound())

    def second(self) -> None:
        """Registers a second plugin of ours."""
        self.runner.plugin_manager.register_plugin(LookbackPlugin())

    def second_named(self) -> None:
        """Registers a second plugin of ours with another name."""
        self.runner.plugin_manager.register_plugin(LookbackPlugin(name="other"))

    async def kept_session(self) -> Any:
        return await self.service.get_session(app_name="app", user_id="u", session_id="chat")

    def kept(self) -> list[Message]:
        session = asyncio.run(self.kept_session())
        return neutral([event.content for event in session.events if event.content and event.content.parts])

    def log(self) -> list[Message]:
        messages = lookback.Session(self.session, store=self.store, dialect="gemini").messages()
        return neutral([Content.model_validate(message) for message in messages])

    def logs(self, *said: Message) -> list[str]:
        """Returns the texts of the sessions with these names."""
        names = [f"google-adk/app/u/{each.text}/worker" for each in said]
        sessions = [lookback.Session(name, store=self.store, dialect="gemini") for name in names]
        return [" ".join(entry["text"] for entry in session.history()) for session in sessions]

    def heard(self) -> list[str]:
        """Returns the streamed texts of the last turn."""
        return self.words

    def replied(self) -> list[str]:
        """Returns the runner's replies in the last turn."""
        return self.replies


KEY: Any = {"app_name": "app", "user_id": "u", "session_id": "chat"}


def written(said: Message) -> Content:
    if said.role == "tool":
        result = FunctionResponse(id=said.call, name="look", response={"result": said.text})
        return Content(role="user", parts=[Part(function_response=result)])
    calls = [Part(function_call=FunctionCall(id=call, name="look", args={"call": call})) for call in said.calls]
    role = "model" if said.role == "assistant" else "user"
    return Content(role=role, parts=[*([Part(text=said.text)] if said.text else []), *calls])


def neutral(contents: list[Content]) -> list[Message]:
    said = list[Message]()
    for content in contents:
        parts = content.parts or []
        text = " ".join(words for part in parts if (words := quoted(part.text or "")))
        calls = tuple(part.function_call.id or "" for part in parts if part.function_call)
        results = [part.function_response for part in parts if part.function_response]
        said += [Message("tool", str((each.response or {}).get("result")), call=each.id or "") for each in results]
        if text or calls or not results:
            said.append(Message("assistant" if content.role == "model" else "user", text, calls))
    return said


def quoted(text: str) -> str:
    """Returns a text without the framework's frame around an instruction, or around another agent's message."""
    if found := re.search(r"<<<BEGIN_\w+>>>\n(.*)\n<<<END_\w+>>>", text, re.S):
        return found[1]
    return "" if text.startswith("For context:") else text


@pytest.mark.parametrize("vector", vectors("google-adk"))
def test_the_window_is_as_the_vector_says(vector: Vector, tmp_path: Path) -> None:
    check(GoogleAdk(vector, tmp_path))
