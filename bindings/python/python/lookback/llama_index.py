"""A memory for the agents and chat engines of LlamaIndex, which returns windows and keeps the whole conversation.

>>> from lookback.llama_index import LookbackAgent, LookbackMemory
>>> memory = LookbackMemory("chat-1", store="memory.db")
>>> agent = LookbackAgent(llm=llm, tools=[search])  # doctest: +SKIP
>>> await agent.run("What is new?", memory=memory)  # doctest: +SKIP

A ``FunctionAgent`` of LlamaIndex keeps the steps of a run to itself until the run ends, and sends all of them. A
``LookbackAgent`` puts each step into its memory at once, so a long run has a window too.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from os import PathLike, fspath
from typing import Any
from uuid import uuid4

from llama_index.core.agent.workflow import AgentOutput, FunctionAgent, ToolCallResult
from llama_index.core.agent.workflow.agent_context import AgentContext
from llama_index.core.base.llms.types import (
    AudioBlock,
    ChatMessage,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MessageRole,
    TextBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import AsyncBaseTool
from llama_index.core.workflow import Context

from lookback._mirror import TRIES, Mirror, away
from lookback._native import Session

__all__ = ["LookbackAgent", "LookbackMemory"]


class LookbackMemory(BaseMemory):
    """Shows an agent or a chat engine a window of its conversation. ``get_all`` returns the whole conversation.

    ``session_id`` is the name of the conversation, and ``store`` keeps it. Without ``store``, it is kept in memory.
    Another memory with the same name and store continues the conversation.
    """

    session_id: str = Field()
    store: str | None = Field()
    model: str | None = Field()
    policy: str | dict[str, Any] | None = Field()
    _messages: _Messages = PrivateAttr()

    def __init__(
        self,
        session_id: str | None = None,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        policy: str | dict[str, Any] | None = None,
    ) -> None:
        name, path = session_id or str(uuid4()), None if store is None else fspath(store)
        fields: dict[str, Any] = {"session_id": name, "store": path, "model": model, "policy": policy}
        super().__init__(**fields)
        self._messages = _Messages(f"llama-index/{name}", store=path, model=model, policy=policy)

    @classmethod
    def class_name(cls) -> str:
        """Returns the name that LlamaIndex knows it by."""
        return "LookbackMemory"

    @classmethod
    def from_defaults(cls, chat_history: list[ChatMessage] | None = None, **kwargs: Any) -> LookbackMemory:
        """Creates a memory and takes over a history. Ignores a chat engine's token limit: the policy sets limits."""
        kwargs.pop("token_limit", None)
        memory = cls(**kwargs)
        if chat_history:
            memory.set(chat_history)
        return memory

    @property
    def session(self) -> Session:
        """The session that keeps the conversation."""
        return self._messages.session

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:
        """Returns the window for the next model call."""
        with self._messages.lock:
            return self._messages.window(self._messages.items)

    def smaller(self, error: Exception) -> list[ChatMessage]:
        """Returns a smaller window, because the provider refused the last one as too long.

        Raises an error with another cause again.
        """
        with self._messages.lock:
            return self._messages.smaller(error, self._messages.items)

    async def asmaller(self, error: Exception) -> list[ChatMessage]:
        """The same as ``smaller``, awaited."""
        return await self._messages.away(self.smaller, error)

    def get_all(self) -> list[ChatMessage]:
        """Returns the whole conversation."""
        return list(self._messages.items)

    def put(self, message: ChatMessage) -> None:
        """Appends a message."""
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Appends messages."""
        # Agents put results and get windows from several threads.
        with self._messages.lock:
            self._messages.take([*self._messages.items, *messages])

    def set(self, messages: list[ChatMessage]) -> None:
        """Takes over a whole history. Messages that are no longer in it stay in the log."""
        self._messages.take(messages)

    def reset(self) -> None:
        """Starts over with an empty conversation. Earlier messages stay in the log."""
        self._messages.take([])


class LookbackAgent(FunctionAgent):
    """A function calling agent that puts each step into its memory at once, instead of all steps at the end of a run.

    If the provider refuses a request as too long, a smaller one is sent, at most three times.
    """

    async def take_step(
        self, ctx: AgentContext, llm_input: list[ChatMessage], tools: Sequence[AsyncBaseTool], memory: BaseMemory
    ) -> AgentOutput:
        """Calls the model with a window of the conversation."""
        output = await self._step(ctx, llm_input, tools, memory)
        await self._keep(ctx, memory)
        return output

    async def handle_tool_call_results(self, ctx: Context, results: list[ToolCallResult], memory: BaseMemory) -> None:
        """Puts the results of the tools into the memory."""
        await super().handle_tool_call_results(ctx, results, memory)
        await self._keep(ctx, memory)

    async def _step(
        self, ctx: AgentContext, llm_input: list[ChatMessage], tools: Sequence[AsyncBaseTool], memory: BaseMemory
    ) -> AgentOutput:
        if isinstance(memory, LookbackMemory):
            definitions = [tool.metadata.to_openai_tool() for tool in tools]
            system = self.system_prompt
            preamble: dict[str, Any] = {"system": system and {"text": system}, "tools": definitions or None}
            await away(memory.store is not None, lambda: memory.session.preamble(**preamble))
            for _ in range(TRIES):
                try:
                    return await super().take_step(ctx, llm_input, tools, memory)
                except Exception as error:
                    llm_input = [*llm_input[: 1 if system else 0], *await memory.asmaller(error)]
        return await super().take_step(ctx, llm_input, tools, memory)

    async def _keep(self, ctx: AgentContext | Context, memory: BaseMemory) -> None:
        await memory.aput_messages(await ctx.store.get(self.scratchpad_key, default=[]))
        await ctx.store.set(self.scratchpad_key, [])


_WHOLE = "llama_index"
"""The member of a stored message with the whole original, if OpenAI's format loses something."""

