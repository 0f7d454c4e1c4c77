"""A chat generator for Haystack, which shows another generator a window of the conversation.

>>> from haystack.components.agents import Agent
>>> from haystack.components.generators.chat import OpenAIChatGenerator
>>> from lookback.haystack import LookbackChatGenerator
>>> agent = Agent(chat_generator=LookbackChatGenerator(OpenAIChatGenerator(), "chat-1", store="memory.db"))

The messages of the agent are unchanged: only the model sees fewer of them. Messages that the window leaves unchanged
are the agent's own objects.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Hashable
from itertools import groupby
from os import PathLike, fspath
from typing import Any, NamedTuple

from haystack import component, default_from_dict, default_to_dict
from haystack.components.generators.chat.types import ChatGenerator
from haystack.core.serialization import component_to_dict
from haystack.dataclasses import ChatMessage, StreamingCallbackT
from haystack.tools import ToolsType, flatten_tools_or_toolsets
from haystack.utils import deserialize_component_inplace

from lookback._mirror import TRIES, Mirror

__all__ = ["LookbackChatGenerator"]


@component
class LookbackChatGenerator:
    """Shows a chat generator a window of the messages.

    ``session`` is the name of the conversation, and ``store`` keeps it. Without ``store``, it is kept in memory. Use a
    generator for one conversation. If the provider refuses a request as too long, a smaller one is sent, at most three
    times.
    """

    def __init__(
        self,
        chat_generator: ChatGenerator,
        session: str,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        policy: str | dict[str, Any] | None = None,
    ) -> None:
        self.chat_generator: Any = chat_generator
        self._session = session
        self._options: dict[str, Any] = {"store": store and fspath(store), "model": model, "policy": policy}
        self._mirror = _Messages(session, **self._options)

    @component.output_types(replies=list[ChatMessage])
    def run(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: ToolsType | None = None,
    ) -> dict[str, Any]:
        """Calls the model with a window of the messages."""
        inputs = _given(streaming_callback=streaming_callback, generation_kwargs=generation_kwargs, tools=tools)
        items = [ChatMessage.from_user(messages)] if isinstance(messages, str) else messages
        window = self._mirror.window(items, self._preamble(tools))
        for _ in range(TRIES):
            try:
                return self._call(window, inputs)
            except Exception as error:
                window = self._mirror.smaller(error, items)
        return self._call(window, inputs)

    @component.output_types(replies=list[ChatMessage])
    async def run_async(
        self,
        messages: list[ChatMessage] | str,
        streaming_callback: StreamingCallbackT | None = None,
        generation_kwargs: dict[str, Any] | None = None,
        *,
        tools: ToolsType | None = None,
    ) -> dict[str, Any]:
        """Calls the model with a window of the messages."""
        inputs = _given(streaming_callback=streaming_callback, generation_kwargs=generation_kwargs, tools=tools)
        items = [ChatMessage.from_user(messages)] if isinstance(messages, str) else messages
        window = await self._mirror.awindow(items, self._preamble(tools))
        for _ in range(TRIES):
            try:
                return await self._acall(window, inputs)
            except Exception as error:
                window = await self._mirror.asmaller(error, items)
        return await self._acall(window, inputs)

    def _preamble(self, tools: ToolsType | None) -> dict[str, Any]:
        # A generator can have its own tools.
        known = flatten_tools_or_toolsets(tools or getattr(self.chat_generator, "tools", None))
        specifications = [{"type": "function", "function": tool.tool_spec} for tool in known]
        return {"tools": specifications or None}

    def _call(self, window: list[ChatMessage], inputs: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self.chat_generator.run(messages=window, **inputs)
        return answer

    async def _acall(self, window: list[ChatMessage], inputs: dict[str, Any]) -> dict[str, Any]:
        if not hasattr(self.chat_generator, "run_async"):
            return await asyncio.to_thread(self._call, window, inputs)
        answer: dict[str, Any] = await self.chat_generator.run_async(messages=window, **inputs)
        return answer

    def warm_up(self) -> None:
        """Warms up the wrapped generator."""
        if hasattr(self.chat_generator, "warm_up"):
            self.chat_generator.warm_up()

    async def warm_up_async(self) -> None:
        """Warms up the wrapped generator."""
        if hasattr(self.chat_generator, "warm_up_async"):
            await self.chat_generator.warm_up_async()
        else:
            self.warm_up()

    def close(self) -> None:
        """Closes the wrapped generator."""
        if hasattr(self.chat_generator, "close"):
            self.chat_generator.close()

    async def close_async(self) -> None:
        """Closes the wrapped generator."""
        if hasattr(self.chat_generator, "close_async"):
            await self.chat_generator.close_async()
        else:
            self.close()

    def to_dict(self) -> dict[str, Any]:
        """Returns a dictionary for ``from_dict``."""
        generator = component_to_dict(self.chat_generator, "chat_generator")
        return default_to_dict(self, chat_generator=generator, session=self._session, **self._options)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> LookbackChatGenerator:
        """Creates a generator from the result of ``to_dict``."""
        deserialize_component_inplace(data["init_parameters"], key="chat_generator")
        return default_from_dict(cls, data)


def _given(**inputs: Any) -> dict[str, Any]:
    """Returns the inputs that are set. Not every generator accepts all of them."""
    return {name: value for name, value in inputs.items() if value is not None}


class _Element(NamedTuple):
    """An element of the session, and the parts of a message that it holds."""

    shown: dict[str, Any]
    parts: list[dict[str, Any]]


class _Messages(Mirror[ChatMessage]):
    """The messages of a conversation. The session keeps them in OpenAI's format."""

    def __init__(self, session: str, **options: Any) -> None:
        super().__init__(session, **options)
        self._tools: dict[str, str] = {}

    def key(self, item: ChatMessage) -> Hashable:
        calls = tuple((call.id, call.tool_name, str(call.arguments)) for call in item.tool_calls)
        results = tuple((result.origin.id, str(result.result)) for result in item.tool_call_results)
        media = tuple(image.base64_image for image in item.images) + tuple(file.base64_data for file in item.files)
        return item.role, tuple(item.texts), calls, results, media

    def encode(self, item: ChatMessage) -> list[dict[str, Any]]:
        encoded = [element.shown for element in _elements(item)]
        calls = [call for shown in encoded for call in shown.get("tool_calls", [])]
        self._tools |= {call["id"]: call["function"]["name"] for call in calls}
        return encoded

    def revive(self, item: ChatMessage, shown: list[tuple[int, dict[str, Any]]]) -> ChatMessage:
        elements = _elements(item)
        parts = [part for place, message in shown for part in _parts(message, elements[place])]
        return ChatMessage.from_dict(item.to_dict() | {"content": parts})

    def make(self, shown: dict[str, Any], name: str) -> ChatMessage:
        parts: list[dict[str, Any]] = []
        if shown["role"] == "tool":
            # A stand-in for a missing result.
            called = shown["tool_call_id"]
            origin: Any = {"id": called, "tool_name": self._tools.get(called, ""), "arguments": {}}
            parts = [{"tool_call_result": {"origin": origin, "result": "", "error": True}}]
        content = _parts(shown, _Element({}, parts))
        return ChatMessage.from_dict({"role": shown["role"], "content": content, "meta": {"lookback": name}})


