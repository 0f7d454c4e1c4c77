"""Vectors that restate Pydantic AI's tests of history processors and capabilities, with our capability."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability, Capability, ProcessHistory
from pydantic_ai.exceptions import ModelHTTPError, ModelRetry, SkipModelRequest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.tools import RunContext
from seam import Message, Seam, Vector, check, vectors

from lookback.pydantic_ai import LookbackCapability


def marked(mark: str) -> Any:
    """Returns a processor that prefixes user messages with a mark."""

    def process(messages: list[ModelMessage]) -> list[ModelMessage]:
        return [
            ModelRequest([UserPromptPart(f"{mark} {getattr(part, 'content')}") for part in message.parts])
            if isinstance(message, ModelRequest)
            else message
            for message in messages
        ]

    return process


async def last(_: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
    """An asynchronous processor that takes the context."""
    return messages[-1:]


PROCESSORS: dict[str, Any] = {
    "first": marked("[1]"),
    "second": marked("[2]"),
    "of the run": lambda ctx, messages: marked(ctx.deps)(messages),
    "requests": lambda messages: [message for message in messages if isinstance(message, ModelRequest)],
    "last": last,
    "new": lambda messages: [ModelRequest([UserPromptPart("New")])],
    "none": lambda messages: [],
    "answer": lambda messages: [ModelResponse([TextPart("Answer")])],
}
PROCESSORS["of the run"].__annotations__ = {"ctx": RunContext[Any]}


@dataclass
class Beside(AbstractCapability[Any]):
    """Another capability, which has a single effect."""

    seam: Pydantic
    does: str

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        if self.does == "skip":
            raise SkipModelRequest(ModelResponse([TextPart("Skipped.")]))
        if self.does == "add":
            request_context.messages = [*request_context.messages, ModelRequest([UserPromptPart("Added.")])]
        if self.does == "swap":
            request_context.model = self.seam.model()
        return request_context

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        return ModelResponse([TextPart("Rewritten.")]) if self.does == "rewrite" else response

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        if self.does == "recover":
            return ModelResponse([TextPart("Recovered.")])
        raise error

    async def after_tool_execute(self, ctx: RunContext[Any], *, result: Any, **more: Any) -> Any:
        return f"changed {result}" if self.does == "change" else result


class Pydantic(Seam):
    """An agent with a model that answers as the vector says."""

    session = "pydantic-ai/chat"

    def make(self) -> None:
        beside: list[Any] = [Beside(self, does) for does in self.options.get("beside", [])]
        beside += [ProcessHistory(PROCESSORS[name]) for name in self.options.get("processors", [])]
        if self.options.get("deferred"):
            beside.append(Capability[Any](id="extra", description="More.", defer_loading=True, tools=[special]))
        window = LookbackCapability(store=self.store, policy=self.vector.policy)
        # The framework orders our capability, wherever it is in the list.
        capabilities = [window, *beside] if self.options.get("first") else [*beside, window]
        prompts = {name: self.options[name] for name in ("instructions", "system_prompt") if name in self.options}
        self.agent = Agent(self.model(), tools=[self.look], capabilities=capabilities, deps_type=str, **prompts)
        self.history: list[ModelMessage] = []
        self.said: list[ModelMessage] = []
        self.tools: list[str] = []

    def model(self) -> FunctionModel:
        def whole(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            return response(self.asked(messages, info))

        async def streamed(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
            answer = self.asked(messages, info)
            if answer.text:
                yield answer.text
            for index, part in enumerate(response(answer).parts[bool(answer.text) :]):
                if isinstance(part, ToolCallPart):
                    arguments = part.args_as_json_str()
                    yield {index: DeltaToolCall(part.tool_name, arguments, tool_call_id=part.tool_call_id)}

        return FunctionModel(whole, stream_function=streamed)

    def asked(self, messages: list[ModelMessage], info: AgentInfo) -> Message:
        self.tools = sorted(tool.name for tool in info.function_tools)
        instructions = [Message("system", info.instructions)] if info.instructions else []
        return self.answer([*instructions, *neutral(messages)])

    def refusal(self, words: str) -> Exception:
        return ModelHTTPError(400, "gpt-4o", {"message": words})

    def again(self, words: str) -> Exception:
        return ModelRetry(words)

    def run(self, *said: Message) -> None:
        result = asyncio.run(self.answered(said[0].text, "chat"))
        self.history, self.said = result.all_messages(), result.new_messages()

    def at_once(self, *said: Message) -> None:
        """Runs several conversations at the same time."""

        async def all() -> None:
            await asyncio.gather(*(self.answered(message.text, message.text) for message in said))

        asyncio.run(all())
        self.sent.sort()

    async def answered(self, words: str, conversation: str) -> Any:
        options: Any = {"message_history": self.history, "conversation_id": conversation, "deps": "[run]"}
        match self.options.get("runs"):
            case "streamed":
                async with self.agent.run_stream(words, **options) as result:
                    await result.get_output()
                return result
            case "iterated":
                async with self.agent.iter(words, **options) as run:
                    async for node in run:
                        if Agent.is_model_request_node(node):
                            async with node.stream(run.ctx) as stream:
                                async for _ in stream:
                                    pass
                return run.result
            case _:
                return await self.agent.run(words, **options)

    def past(self, *said: Message) -> None:
        """Gives the agent a history."""
        self.history = [history(message) for message in said]

    def kept(self) -> list[Message]:
        return neutral(self.history)

    def new(self) -> list[Message]:
        """Returns the messages that the last run has added to the history."""
        return neutral(self.said)

    def offered(self) -> list[str]:
        """Returns the tools of the last model call."""
        return self.tools



def special() -> str:
    """A tool that is only there once its capability is loaded."""
    return "Special."


def response(said: Message) -> ModelResponse:
    calls = [
        ToolCallPart("load_capability", {"id": "extra"}, call)
        if call == "load"
        else ToolCallPart("look", {"call": call}, call)
        for call in said.calls
    ]
    return ModelResponse([*([TextPart(said.text)] if said.text else []), *calls])


def history(said: Message) -> ModelMessage:
    match said.role:
        case "assistant":
            return response(said)
        case "tool":
            return ModelRequest([ToolReturnPart("look", said.text, said.call)])
        case "system":
            return ModelRequest([SystemPromptPart(said.text)])
        case _:
            return ModelRequest([UserPromptPart(said.text)])


def neutral(messages: list[ModelMessage]) -> list[Message]:
    said = list[Message]()
    for message in messages:
        if isinstance(message, ModelResponse):
            calls = tuple(part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart))
            text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
            said.append(Message("assistant", text, calls))
            continue
        for part in message.parts:
            match part:
                case ToolReturnPart():
                    said.append(Message("tool", str(part.content), call=part.tool_call_id))
                case SystemPromptPart():
                    said.append(Message("system", part.content))
                case UserPromptPart():
                    said.append(Message("user", str(part.content)))
                case _:
                    pass
    return said


@pytest.mark.parametrize("vector", vectors("pydantic-ai"))
def test_the_window_is_as_the_vector_says(vector: Vector, tmp_path: Path) -> None:
    check(Pydantic(vector, tmp_path))