_IN_KWARGS = ("tool_call_id", "tool_calls")
"""The members of OpenAI's format that LlamaIndex keeps in a message's ``additional_kwargs``."""


class _Messages(Mirror[ChatMessage]):
    """The conversation of a memory. The session keeps its texts, calls and results in OpenAI's format."""

    def __init__(self, session: str, **options: Any) -> None:
        super().__init__(session, **options)
        # The messages that an earlier process has put.
        self.items = [_message(shown) for shown in self.session.messages()]

    def take(self, items: Sequence[ChatMessage]) -> None:
        """Takes over the conversation. Makes no window, because windows are recorded and only model calls need them."""
        with self.lock:
            super().take(items)
            self.items = list(items)

    def key(self, item: ChatMessage) -> Hashable:
        # Ignores the state that an agent writes into its messages later.
        return item.role, str(item.additional_kwargs.get("tool_call_id")), *map(_key, item.blocks)

    def encode(self, item: ChatMessage) -> list[dict[str, Any]]:
        shown = _shown(item)
        if self._is_stored and _message(shown) != item:
            shown[_WHOLE] = item.model_dump(mode="json")
        return [shown]

    def revive(self, item: ChatMessage, shown: list[tuple[int, dict[str, Any]]]) -> ChatMessage:
        [(_, message)] = shown
        made = _message({name: value for name, value in message.items() if name != _WHOLE})
        # Unchanged blocks are the original objects.
        own = {_key(_block(_part(block))): block for block in item.blocks}
        kwargs = {name: value for name, value in item.additional_kwargs.items() if name not in _IN_KWARGS}
        kwargs |= {name: message[name] for name in _IN_KWARGS if name in message and name in item.additional_kwargs}
        blocks = [own.get(_key(block), block) for block in made.blocks]
        return ChatMessage(role=item.role, blocks=blocks, additional_kwargs=kwargs)

    def make(self, shown: dict[str, Any], name: str) -> ChatMessage:
        return _message(shown)


def _key(block: ContentBlock) -> str:
    return block.text if isinstance(block, TextBlock) else repr(block)


def _shown(item: ChatMessage) -> dict[str, Any]:
    """Returns a message in OpenAI's format."""
    every = [_part(block) for block in item.blocks]
    calls = [part for part in every if part["type"] == "function"]
    # Some models keep their calls outside the blocks.
    beside: list[Any] = item.additional_kwargs.get("tool_calls") or []
    calls = calls or [_call(call) for call in beside]
    parts = [part for part in every if part["type"] != "function"]
    content: Any = parts or (None if calls else "")
    if [part["type"] for part in parts] == ["text"]:
        content = parts[0]["text"]
    match item.role:
        case MessageRole.TOOL:
            id = item.additional_kwargs.get("tool_call_id") or ""
            return {"role": "tool", "tool_call_id": id, "content": content}
        case MessageRole.ASSISTANT | MessageRole.MODEL | MessageRole.CHATBOT:
            return {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})
        case MessageRole.SYSTEM | MessageRole.DEVELOPER:
            return {"role": item.role.value, "content": content}
        case _:
            return {"role": "user", "content": content}


def _part(block: ContentBlock) -> dict[str, Any]:
    """Returns a block as a part of the content, or as a call."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ToolCallBlock():
            arguments = block.tool_kwargs if isinstance(block.tool_kwargs, str) else json.dumps(block.tool_kwargs)
            function = {"name": block.tool_name, "arguments": arguments}
            return {"type": "function", "id": block.tool_call_id or "", "function": function}
        case ImageBlock():
            return {"type": "image_url", "image_url": {"url": str(block.url or block.inline_url())}}
        case AudioBlock() | VideoBlock() | DocumentBlock():
            return {"type": "file", "file": {"file_data": str(block.url or block.inline_url())}}
        case _:
            # Counted by its length.
            return {"type": block.block_type, "block": block.model_dump(mode="json")}


def _call(call: Any) -> dict[str, Any]:
    """Returns a call that is not a block: LlamaIndex's own type, or one like OpenAI's."""
    if isinstance(call, ToolSelection):
        return _part(ToolCallBlock(tool_call_id=call.tool_id, tool_name=call.tool_name, tool_kwargs=call.tool_kwargs))
    written: dict[str, Any] = call if isinstance(call, dict) else call.model_dump()  # pyright: ignore
    return written


def _block(part: dict[str, Any]) -> ContentBlock:
    """Returns a part as a block. Lookback itself writes only texts and calls."""
    if part["type"] != "function":
        return TextBlock(text=part["text"] if part["type"] == "text" else json.dumps(part))
    function = part["function"]
    return ToolCallBlock(tool_call_id=part["id"], tool_name=function["name"], tool_kwargs=function["arguments"])


def _message(shown: dict[str, Any]) -> ChatMessage:
    """Returns a message of the session as a message of LlamaIndex."""
    if _WHOLE in shown:
        return ChatMessage.model_validate(shown[_WHOLE])
    content: Any = shown.get("content") or []
    parts: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return ChatMessage(
        role=shown["role"],
        blocks=[_block(part) for part in [*parts, *shown.get("tool_calls", [])]],
        additional_kwargs={"tool_call_id": shown["tool_call_id"]} if "tool_call_id" in shown else {},
    )
