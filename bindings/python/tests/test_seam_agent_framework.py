"""Vectors that restate the tests of Microsoft's Agent Framework about chat middleware and histories, with ours."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

os.environ |= {"AGENT_FRAMEWORK_USER_AGENT_DISABLED": "true", "ENABLE_INSTRUMENTATION": "false"}
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatContext,
    ChatMiddleware,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    CompactionProvider,
    Content,
    ContextProvider,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    FunctionMiddleware,
    FunctionTool,
    InMemoryHistoryProvider,
    MiddlewareTermination,
    ResponseStream,
    SlidingWindowStrategy,
)
from agent_framework import Message as AgentMessage
from agent_framework.exceptions import ChatClientException
from seam import Message, Seam, Vector, check, message, vectors

import lookback
from lookback.agent_framework import LookbackMiddleware

HISTORY = InMemoryHistoryProvider.DEFAULT_SOURCE_ID
PARAMETERS = {"type": "object", "properties": {"call": {"type": "string"}}, "required": ["call"]}


class Client(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """A client that answers as the vector says, at once or word by word."""

    def __init__(self, seam: AgentFramework, **more: Any) -> None:
        super().__init__(**more)
        self.seam = seam

    def _inner_get_response(
        self, *, messages: Sequence[AgentMessage], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        async def whole() -> ChatResponse:
            return ChatResponse(messages=[self.seam.asked(messages, options)])

        async def updates() -> AsyncIterable[ChatResponseUpdate]:
            for content in self.seam.asked(messages, options).contents:
                parts = content.text.split(" ") if content.type == "text" and content.text else []
                for part in [Content.from_text(word) for word in parts] or [content]:
                    yield ChatResponseUpdate(role="assistant", contents=[part])

        return self._build_response_stream(updates()) if stream else whole()


class Stored(Client):
    """A client whose service stores conversations."""

    STORES_BY_DEFAULT = True


class Beside(ChatMiddleware):
    """Another middleware, which has a single effect."""

    def __init__(self, does: str) -> None:
        self.does = does

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        answer = ChatResponse(messages=[AgentMessage("assistant", [f"{self.does.title()}."])])
        match self.does:
            case "end":
                context.result = answer
                raise MiddlewareTermination
            case "rewrite":
                await call_next()
                context.result = answer
            case "loud":
                context.stream_transform_hooks.append(loud)
                await call_next()
            case mark:
                context.messages = [
                    AgentMessage("user", [f"{mark} {said.text}"]) if said.role == "user" else said
                    for said in context.messages
                ]
                await call_next()


def loud(update: ChatResponseUpdate) -> ChatResponseUpdate:
    if not update.text:
        return update
    return ChatResponseUpdate(role="assistant", contents=[Content.from_text(update.text.upper())])


class Changed(FunctionMiddleware):
    """A middleware that changes the results of tools."""

    async def process(self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]) -> None:
        await call_next()
        context.result = "Changed."


class Informed(ContextProvider):
    """A provider that adds a message to each run. The message is not kept."""

    async def before_run(self, *, agent: Any, session: Any, context: Any, state: Any) -> None:
        context.extend_messages(self, [AgentMessage("user", ["Informed."])])


class AgentFramework(Seam):
    """An agent with a client that answers as the vector says."""

    session = "agent_framework/chat"

    def make(self) -> None:
        options = self.options
        window = LookbackMiddleware(store=self.store, policy=self.vector.policy)
        beside: list[Any] = [Beside(does) for does in options.get("before", [])]
        self.middleware = [*beside, window, *(Beside(does) for does in options.get("behind", []))]
        if options.get("results") == "changed":
            self.middleware.append(Changed())
        where = options.get("where", "agent")
        kind = Stored if options.get("stored") else Client
        self.client = kind(self, middleware=self.middleware if where == "client" else None)
        providers: list[Any] = [InMemoryHistoryProvider(skip_excluded=True)]
        if options.get("informed"):
            providers.append(Informed("informed"))
        if groups := options.get("compact"):
            providers.append(CompactionProvider(before_strategy=SlidingWindowStrategy(keep_last_groups=groups)))
        look = FunctionTool(name="look", description="Looks at something.", func=self.look, input_model=PARAMETERS)
        self.agent = Agent(
            self.client,
            options.get("instructions"),
            name=options.get("name"),
            tools=[look],
            context_providers=providers,
            middleware=self.middleware if where == "agent" else None,
            default_options=options.get("options"),
        )
        self.kept_session = AgentSession(session_id="chat", service_session_id=options.get("service"))
        self.heard_words: list[str] = []
        self.said = ""

    def asked(self, messages: Sequence[AgentMessage], options: Mapping[str, Any]) -> AgentMessage:
        instructions = [Message("system", options["instructions"])] if options.get("instructions") else []
        return history(self.answer([*instructions, *neutral(messages)]))

    def refusal(self, words: str) -> Exception:
        return ChatClientException(words)

    def run(self, *said: Message) -> None:
        asyncio.run(self.answered(said, self.kept_session))

    def bare(self, *said: Message) -> None:
        """Runs the agent without the middleware that is passed to a run."""
        asyncio.run(self.answered(said, self.kept_session, middleware=None))

    def alone(self, *said: Message) -> None:
        """Calls the client directly, without an agent."""

        async def asked() -> None:
            messages = list(map(history, said))
            if self.options.get("runs") == "streamed":
                await self.listen(self.client.get_response(messages, stream=True))
            else:
                await self.client.get_response(messages)

        asyncio.run(asked())

    def without_session(self, *said: Message) -> None:
        """Runs the agent without a session."""
        asyncio.run(self.answered(said, None))

    def at_once(self, *said: Message) -> None:
        """Runs several conversations at the same time."""

        async def all() -> None:
            sessions = (AgentSession(session_id=message.text) for message in said)
            await asyncio.gather(*(self.answered([each], session) for each, session in zip(said, sessions)))

        asyncio.run(all())
        self.sent.sort()

    async def listen(self, stream: Any) -> None:
        async for update in stream:
            self.heard_words.append(update.text)
        self.said = (await stream.get_final_response()).text

    async def answered(self, said: Sequence[Message], session: AgentSession | None, **more: Any) -> None:
        if self.options.get("where") == "run" and "middleware" not in more:
            more["middleware"] = self.middleware
        messages = list(map(history, said))
        if self.options.get("runs") == "streamed":
            await self.listen(self.agent.run(messages, session=session, stream=True, **more))
        else:
            await self.agent.run(messages, session=session, **more)

    def restart(self) -> None:
        # Only the serializable part of the session remains.
        written = json.dumps(self.kept_session.to_dict())
        super().restart()
        self.kept_session = AgentSession.from_dict(json.loads(written))

    def past(self, *said: Message) -> None:
        """Gives the agent's session a history."""
        self.kept_session.state[HISTORY] = {"messages": list(map(history, said))}

    def kept(self) -> list[Message]:
        return neutral(self.kept_session.state.get(HISTORY, {}).get("messages", []))

    def log(self) -> list[Message]:
        return [said._replace(text=joined(said.text)) for said in super().log()]

    def said_last(self) -> list[str]:
        """Returns the whole text of the streamed response."""
        return [self.said]

    def logs(self, *said: Message) -> list[str]:
        """Returns the texts of the sessions with these names."""
        sessions = [lookback.Session(f"agent_framework/{each.text}", store=self.store) for each in said]
        return [" ".join(entry["text"] for entry in session.history()) for session in sessions]

    def heard(self) -> list[str]:
        """Returns the streamed updates."""
        return [words for words in self.heard_words if words]


def joined(content: Any) -> str:
    """Returns the text of a message of the session, whose content is a list of parts."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def history(said: Message) -> AgentMessage:
    if said.role == "tool":
        return AgentMessage("tool", [Content.from_function_result(said.call, result=said.text)])
    calls = [Content.from_function_call(call, "look", arguments=json.dumps({"call": call})) for call in said.calls]
    return AgentMessage(said.role, [*([said.text] if said.text else []), *calls])


def neutral(messages: Sequence[AgentMessage]) -> list[Message]:
    said = list[Message]()
    for given in messages:
        results = [content for content in given.contents if content.type == "function_result"]
        if results:
            said += [Message("tool", str(result.result), call=result.call_id or "") for result in results]
        else:
            calls = tuple(content.call_id or "" for content in given.contents if content.type == "function_call")
            said.append(Message(given.role, given.text, calls))
    return said


@pytest.mark.parametrize("vector", vectors("agent-framework"))
def test_the_window_is_as_the_vector_says(vector: Vector, tmp_path: Path) -> None:
    check(AgentFramework(vector, tmp_path))
