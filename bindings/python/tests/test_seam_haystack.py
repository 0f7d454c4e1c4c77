"""Vectors that restate Haystack's tests of agents, hooks and chat generators, with our chat generator."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
import httpx
from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.agents.state import State, replace_values
from haystack.components.generators.chat import FallbackChatGenerator, MockChatGenerator
from haystack.dataclasses import ChatMessage, StreamingChunk, ToolCall
from haystack.hooks import FunctionHook
from haystack.hooks.compaction import CompactionHook, SlidingWindowCompactor
from haystack.token_counters import ApproximateTokenCounter
from haystack.tools.tool import Tool
from openai import BadRequestError
from seam import Message, Seam, Vector, check, vectors

from lookback.haystack import LookbackChatGenerator

PARAMETERS = {"type": "object", "properties": {"call": {"type": "string"}}, "required": ["call"]}


def add(state: State, message: ChatMessage) -> None:
    state.set("messages", [message])


def replace(state: State, messages: list[ChatMessage]) -> None:
    state.set("messages", messages, handler_override=replace_values)


def brief(state: State) -> None:
    replace(state, [ChatMessage.from_user("Brief.")])


def inform(state: State) -> None:
    if state.get("step_count") == 0:
        add(state, ChatMessage.from_system("Informed."))


def offload(state: State) -> None:
    messages = state.data["messages"]
    results = [message.tool_call_result for message in messages]
    replace(
        state,
        [
            ChatMessage.from_tool("Offloaded.", origin=result.origin) if result else message
            for message, result in zip(messages, results, strict=True)
        ],
    )


def redirect(state: State) -> None:
    call = ToolCall("look", {"call": "other"}, "other")
    replace(state, [*state.data["messages"][:-1], ChatMessage.from_assistant(tool_calls=[call])])


def insist(state: State) -> None:
    if not state.get("tool_call_counts", {}).get("look"):
        add(state, ChatMessage.from_system("Look first."))
        state.set("continue_run", True)


HOOKS = {made.__name__: made for made in (brief, inform, offload, redirect, insist)}


class Synchronous:
    """A generator that cannot be awaited, streamed or warmed up."""

    def __init__(self, seam: Haystack) -> None:
        self.seam = seam

    def run(self, messages: list[ChatMessage], tools: Any = None) -> dict[str, Any]:
        return {"replies": [self.seam.asked(messages, tools)]}


class Watched(Synchronous):
    """A generator that records when it is warmed up and closed."""

    def warm_up(self) -> None:
        self.seam.streamed.append("warmed up, ")

    def close(self) -> None:
        self.seam.streamed.append("closed")


class WithoutTools:
    """A generator that takes only messages."""

    def __init__(self, seam: Haystack) -> None:
        self.seam = seam

    def run(self, messages: list[ChatMessage]) -> dict[str, Any]:
        return {"replies": [self.seam.asked(messages, None)]}


RUNNING: list[Haystack] = []
"""The seam whose model is called. It is global, because a generator that is saved can refer only to a function."""


def asked(messages: list[ChatMessage], tools: Any) -> ChatMessage:
    return RUNNING[-1].asked(messages, tools)


def looked(call: str) -> str:
    return RUNNING[-1].look(call)


class Haystack(Seam):
    """An agent whose generator answers as the vector says."""

    session = "chat"

    def make(self) -> None:
        RUNNING[:] = [self]
        self.messages: list[ChatMessage] = []
        self.streamed: list[str] = []
        self.given: list[list[ChatMessage]] = []
        self.tools: list[str] = []
        generator = self.generator()
        self.window = LookbackChatGenerator(generator, self.session, store=self.store, policy=self.vector.policy)
        around: Any = self.window
        if self.options.get("around") == "fallback":
            around = FallbackChatGenerator([self.window, MockChatGenerator("Fallen back.")])
        hooks: Any = {
            point: [FunctionHook(HOOKS[name]) for name in names]
            for point, names in self.options.get("hooks", {}).items()
        }
        if "compact" in self.options:
            compactor = CompactionHook(
                SlidingWindowCompactor(), token_counter=ApproximateTokenCounter(), **self.options["compact"]
            )
            hooks["before_llm"] = [compactor]
        tool = Tool("look", "Looks at something.", PARAMETERS, function=looked)
        named = {name: self.options[name] for name in ("system_prompt", "exit_conditions") if name in self.options}
        self.agent: Any = Agent(chat_generator=around, tools=self.options.get("tools", [tool]), hooks=hooks, **named)

    def generator(self) -> Any:
        match self.options.get("generator"):
            case "synchronous":
                return Synchronous(self)
            case "without tools":
                return WithoutTools(self)
            case "watched":
                return Watched(self)
            case "fallback":
                return FallbackChatGenerator([MockChatGenerator(response_fn=asked)] * 2)
            case _:
                return MockChatGenerator(response_fn=asked)

    def hear(self, chunk: StreamingChunk) -> None:
        self.streamed.append(chunk.content)

    def asked(self, messages: list[ChatMessage], tools: Any) -> ChatMessage:
        self.given.append(messages)
        self.tools = [tool.name for tool in tools or []]
        return history(self.answer(neutral(messages)))

    def refusal(self, words: str) -> Exception:
        request = httpx.Request("POST", "http://127.0.0.1")
        response: Any = httpx.Response(400, request=request, json={"error": {"message": words}})
        return BadRequestError(words, response=response, body=None)

    def run(self, *said: Message) -> None:
        messages = [*self.messages, *map(history, said)]
        if "system_prompt" in self.options and messages[0].is_from("system"):
            # The agent adds the system prompt to each run.
            del messages[0]
        given: dict[str, Any] = {"messages": messages}
        match self.options.get("runs"):
            case "awaited":
                result = asyncio.run(self.agent.run_async(**given))
            case "streamed":
                result = self.agent.run(**given, streaming_callback=self.hear)
            case "alone":
                reply = self.window.run(**given)
                result = {"messages": [*messages, *reply["replies"]]}
            case _:
                result = self.agent.run(**given)
        self.messages = result["messages"]

    def text_alone(self, said: Message) -> None:
        """Calls the generator with a text instead of messages."""
        self.window.run(said.text)

    def warm_up(self) -> None:
        """Warms the agent up, and closes it."""
        self.agent.warm_up()
        self.agent.close()

    def save(self) -> None:
        """Saves the agent, and continues with the one that is loaded."""
        pipeline = Pipeline()
        pipeline.add_component("agent", self.agent)
        loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["lookback.haystack", __name__])
        self.agent = loaded.get_component("agent")

    def past(self, *said: Message) -> None:
        """Gives the agent a history."""
        self.messages = list(map(history, said))

    def kept(self) -> list[Message]:
        return neutral(self.messages)

    def log(self) -> list[Message]:
        return [said._replace(text=joined(said.text)) for said in super().log()]

    def heard(self) -> list[str]:
        """Returns the streamed text."""
        return ["".join(self.streamed)]

    def offered(self) -> list[str]:
        """Returns the tools of the last model call."""
        return self.tools

    def own(self) -> list[str]:
        """Returns which messages of the last call are the agent's own objects, unchanged."""
        own = [id(message) for message in self.messages]
        return ["own" if id(message) in own else "made" for message in self.given[-1]]


def joined(content: Any) -> str:
    """Returns the text of a message of the session, whose content is a list of parts."""
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def history(said: Message) -> ChatMessage:
    match said.role:
        case "assistant":
            calls = [ToolCall("look", {"call": call}, call) for call in said.calls]
            return ChatMessage.from_assistant(said.text or None, tool_calls=calls)
        case "tool":
            return ChatMessage.from_tool(said.text, origin=ToolCall("look", {"call": said.call}, said.call))
        case "system":
            return ChatMessage.from_system(said.text)
        case _:
            return ChatMessage.from_user(said.text)


def neutral(messages: list[ChatMessage]) -> list[Message]:
    said = list[Message]()
    for message in messages:
        if message.tool_call_results:
            results = message.tool_call_results
            said += [Message("tool", str(result.result), call=result.origin.id or "") for result in results]
        else:
            calls = tuple(call.id or "" for call in message.tool_calls)
            said.append(Message(message.role.value, message.text or "", calls))
    return said


@pytest.mark.filterwarnings("ignore:.*experimental")
@pytest.mark.parametrize("vector", vectors("haystack"))
def test_the_window_is_as_the_vector_says(vector: Vector, tmp_path: Path) -> None:
    check(Haystack(vector, tmp_path))
