"""A capability for the agents of Pydantic AI, which sends a window of each conversation.

>>> from pydantic_ai import Agent
>>> from lookback.pydantic_ai import LookbackCapability
>>> agent = Agent("openai:gpt-4o", capabilities=[LookbackCapability(store="memory.db")])  # doctest: +SKIP

The history of a run is unchanged: only the model sees less of it. Messages that the window leaves unchanged are the
history's own objects.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from os import PathLike
from typing import Any, NoReturn, cast

from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering, ModelFallback
from pydantic_ai.exceptions import ModelAPIError, RetryModelRequest
from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    BinaryContent,
    CachePoint,
    CapabilityLoadDeltaPart,
    CompactionPart,
    FilePart,
    ImageUrl,
    LoadCapabilityCallPart,
    LoadCapabilityReturnPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    NativeToolSearchReturnPart,
    RetryFeedbackPart,
    RetryPromptPart,  # pyright: ignore[reportDeprecated]
    SpeechPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ToolAvailabilityDeltaPart,
    ToolCallPart,
    ToolReturnPart,
    ToolSearchReturnPart,
    UploadedFile,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext

from lookback._mirror import TRIES, Mirror, Mirrors

__all__ = ["LookbackCapability"]

_NO_TIME = datetime.fromtimestamp(0, timezone.utc)
"""The timestamp of messages that Lookback adds, so that they are the same in each request."""


class LookbackCapability(AbstractCapability[Any]):
    """Shows the model a window of each conversation's messages.

    ``store`` keeps the sessions, one for each ``conversation_id``. Without it, they are kept in memory. If the provider
    refuses a request as too long, a smaller one is sent, at most three times.
    """

    def __init__(
        self,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        policy: str | dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._options: dict[str, Any] = {"store": store, "model": model, "policy": policy}
        self._mirrors = Mirrors[_Messages](store)

    def get_ordering(self) -> CapabilityOrdering:
        """Places this after the capabilities that change the history, and before a fallback to another model."""
        return CapabilityOrdering(position="innermost", wrapped_by=[ModelFallback])

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Replaces the messages of the request by a window.

        Later would be too late: the framework then records in the request which instructions and settings its messages
        do not show.
        """
        mirror = await self._mirror(ctx)
        request_context.messages = await mirror.away(mirror.fit, request_context)
        return request_context

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> NoReturn:
        """Requests another attempt with a smaller window, if the provider refuses the request as too long."""
        if not isinstance(error, ModelAPIError) or request_context.attempt > TRIES:
            raise error
        mirror = await self._mirror(ctx)
        mirror.again = await mirror.asmaller(error, mirror.whole)
        raise RetryModelRequest from error

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Puts the smaller window into the request of another attempt."""
        mirror = await self._mirror(ctx)
        if mirror.again is not None:
            # Keeps the messages that were added after the window since then.
            request_context.messages = [*mirror.again, *request_context.messages[mirror.sent :]]
        return request_context

    async def _mirror(self, ctx: RunContext[Any]) -> _Messages:
        conversation = str(ctx.conversation_id)
        return await self._mirrors.aof(conversation, lambda: _Messages(f"pydantic-ai/{conversation}", **self._options))


class _Messages(Mirror[ModelMessage]):
    """The messages of a conversation. The session keeps each part of a request as a message in OpenAI's format."""

    def __init__(self, session: str, **options: Any) -> None:
        super().__init__(session, **options)
        self.whole: list[ModelMessage] = []
        """The messages of the request before its window."""
        self.sent = 0
        """The number of messages in its window."""
        self.again: list[ModelMessage] | None = None
        """A smaller window, if the provider has refused the first."""
        self._tools: dict[str, str] = {}
        """The tools, by the identifiers of their calls."""

    def window(self, items: Sequence[ModelMessage], preamble: dict[str, Any] | None = None) -> list[ModelMessage]:
        """Takes over the framework's list, and returns the window that the model should see."""
        return _noted(super().window(items, preamble), items)

    def smaller(self, error: Exception, items: Sequence[ModelMessage]) -> list[ModelMessage]:
        """Returns a smaller window of the same list, because the provider refused the last one as too long."""
        return _noted(super().smaller(error, items), items)

    def fit(self, request: ModelRequestContext) -> list[ModelMessage]:
        """Returns the window of a request."""
        self.whole, self.again = list(request.messages), None
        window = self.window(self.whole, {"system": _system(request), "tools": _tools(request)})
        self.sent = len(window)
        return window

    def key(self, item: ModelMessage) -> Hashable:
        # The framework may copy a request or add notes to it, without changing what it says.
        return _frozen(self.encode(item))

    def encode(self, item: ModelMessage) -> list[dict[str, Any]]:
        if isinstance(item, ModelRequest):
            # A request that has only notes must still be sent.
            return [message for _, message in _words(item)] or [{"role": "system", "content": ""}]
        texts = [part.content for part in item.parts if isinstance(part, TextPart)]
        message: dict[str, Any] = {"role": "assistant", "content": [_block(text) for text in texts]}
        if len(texts) < 2:
            message["content"] = "".join(texts)
        if beside := "\n".join(filter(None, map(_beside, item.parts))):
            # For counting only. The framework sends it in its own way.
            message["reasoning_content"] = beside
        if calls := [_call(part) for part in item.parts if isinstance(part, ToolCallPart)]:
            self._tools |= _named(item)
            message["tool_calls"] = calls
        return [message]

    def revive(self, item: ModelMessage, shown: list[tuple[int, dict[str, Any]]]) -> ModelMessage:
        if isinstance(item, ModelRequest):
            words = _words(item)
            parts = [_changed(*words[at], message) for at, message in shown]
            notes = [part for part in _parts(item) if _said(part) is None]
            return replace(item, parts=[*parts, *notes])
        [(_, message)] = shown
        revived = replace(item, parts=list(_answer(item, message)))
        self._tools |= _named(revived)
        return revived

    def make(self, shown: dict[str, Any], name: str) -> ModelMessage:
        content: str = shown.get("content") or ""
        part: ModelRequestPart
        match shown["role"]:
            case "assistant":
                return ModelResponse([TextPart(content)], timestamp=_NO_TIME, metadata={"lookback": name})
            case "tool":
                call: str = shown["tool_call_id"]
                part = ToolReturnPart(self._tools[call], content, call, timestamp=_NO_TIME, outcome="interrupted")
            case "system":
                part = SystemPromptPart(content, timestamp=_NO_TIME)
            case _:
                part = UserPromptPart(content, timestamp=_NO_TIME)
        return ModelRequest([part], metadata={"lookback": name})