def _elements(item: ChatMessage) -> list[_Element]:
    """Returns the elements of a message: each result is one, and so is each run of other parts."""
    elements: list[_Element] = []
    for is_result, group in groupby(item.to_dict()["content"], lambda part: "tool_call_result" in part):
        parts = list(group)
        if is_result:
            elements += [_Element(_result(part["tool_call_result"]), [part]) for part in parts]
        else:
            blocks = list(map(_block, parts))
            calls = [block for block in blocks if block["type"] == "function"]
            said = {"role": item.role.value, "content": [block for block in blocks if block["type"] != "function"]}
            elements.append(_Element(said | ({"tool_calls": calls} if calls else {}), parts))
    return elements


def _identifier(call: dict[str, Any]) -> str:
    """Returns the value that connects a call to its result. Some models give calls no identifiers."""
    return call["id"] or json.dumps([call["tool_name"], call["arguments"]])


def _result(result: dict[str, Any]) -> dict[str, Any]:
    content = result["result"] if isinstance(result["result"], str) else list(map(_block, result["result"]))
    return {"role": "tool", "tool_call_id": _identifier(result["origin"]), "content": content}


def _block(part: dict[str, Any]) -> dict[str, Any]:
    """Returns a part in OpenAI's format. Parts of single providers become text, so that they are counted."""
    if "text" in part:
        return {"type": "text", "text": part["text"]}
    if image := part.get("image"):
        url = f"data:{image['mime_type'] or 'image/jpeg'};base64,{image['base64_image']}"
        return {"type": "image_url", "image_url": {"url": url}}
    if file := part.get("file"):
        data = f"data:{file['mime_type'] or 'application/pdf'};base64,{file['base64_data']}"
        return {"type": "file", "file": {"file_data": data}}
    if call := part.get("tool_call"):
        function = {"name": call["tool_name"], "arguments": json.dumps(call["arguments"])}
        return {"type": "function", "id": _identifier(call), "function": function}
    return {"type": "text", "text": json.dumps(part, default=str)}


def _parts(shown: dict[str, Any], element: _Element) -> list[dict[str, Any]]:
    """Returns the parts that a window shows of an element, or those of a message that Lookback added."""
    if shown == element.shown:
        return element.parts
    if shown["role"] != "tool":
        return _said(shown, element.parts)
    old = element.parts[0]["tool_call_result"]
    origin, content = old["origin"], shown["content"]
    if shown["tool_call_id"] != _identifier(origin):
        origin = origin | {"id": shown["tool_call_id"]}
    result = content if isinstance(content, str) else _said(shown, old["result"])
    return [{"tool_call_result": old | {"origin": origin, "result": result}}]


def _said(shown: dict[str, Any], parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the parts of a message. Unchanged ones are the original objects."""
    said: Any = shown.get("content") or []
    blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
    return [_part(block, parts) for block in [*blocks, *shown.get("tool_calls", [])]]


def _part(block: dict[str, Any], parts: list[dict[str, Any]]) -> dict[str, Any]:
    for part in parts:
        if _block(part) == block:
            return part
    if block["type"] == "function":
        function = block["function"]
        arguments = json.loads(function["arguments"])
        return {"tool_call": {"id": block["id"], "tool_name": function["name"], "arguments": arguments}}
    return {"text": block["text"]}
