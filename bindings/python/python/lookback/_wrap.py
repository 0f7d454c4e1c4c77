"""Wraps the clients of providers so that their model calls send windows."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from os import PathLike
from threading import Lock
from typing import Any, TypeVar, cast

from lookback._errors import DecodeError
from lookback._mirror import TRIES, Mirrors, away, digest
from lookback._native import Policy, Session, Window
from lookback._streams import Record, reported_by, streamed

T = TypeVar("T")

_log = logging.getLogger("lookback")


@dataclass(frozen=True)
class _Seam:
    """A method of a client that sends a history."""

    dialect: str
    history: str
    """The argument with the messages."""
    system: str | None
    """The argument with the system prompt, if it is outside the messages."""


_CHAT = _Seam("openai-chat", "messages", None)
_RESPONSES = _Seam("openai-responses", "input", "instructions")
_MESSAGES = _Seam("anthropic", "messages", "system")

_SEAMS: dict[tuple[str, ...], _Seam] = {
    (*resource.split("."), call): seam
    for resource, seam in {
        "chat.completions": _CHAT,
        "beta.chat.completions": _CHAT,
        "responses": _RESPONSES,
        "beta.responses": _RESPONSES,
        "messages": _MESSAGES,
        "beta.messages": _MESSAGES,
    }.items()
    for call in ("create", "parse", "stream")
}

_RAW = "with_raw_response"
_STREAMING = "with_streaming_response"

_STORED = ("previous_response_id", "conversation")
"""Arguments that name a history kept by the provider. Such a request contains only a part of the history."""


def wrap(
    client: T,
    session: str,
    *,
    store: str | PathLike[str] | None = None,
    policy: str | dict[str, Any] | Policy | None = None,
) -> T:
    """Returns a client of ``openai`` or ``anthropic`` whose model calls send windows of their conversations.

    The program continues to send its whole history with each call. It works the same without ``wrap``. ``store`` keeps
    the conversations. Without it, they are kept in memory. ``session`` is the name of the conversation that the store
    has under it, or otherwise of the first one. A conversation that begins with another message, such as a call that
    only makes a title, gets its own session.

    If the provider refuses a request as too long, a smaller one is sent, at most three times. If Lookback fails, the
    request is sent unchanged, and the reason is logged with ``logging``.
    """
    keeper = _Keeper(session, store, policy if policy is None else Policy(policy))
    # Not its type, because an already wrapped client is a wrapper of either kind.
    is_async = hasattr(client.__class__, "__aenter__")
    return cast(T, _Wrapped(client, (), keeper, is_async))


class _Call:
    """A call of a client."""

    def __init__(self, seam: _Seam, arguments: dict[str, Any]) -> None:
        self.seam, self.arguments = seam, arguments
        self.history: list[Any] | tuple[Any, ...] = ()
        given = arguments.get(seam.history)
        if any(arguments.get(name) for name in _STORED):
            return
        if isinstance(given, (list, tuple)):
            self.history = cast(Any, given)
        elif isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping)):
            # A generator can be read only once.
            self.history = list(given)  # pyright: ignore
            self.arguments = arguments | {seam.history: self.history}

    @property
    def model(self) -> str | None:
        model = self.arguments.get("model")
        return model if isinstance(model, str) else None

    def preamble(self) -> dict[str, Any]:
        # The SDKs use their own placeholder values for omitted arguments.
        system = self.arguments.get(self.seam.system) if self.seam.system else None
        tools = self.arguments.get("tools")
        return {
            "system": system if isinstance(system, (str, list)) else None,
            "tools": cast(Any, tools) if isinstance(tools, list) else None,
        }

    def with_window(self, window: Window, positions: list[int]) -> dict[str, Any]:
        """Returns the arguments with the window instead of the history, unless the window is the whole history.

        ``positions`` are the log positions of the history.
        """
        sources = window.sources
        is_whole = len(sources) == len(positions) and all(
            source.kind == "unchanged" and position in source.positions
            for source, position in zip(sources, positions)
        )
        return self.arguments if is_whole else self.arguments | {self.seam.history: window.messages}


class _Conversation:
    """A conversation of a client with a model. Concurrent calls may have different histories, so they take turns."""

    def __init__(self, session: Session, lock: Lock) -> None:
        self._session, self._lock = session, lock

    def window(self, call: _Call) -> dict[str, Any]:
        """Returns the arguments of a call, with a window."""
        with self._lock:
            positions = self._take(call)
            return call.with_window(self._session.window(), positions)

    def smaller(self, call: _Call, error: Exception) -> dict[str, Any]:
        """Returns the arguments with a smaller window, because the provider refused the last one as too long."""
        with self._lock:
            positions = self._take(call)
            return call.with_window(self._session.overflow(error), positions)

    def usage(self, model: str, tokens: int) -> None:
        """Records the input tokens that the provider counted."""
        with self._lock:
            self._session.usage(model, tokens)

    def _take(self, call: _Call) -> list[int]:
        self._session.preamble(**call.preamble())
        return self._session.sync(cast(Any, call.history))["positions"]


class _Keeper:
    """The conversations of a client: one for each dialect, model and beginning."""

    def __init__(self, name: str, store: str | PathLike[str] | None, policy: Policy | None) -> None:
        self.is_stored = store is not None
        self._name = name
        self._options: dict[str, Any] = {"store": store, "policy": policy}
        self._conversations = Mirrors[_Conversation](store)
        # One lock for all, because conversations with several models share a log.
        self._lock = Lock()
        self._first: str | None = None
        """The beginning of the conversation that has the plain name."""

    def of(self, call: _Call) -> _Conversation:
        """Returns the conversation that a call continues."""
        begins = _digest(call.history)
        key = (call.seam.dialect, call.model, begins)
        return self._conversations.of(key, lambda: self._opened(call, begins))

    def _opened(self, call: _Call, begins: str) -> _Conversation:
        options: dict[str, Any] = self._options | {"model": call.model, "dialect": call.seam.dialect}
        with self._lock:
            if self._first is None:
                # An earlier program may have used the name for another conversation, possibly in a dialect that cannot
                # be converted to this one. Then this conversation gets another name.
                with suppress(DecodeError):
                    said = Session(self._name, **options).messages() if self.is_stored else []
                    self._first = _digest(said) if said else begins
        name = self._name if begins == self._first else f"{self._name}/{begins}"
        return _Conversation(Session(name, **options), self._lock)


class _Exchange:
    """A call, and the arguments that it sends."""

    def __init__(self, keeper: _Keeper, call: _Call) -> None:
        self._keeper, self._call = keeper, call
        self._conversation: _Conversation | None = None
        self._arguments = call.arguments

    def send(self, target: Callable[[dict[str, Any]], T]) -> T:
        """Sends the call with a window, and with a smaller one if the provider refuses it as too long."""
        self._begin()
        for _ in range(TRIES):
            try:
                return target(self._arguments)
            except Exception as error:
                if not self._shrink(error):
                    raise
        return target(self._arguments)

    async def asend(self, target: Callable[[dict[str, Any]], Awaitable[T]]) -> T:
        """The same as ``send``, awaited."""
        await self._away(self._begin)
        for _ in range(TRIES):
            try:
                return await target(self._arguments)
            except Exception as error:
                if not await self._away(self._shrink, error):
                    raise
        return await target(self._arguments)

    def record(self, model: str, tokens: int) -> None:
        """Records the input tokens that the provider reports."""
        if self._conversation is not None:
            try:
                self._conversation.usage(model, tokens)
            except Exception as error:
                _log.warning("the usage is not recorded: %s", error)

    async def arecord(self, model: str, tokens: int) -> None:
        """The same as ``record``, awaited."""
        await self._away(self.record, model, tokens)

    def _begin(self) -> None:
        try:
            conversation = self._keeper.of(self._call)
            self._arguments = conversation.window(self._call)
            self._conversation = conversation
        except Exception as error:
            _log.warning("the request is sent as it is: %s", error)

    def _shrink(self, error: Exception) -> bool:
        """Returns whether there is a smaller window. There is none if the error has another cause."""
        if self._conversation is None:
            return False
        try:
            self._arguments = self._conversation.smaller(self._call, error)
        except Exception as failed:
            if failed is not error:
                _log.warning("no smaller request is sent: %s", failed)
            return False
        return True

    async def _away(self, work: Callable[..., T], *args: Any) -> T:
        return await away(self._keeper.is_stored, work, *args)


class _Manager:
    """A context manager of a client, which sends its request when it is entered."""

    def __init__(self, exchange: _Exchange, target: Callable[..., Any], *, is_raw: bool) -> None:
        self._exchange, self._target, self._is_raw = exchange, target, is_raw
        self._entered: Any = None

    def __enter__(self) -> Any:
        def enter(arguments: dict[str, Any]) -> Any:
            self._entered = self._made(arguments, self._exchange.record)
            return self._entered.__enter__()

        return self._exchange.send(enter)

    def __exit__(self, *error: Any) -> Any:
        return self._entered.__exit__(*error)

    async def __aenter__(self) -> Any:
        async def enter(arguments: dict[str, Any]) -> Any:
            self._entered = self._made(arguments, self._exchange.arecord)
            return await self._entered.__aenter__()

        return await self._exchange.asend(enter)

    async def __aexit__(self, *error: Any) -> Any:
        return await self._entered.__aexit__(*error)

    def _made(self, arguments: dict[str, Any], record: Record) -> Any:
        made = self._target(**arguments)
        return made if self._is_raw else streamed(made, record)


class _Wrapped:
    """A wrapped client, or a part of one."""

    _target: Any
    _path: tuple[str, ...]
    _keeper: _Keeper
    _is_async: bool

    def __init__(self, target: Any, path: tuple[str, ...], keeper: _Keeper, is_async: bool) -> None:
        # All other attributes belong to the client.
        vars(self).update(_target=target, _path=path, _keeper=keeper, _is_async=is_async)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The client's class, for ``isinstance``."""
        return self._target.__class__

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        path = (*self._path, name)
        known = tuple(step for step in path if step not in (_RAW, _STREAMING))
        if seam := _SEAMS.get(known):
            is_manager = name == "stream" or _STREAMING in path
            return self._calling(seam, value, is_manager=is_manager, is_raw=_RAW in path or _STREAMING in path)
        if any(call[: len(known)] == known for call in _SEAMS):
            return _Wrapped(value, path, self._keeper, self._is_async)
        if known in (("with_options",), ("copy",)):
            return self._again(value)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._target, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._target, name)

    def __dir__(self) -> list[str]:
        return dir(self._target)

    def __enter__(self) -> Any:
        self._target.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._target.__exit__(*error)

    async def __aenter__(self) -> Any:
        await self._target.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._target.__aexit__(*error)

    def __repr__(self) -> str:
        return f"lookback.wrap({self._target!r})"

    def _again(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a method that wraps the clients that the client's method returns."""

        @wraps(make)
        def made(*args: Any, **options: Any) -> Any:
            return _Wrapped(make(*args, **options), (), self._keeper, self._is_async)

        return made

    def _calling(
        self, seam: _Seam, target: Callable[..., Any], *, is_manager: bool, is_raw: bool
    ) -> Callable[..., Any]:
        """Returns a method of the client that sends windows."""

        @wraps(target)
        def managed(*args: Any, **arguments: Any) -> Any:
            call = _Call(seam, arguments)
            if args or not call.history:
                return target(*args, **call.arguments)
            return _Manager(_Exchange(self._keeper, call), target, is_raw=is_raw)

        @wraps(target)
        def called(*args: Any, **arguments: Any) -> Any:
            call = _Call(seam, arguments)
            if args or not call.history:
                return target(*args, **call.arguments)
            exchange = _Exchange(self._keeper, call)
            answer = exchange.send(lambda arguments: target(**arguments))
            if arguments.get("stream") is True:
                return answer if is_raw else streamed(answer, exchange.record)
            if reported := reported_by(answer):
                exchange.record(*reported)
            return answer

        @wraps(target)
        async def awaited(*args: Any, **arguments: Any) -> Any:
            call = _Call(seam, arguments)
            if args or not call.history:
                return await target(*args, **call.arguments)
            exchange = _Exchange(self._keeper, call)
            answer = await exchange.asend(lambda arguments: target(**arguments))
            if arguments.get("stream") is True:
                return answer if is_raw else streamed(answer, exchange.arecord)
            if reported := reported_by(answer):
                await exchange.arecord(*reported)
            return answer

        return managed if is_manager else awaited if self._is_async else called


def _digest(history: Sequence[Any]) -> str:
    """Returns a hash of a conversation's first message. Skips the system prompt, which may differ between calls."""
    begins = next((message for message in history if _role(message) not in ("system", "developer")), history[0])
    plain = json.loads(json.dumps(begins, default=_plain))
    return digest(json.dumps(_same(plain), sort_keys=True))


def _same(message: Any) -> Any:
    """Returns a message without parts that may differ when it is resent: cache markers, and the form of its text."""
    if not isinstance(message, dict):
        return message
    said = cast("dict[str, Any]", _unmarked(message))
    if said.get("type") == "message":
        del said["type"]
    match said.get("content"):
        case [{"type": "text" | "input_text", "text": str(text), **rest}] if not rest:
            said["content"] = text
        case _:
            pass
    return said


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: _unmarked(member) for name, member in members if name != "cache_control"}
    if isinstance(value, list):
        return [_unmarked(item) for item in value]  # pyright: ignore
    return value


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, Mapping) else getattr(message, "role", None)  # pyright: ignore


def _plain(value: Any) -> Any:
    """Returns the typed object of an SDK in the form that the SDK sends."""
    if isinstance(value, Mapping):
        return dict(value)  # pyright: ignore
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