def _system(request: ModelRequestContext) -> dict[str, Any] | None:
    """Returns the instructions, and the system prompts that are among the messages only by reference."""
    texts = [part.content for part in request.model_request_parameters.instruction_parts or ()]
    for message in request.messages:
        texts += [part.content for part in message.parts if isinstance(part, SystemPromptPart) and part.dynamic_ref]
    return {"text": "\n\n".join(texts)} if texts else None


def _tools(request: ModelRequestContext) -> list[dict[str, Any]] | None:
    parameters = request.model_request_parameters
    functions = [
        {"name": tool.name, "description": tool.description, "parameters": tool.parameters_json_schema}
        for tool in [*parameters.function_tools, *parameters.output_tools]
    ]
    return [{"type": "function", "function": function} for function in functions] or None


def _noted(window: list[ModelMessage], whole: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Adds a note to the window about the capabilities and tools that the model requested in omitted messages.

    Without the note, the framework would hide them again.
    """
    shown = {id(part) for message in window for part in message.parts}
    calls, loaded, tools = dict[str, str | None](), dict[str, None](), dict[str, None]()
    for part in (part for message in whole for part in message.parts):
        match part:
            case LoadCapabilityCallPart():
                calls[part.tool_call_id] = part.capability_id
            case _ if id(part) in shown:
                pass
            case LoadCapabilityReturnPart() if capability := calls.get(part.tool_call_id):
                loaded[capability] = None
            case CapabilityLoadDeltaPart():
                loaded |= dict.fromkeys(part.loaded)
            case ToolAvailabilityDeltaPart():
                tools |= dict.fromkeys(part.tools_added)
            case ToolSearchReturnPart() | NativeToolSearchReturnPart():
                tools |= dict.fromkeys(found["name"] for found in part.discovered_tools)
            case _:
                pass
    notes: list[ModelRequestPart] = [CapabilityLoadDeltaPart(loaded=list(loaded))] if loaded else []
    notes += [ToolAvailabilityDeltaPart(tools_added=list(tools))] if tools else []
    at, first = next((place for place in enumerate(window) if isinstance(place[1], ModelRequest)), (0, None))
    if notes and isinstance(first, ModelRequest):
        window[at] = replace(first, parts=[*first.parts, *notes])
    return window


def _parts(item: ModelRequest) -> list[ModelRequestPart]:
    """Returns the parts of a request. Deprecated retry parts are converted as the framework does."""
    return [_retry(part) if isinstance(part, RetryPromptPart) else part for part in item.parts]  # pyright: ignore


def _retry(part: RetryPromptPart) -> ModelRequestPart:  # pyright: ignore[reportDeprecated]
    text = part.model_response()
    if part.tool_name is None:
        return UserPromptPart(text, timestamp=part.timestamp)
    return ToolReturnPart(part.tool_name, text, part.tool_call_id, timestamp=part.timestamp, outcome="retried")


def _words(item: ModelRequest) -> list[tuple[ModelRequestPart, dict[str, Any]]]:
    """Returns the parts of a request with contents, as messages. Tool results come first, as when they are sent."""
    words = [(part, message) for part in _parts(item) if (message := _said(part))]
    return sorted(words, key=lambda word: word[1]["role"] != "tool")


def _said(part: ModelRequestPart) -> dict[str, Any] | None:
    """Returns a part of a request as a message. ``None`` for the framework's notes and for passing parts."""
    match part:
        case SystemPromptPart(scope="conversation"):
            # The words of a dynamic prompt may differ in the next run.
            return {"role": "system", "content": part.dynamic_ref or part.content}
        case UserPromptPart():
            content = part.content if isinstance(part.content, str) else [_block(item) for item in _items(part)]
            return {"role": "user", "content": content}
        case ToolReturnPart():
            whole = part.model_response_str(wrap_if_error=False)
            content = [_block(item) for item in _items(part)] if part.files else whole
            return {"role": "tool", "tool_call_id": part.tool_call_id, "content": content}
        case RetryFeedbackPart():
            return {"role": "user", "content": part.model_response()}
        case SpeechPart() | CompactionPart():
            return {"role": "user", "content": part.content or ""}
        case _:
            return None


def _changed(part: ModelRequestPart, was: dict[str, Any], message: dict[str, Any]) -> ModelRequestPart:
    """Returns a part of a request as a window shows it."""
    if message == was:
        return part
    blocks = {_frozen(_block(item)): item for item in _items(part)}
    shown: str | list[UserContent] = message["content"]
    if not isinstance(shown, str):
        shown = [blocks[key] if (key := _frozen(block)) in blocks else block["text"] for block in message["content"]]
    if isinstance(part, ToolReturnPart):
        # The result type of its tool might not accept the changed content.
        call: str = message["tool_call_id"]
        return ToolReturnPart(part.tool_name, shown, call, timestamp=part.timestamp, outcome=part.outcome)
    return UserPromptPart(shown)


def _items(part: ModelRequestPart) -> list[UserContent]:
    """Returns the texts, pictures and files of a part of a request."""
    if isinstance(part, ToolReturnPart):
        return [*part.content_items(mode="str", wrap_if_error=False)]
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        return [item for item in part.content if not isinstance(item, CachePoint)]
    return []


def _block(item: UserContent) -> dict[str, Any]:
    match item:
        case str():
            return {"type": "text", "text": item}
        case TextContent():
            return {"type": "text", "text": item.content}
        case ImageUrl():
            return {"type": "image_url", "image_url": {"url": item.url}}
        case BinaryContent(is_image=True):
            return {"type": "image_url", "image_url": {"url": item.data_uri}}
        case BinaryContent():
            return {"type": "file", "file": {"file_data": item.data_uri}}
        case UploadedFile():
            return {"type": "file", "file": {"file_id": item.file_id}}
        case CachePoint():
            return {}
        case _:
            return {"type": "file", "file": {"file_data": item.url}}


def _beside(part: ModelResponsePart) -> str:
    """Returns the text of a response part that OpenAI's format has no place for."""
    match part:
        case TextPart() | ToolCallPart():
            return ""
        case BaseToolCallPart():
            return part.args_as_json_str()
        case BaseToolReturnPart():
            return part.model_response_str()
        case FilePart():
            return part.content.media_type
        case _:
            return part.content or ""


def _call(part: ToolCallPart) -> dict[str, Any]:
    function = {"name": part.tool_name, "arguments": part.args_as_json_str()}
    return {"type": "function", "id": part.tool_call_id, "function": function}


def _named(item: ModelResponse) -> dict[str, str]:
    """Returns the tools that a response calls, by the identifiers of the calls."""
    return {part.tool_call_id: part.tool_name for part in item.parts if isinstance(part, ToolCallPart)}


def _answer(item: ModelResponse, message: dict[str, Any]) -> Iterator[ModelResponsePart]:
    """Yields the parts of a response as a window shows them."""
    calls = iter(message.get("tool_calls") or ())
    for part in item.parts:
        if isinstance(part, ToolCallPart) and (call := next(calls)) != _call(part):
            yield replace(part, args=call["function"]["arguments"], tool_call_id=call["id"])
        else:
            yield part


def _frozen(value: Any) -> Hashable:
    """Returns a value that can be compared and hashed."""
    if isinstance(value, dict):
        return tuple((key, _frozen(member)) for key, member in value.items())  # pyright: ignore
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)  # pyright: ignore
    return cast(Hashable, value)
