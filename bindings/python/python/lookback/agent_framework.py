"""A chat middleware for the agents of Microsoft's Agent Framework, which sends a window of each session.

>>> from agent_framework import Agent
>>> from agent_framework.openai import OpenAIChatCompletionClient
>>> from lookback.agent_framework import LookbackMiddleware
>>> client = OpenAIChatCompletionClient(model="gpt-4o", api_key="...")
>>> agent = Agent(client, middleware=[LookbackMiddleware(store="memory.db")])

The messages that the agent keeps are unchanged: only the model sees fewer of them. Messages that the window leaves
unchanged are the agent's own objects.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Mapping, Sequence
from itertools import groupby
from operator import is_
from os import PathLike
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from agent_framework import (
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionTool,
    Message,
    ResponseStream,
    normalize_tools,
)
from agent_framework.exceptions import ChatClientInvalidRequestException

from lookback._mirror import TRIES, Mirror, Mirrors

__all__ = ["LookbackMiddleware"]

_RESULTS = ("function_result", "computer_tool_result")


class LookbackMiddleware(ChatMiddleware):
    """Shows the model a window of each session's messages.

    ``store`` keeps the sessions, one for each ``session_id``. Without it, they are kept in memory. A run without a
    session gets its own, in memory. If the provider refuses a request as too long, a smaller one is sent, at most three
    times.

    Put it at the end of an agent's middleware. It must see the whole history with each call. So the service must not
    keep the history, and the agent must not load it after the middleware: set the option ``store`` to ``False``, and do
    not set ``require_per_service_call_history_persistence``.
    """

    def __init__(
        self,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        policy: str | dict[str, Any] | None = None,
    ) -> None:
        self._store = store
        self._options: dict[str, Any] = {"model": model, "policy": policy}
        self._mirrors = Mirrors[_Messages](store)
        # A run is identified by its first message, until it ends.
        self._runs = WeakKeyDictionary[Message, _Messages]()

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        """Calls the model with a window of the messages."""
        options, items = context.options or {}, list(context.messages)
        is_stored = getattr(context.client, "STORES_BY_DEFAULT", False) and options.get("store") is not False
        if is_stored or options.get("conversation_id"):
            raise ChatClientInvalidRequestException(
                "LookbackMiddleware needs the whole history with each call. Set the option `store` to False, "
                "and do not set `require_per_service_call_history_persistence`."
            )
        mirror = await self._mirror(context, items)
        context.messages = await mirror.awindow(items, _preamble(options))
        for _ in range(TRIES):
            try:
                return await _call(context, call_next)
            except Exception as error:
                context.messages = await mirror.asmaller(error, items)
        await _call(context, call_next)

    async def _mirror(self, context: ChatContext, items: list[Message]) -> _Messages:
        if context.session is not None:
            name = f"agent_framework/{context.session.session_id}"
            return await self._mirrors.aof(name, lambda: _Messages(name, store=self._store, **self._options))
        mirror = self._runs.get(items[0]) if items else None
        if mirror is None:
            mirror = _Messages("agent_framework/run", **self._options)
            if items:
                self._runs[items[0]] = mirror
        return mirror


async def _call(context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
    """Calls the model. Starts a stream, because the provider refuses a request only then."""
    await call_next()
    if isinstance(context.result, ResponseStream):
        context.result = await _begun(context.result, (context.options or {}).get("response_format"))


async def _begun(
    stream: ResponseStream[ChatResponseUpdate, ChatResponse[Any]], form: Any
) -> ResponseStream[ChatResponseUpdate, ChatResponse[Any]]:
    """Returns the same stream after its first update has arrived."""
    first = await anext(stream, None)
    passed: list[ChatResponseUpdate] = []

    async def updates() -> AsyncIterator[ChatResponseUpdate]:
        if first is not None:
            passed.append(first)
            yield first
        async for update in stream:
            passed.append(update)
            yield update

    async def response(taken: Sequence[ChatResponseUpdate]) -> ChatResponse[Any]:
        whole = await stream.get_final_response()
        # If other middleware has replaced updates, the response must be built from the replaced ones.
        is_same = len(taken) == len(passed) and all(map(is_, taken, passed))
        return whole if is_same else ChatResponse.from_updates(taken, output_format_type=form)

    return ResponseStream(updates(), finalizer=response, cleanup_hooks=[stream.close])


class _Element(NamedTuple):
    """An element of the session, and the contents of a message that it holds."""

    shown: dict[str, Any]
    contents: list[Content]


class _Messages(Mirror[Message]):
    """The messages of an agent's session. Lookback's session keeps them in OpenAI's format."""

    def key(self, item: Message) -> Hashable:
        # Most messages have no identifiers, and the agent adds its name to answers after the run.
        return item.role, tuple(map(_key, item.contents))

    def encode(self, item: Message) -> list[dict[str, Any]]:
        return [element.shown for element in _elements(item)]

    def revive(self, item: Message, shown: list[tuple[int, dict[str, Any]]]) -> Message:
        elements = _elements(item)
        contents = [content for place, message in shown for content in _contents(message, elements[place])]
        return Message(
            item.role,
            contents,
            author_name=item.author_name,
            message_id=item.message_id,
            additional_properties=item.additional_properties,
        )

    def make(self, shown: dict[str, Any], name: str) -> Message:
        return Message(shown["role"], _contents(shown, _Element({}, [])), message_id=name)


