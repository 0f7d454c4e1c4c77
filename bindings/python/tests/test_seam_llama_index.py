"""Vectors that restate LlamaIndex's tests of memories and agents, with our memory and our agent."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import FunctionTool
from openai import BadRequestError
from seam import Message, Seam, Vector, check, text, vectors

from lookback.llama_index import LookbackAgent, LookbackMemory


class LlamaIndex(Seam):
    """A memory, and agents with a model that answers as the vector says."""

    session = "llama-index/chat"

    def make(self) -> None:
        self.memory = LookbackMemory("chat", store=self.store, policy=self.vector.policy)
        tool = FunctionTool.from_defaults(self.look, return_direct=self.options.get("return_direct", False))
        model = MockFunctionCallingLLM(response_generator=self.asked)
        kind = FunctionAgent if self.options.get("stock") else LookbackAgent
        options = {name: value for name, value in self.options.items() if name in kind.model_fields}
        names = self.options.get("agents", ["Agent"])
        agents: list[Any] = [kind(name=name, description=name, llm=model, tools=[tool], **options) for name in names]
        self.agent: Any = agents[0] if len(agents) == 1 else AgentWorkflow(agents=agents, root_agent=names[0])

    def asked(self, messages: Sequence[ChatMessage], **_: Any) -> ChatMessage:
        return self.written(self.answer([neutral(message) for message in messages]))

    def refusal(self, words: str) -> Exception:
        response = httpx.Response(400, request=httpx.Request("POST", "http://localhost"))
        return BadRequestError(words, response=response, body={"error": {"message": words}})

    def run(self, *said: Message) -> None:
        given = ("max_iterations", "early_stopping_method")
        options = {name: self.options[name] for name in given if name in self.options}

        async def answered() -> None:
            await self.agent.run(user_msg=said[0].text, memory=self.memory, **options)

        asyncio.run(answered())

    def run_on(self, *said: Message) -> None:
        """Has the agent answer with a history from its caller."""

        async def answered() -> None:
            await self.agent.run(chat_history=[self.written(message) for message in said], memory=self.memory)

        asyncio.run(answered())

    def begin(self, *said: Message) -> None:
        """Creates a memory from a history."""
        history = [self.written(message) for message in said]
        options: Any = {"session_id": "chat", "store": self.store, "policy": self.vector.policy, "token_limit": 5}
        self.memory = LookbackMemory.from_defaults(history, **options)

    def put(self, *said: Message) -> None:
        for message in said:
            self.memory.put(self.written(message))

    def aput(self, *said: Message) -> None:
        asyncio.run(self.memory.aput_messages([self.written(message) for message in said]))

    def put_at_once(self, *said: Message) -> None:
        """Puts messages and asks for windows concurrently."""

        async def all() -> None:
            work = [work for message in said for work in (self.memory.aput(self.written(message)), self.memory.aget())]
            await asyncio.gather(*work)

        asyncio.run(all())

    def set(self, *said: Message) -> None:
        self.memory.set([self.written(message) for message in said])

    def reset(self) -> None:
        self.memory.reset()

    def get(self) -> list[Message]:
        return [neutral(message) for message in self.memory.get()]

    def aget(self) -> list[Message]:
        return [neutral(message) for message in asyncio.run(self.memory.aget("Q"))]

    def kept(self) -> list[Message]:
        return [neutral(message) for message in self.memory.get_all()]

    def count(self) -> list[int]:
        """Returns the number of messages."""
        return [len(self.memory.get_all())]

    def as_text(self) -> None:
        """Serializes the memory as text, and reads it again."""
        self.memory = LookbackMemory.from_json(self.memory.to_json())

    def as_dictionary(self) -> None:
        self.memory = LookbackMemory.from_dict(self.memory.to_dict())

    def pickled(self) -> None:
        self.memory = pickle.loads(pickle.dumps(self.memory))

    def written(self, said: Message) -> ChatMessage:
        """Returns a message in LlamaIndex's format, with its calls in blocks or next to them."""
        if said.role == "tool":
            return ChatMessage(said.text, role="tool", additional_kwargs={"tool_call_id": said.call})
        blocks: list[Any] = [TextBlock(text=said.text)] if said.text else []
        if thought := self.options.get("thought"):
            blocks.insert(0, ThinkingBlock(content=text(thought)))
        calls = [ToolSelection(tool_id=call, **self.called(call)) for call in said.calls]
        if self.options.get("calls_beside") and calls:
            return ChatMessage(role=said.role, blocks=blocks, additional_kwargs={"tool_calls": calls})
        blocks += [ToolCallBlock(tool_call_id=call, **self.called(call)) for call in said.calls]
        return ChatMessage(role=said.role, blocks=blocks)

    def called(self, call: str) -> dict[str, Any]:
        if call == "handoff":
            return {"tool_name": "handoff", "tool_kwargs": {"to_agent": self.options["agents"][1], "reason": "R"}}
        more = {"words": text(self.options["words"])} if "words" in self.options else {}
        return {"tool_name": "look", "tool_kwargs": {"call": call, **more}}


def neutral(said: ChatMessage) -> Message:
    calls = [str(block.tool_call_id) for block in said.blocks if isinstance(block, ToolCallBlock)]
    calls += [call.tool_id for call in said.additional_kwargs.get("tool_calls", [])]
    call = said.additional_kwargs.get("tool_call_id", "") if said.role == MessageRole.TOOL else ""
    return Message(said.role.value, said.content or "", tuple(calls), call)


@pytest.mark.parametrize("vector", vectors("llama-index"))
def test_the_window_is_as_the_vector_says(vector: Vector, tmp_path: Path) -> None:
    check(LlamaIndex(vector, tmp_path))
