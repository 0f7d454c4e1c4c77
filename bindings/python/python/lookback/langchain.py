"""A middleware for the agents of LangChain, which sends a window of each thread.

>>> from langchain.agents import create_agent
>>> from lookback.langchain import LookbackMiddleware
>>> create_agent("openai:gpt-4o", middleware=[LookbackMiddleware(store="memory.db")])  # doctest: +SKIP

The state of the agent is unchanged: only the model sees fewer messages. Messages that the window leaves unchanged are
the state's own objects.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Hashable
from os import PathLike
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain.agents.middleware.types import ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config

from lookback._mirror import TRIES, Mirror, Mirrors, away

__all__ = ["LookbackMiddleware"]


class LookbackMiddleware(AgentMiddleware[Any, Any, Any]):
    """Shows the model a window of each thread's messages.

    ``store`` keeps the sessions. Without it, they are kept in memory. There is one for each ``thread_id``, and one for
    each agent that is a tool or a part of a graph. A run without a ``thread_id`` gets its own session, in memory. If
    the provider refuses a request as too long, a smaller one is sent, at most three times.
    """

    def __init__(
        self,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        policy: str | dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._store = store
        self._options: dict[str, Any] = {"model": model, "policy": policy}
        self._mirrors = Mirrors[_Messages](store)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Calls the model with a window of the messages."""
        mirror = self._mirror(request)
        messages = mirror.window(request.messages, _preamble(request))
        for _ in range(TRIES):
            try:
                return handler(request.override(messages=messages))
            except Exception as error:
                messages = mirror.smaller(error, request.messages)
        return handler(request.override(messages=messages))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Calls the model with a window of the messages."""
        mirror = await away(self._store is not None, self._mirror, request)
        messages = await mirror.awindow(request.messages, _preamble(request))
        for _ in range(TRIES):
            try:
                return await handler(request.override(messages=messages))
            except Exception as error:
                messages = await mirror.asmaller(error, request.messages)
        return await handler(request.override(messages=messages))

    def _mirror(self, request: ModelRequest[Any]) -> _Messages:
        # The graph gives each message a unique identifier.
        first = request.messages[0].id if request.messages else None
        thread = _thread(first)
        key, store = (f"thread/{thread}", self._store) if thread else (f"run/{first}", None)
        name = f"langchain/{thread or 'run'}"
        return self._mirrors.of(key, lambda: _Messages(name, store=store, **self._options))


def _thread(first: str | None) -> str | None:
    """Returns the name of a request's thread. Agents within a thread share its identifier, and add their place."""
    configurable = get_config().get("configurable", {})
    thread, place = configurable.get("thread_id"), configurable.get("checkpoint_ns") or ""
    if not thread:
        return None
    # The last part of the place is the model's own. Each part ends with an identifier that differs between runs.
    nodes = [part.split(":")[0] for part in place.split("|")[:-1]]
    return "/".join([str(thread), *nodes, str(first)]) if nodes else str(thread)


def _preamble(request: ModelRequest[Any]) -> dict[str, Any]:
    system = request.system_message.text if request.system_message else None
    tools = [tool if isinstance(tool, dict) else convert_to_openai_tool(tool) for tool in request.tools]
    return {"system": {"text": system} if system else None, "tools": tools or None}


class _Messages(Mirror[AnyMessage]):
    """The messages of a thread. The session keeps their texts, calls and results in OpenAI's format."""

    def key(self, item: AnyMessage) -> Hashable:
        # A message can grow while it is streamed, and be replaced by one with the same identifier.
        content = item.content if isinstance(item.content, str) else json.dumps(item.content, default=str)
        calls = tuple(call["id"] for call in item.tool_calls) if isinstance(item, AIMessage) else ()
        return item.type, item.id, content, calls

    def encode(self, item: AnyMessage) -> list[dict[str, Any]]:
        content = _content(item.content)
        if isinstance(item, ToolMessage):
            return [{"role": "tool", "tool_call_id": item.tool_call_id, "content": content}]
        if isinstance(item, AIMessage):
            given: list[tuple[Any, str]] = [(call, json.dumps(call["args"])) for call in item.tool_calls]
            # The provider gets calls with invalid JSON arguments back as text, together with their results.
            given += [(call, call["args"] or "") for call in item.invalid_tool_calls if call["id"] is not None]
            calls = [
                {"type": "function", "id": call["id"], "function": {"name": call["name"], "arguments": arguments}}
                for call, arguments in given
            ]
            return [{"role": "assistant", "content": content} | ({"tool_calls": calls} if calls else {})]
        return [{"role": "system" if isinstance(item, SystemMessage) else "user", "content": content}]

    def revive(self, item: AnyMessage, shown: list[tuple[int, dict[str, Any]]]) -> AnyMessage:
        [(_, message)] = shown
        changed: dict[str, Any] = {"content": message.get("content") or ""}
        if isinstance(item, ToolMessage):
            changed |= {"artifact": None, "tool_call_id": message["tool_call_id"]}
        elif isinstance(item, AIMessage):
            sent: list[dict[str, Any]] = message.get("tool_calls") or []
            left = {call["id"] for call in sent}
            changed["tool_calls"] = [call for call in item.tool_calls if call["id"] in left]
            changed["invalid_tool_calls"] = [call for call in item.invalid_tool_calls if call["id"] in left]
        return item.model_copy(update=changed)

    def make(self, shown: dict[str, Any], name: str) -> AnyMessage:
        content: Any = shown.get("content") or ""
        match shown["role"]:
            case "tool":
                return ToolMessage(content, tool_call_id=shown["tool_call_id"], id=name)
            case "assistant":
                return AIMessage(content, id=name)
            case "system":
                return SystemMessage(content, id=name)
            case _:
                return HumanMessage(content, id=name)


def _content(content: Any) -> Any:
    """Returns the content. Blocks of single providers become text, so that they are counted."""
    if isinstance(content, str):
        return content
    known = ("text", "image_url", "input_audio", "file")
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    as_text = ({"type": "text", "text": json.dumps(block, default=str)} for block in blocks)
    return [block if block.get("type") in known else text for block, text in zip(blocks, as_text)]