def _preamble(options: Mapping[str, Any]) -> dict[str, Any]:
    system = options.get("instructions")
    # Other kinds of tools belong to the provider, and only the provider knows what they add.
    tools = [tool for tool in normalize_tools(options.get("tools")) if isinstance(tool, FunctionTool)]
    return {
        "system": {"text": system} if system else None,
        "tools": [tool.to_json_schema_spec() for tool in tools] or None,
    }


def _key(content: Content) -> Hashable:
    """Returns a value that identifies a content."""
    items = tuple(map(_key, content.items or ()))
    return content.type, content.call_id, content.text, content.uri, str(content.arguments), str(content.result), items


def _elements(item: Message) -> list[_Element]:
    """Returns the elements of a message: each result is one, and so is each run of other contents."""
    elements: list[_Element] = []
    role = item.role if item.role in ("system", "developer", "assistant") else "user"
    for is_result, group in groupby(item.contents, lambda content: content.type in _RESULTS):
        contents = list(group)
        if is_result:
            elements += [_Element(_result(content), [content]) for content in contents]
        else:
            blocks = list(map(_block, contents))
            calls = [block for block in blocks if block["type"] == "function"]
            said = {"role": role, "content": [block for block in blocks if block["type"] != "function"]}
            elements.append(_Element(said | ({"tool_calls": calls} if calls else {}), contents))
    return elements


def _result(content: Content) -> dict[str, Any]:
    items = content.items or ([content.screenshot] if content.screenshot else [])
    blocks = list(map(_block, items)) or str(content.result or "")
    return {"role": "tool", "tool_call_id": content.call_id, "content": blocks}


def _block(content: Content) -> dict[str, Any]:
    """Returns a content in OpenAI's format. Contents of single providers become text, so that they are counted."""
    if content.type == "text":
        return {"type": "text", "text": content.text}
    if content.type in ("data", "uri"):
        if content.has_top_level_media_type("image"):
            return {"type": "image_url", "image_url": {"url": content.uri}}
        return {"type": "file", "file": {"file_data": content.uri}}
    if content.type in ("function_call", "computer_tool_call"):
        given = content.arguments if content.type == "function_call" else {"actions": content.actions}
        arguments = given if isinstance(given, str) else json.dumps(given)
        function = {"name": content.name or content.type, "arguments": arguments}
        return {"type": "function", "id": content.call_id, "function": function}
    return {"type": "text", "text": json.dumps(content.to_dict(), default=str)}


def _contents(shown: dict[str, Any], element: _Element) -> list[Content]:
    """Returns the contents that a window shows of an element, or those of a message that Lookback added."""
    if shown == element.shown:
        return element.contents
    if shown["role"] != "tool":
        return _said(shown, element.contents)
    old = element.contents[0] if element.contents else None
    if old is not None and old.type != "function_result":
        # A screenshot has no shorter form.
        return [old]
    new = Content.from_function_result(shown["tool_call_id"], result=_said(shown, (old and old.items) or []))
    if old is not None:
        new.id, new.exception, new.additional_properties = old.id, old.exception, old.additional_properties
    return [new]


def _said(shown: dict[str, Any], contents: Sequence[Content]) -> list[Content]:
    """Returns the contents of a message. Unchanged ones are the original objects."""
    said: Any = shown.get("content") or []
    blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
    return [_content(block, contents) for block in [*blocks, *shown.get("tool_calls", [])]]


def _content(block: dict[str, Any], contents: Sequence[Content]) -> Content:
    for content in contents:
        if _block(content) == block:
            return content
    if block["type"] == "function":
        function = block["function"]
        return Content.from_function_call(block["id"], function["name"], arguments=function["arguments"])
    return Content.from_text(block["text"])
