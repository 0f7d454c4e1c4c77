"""Clients of providers whose model calls keep a window."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from threading import Lock
from typing import Any, TypeVar, cast

from lookback._async import AsyncSession
from lookback._errors import LookbackError
from lookback._native import Session, Window
from lookback._streams import Record, reported_by, streamed

T = TypeVar("T")

_log = logging.getLogger("lookback")

_TRIES = 3
"""How often a window is made smaller because the provider refuses it as too long."""


@dataclass(frozen=True)
class _Seam:
    """A call of a client that sends a history."""

    dialect: str
    history: str
    """The argument with the messages."""
    system: str | None
    """The argument with the system prompt, if it is not one of the messages."""


_CHAT = _Seam("openai-chat", "messages", None)
_RESPONSES = _Seam("openai-responses", "input", "instructions")
_MESSAGES = _Seam("anthropic", "messages", "system")

_SEAMS = {
    "chat.completions.create": _CHAT,
    "chat.completions.parse": _CHAT,
    "chat.completions.stream": _CHAT,
    "responses.create": _RESPONSES,
    "responses.parse": _RESPONSES,
    "responses.stream": _RESPONSES,
    "messages.create": _MESSAGES,
    "messages.stream": _MESSAGES,
    "beta.messages.create": _MESSAGES,
    "beta.messages.stream": _MESSAGES,
}

_STORED = ("previous_response_id", "conversation")
"""Arguments that name a history which the provider has. What is sent with them is not all of it."""


def wrap(
    client: T,
    session: str,
    *,
    store: str | PathLike[str] | None = None,
    policy: str | dict[str, Any] | None = None,
) -> T:
    """Returns a client of ``openai`` or ``anthropic`` whose model calls keep a window of one conversation.

    The program goes on sending its whole history with each call, and nothing else changes: without ``wrap`` it works as
    before. ``session`` is the name of the conversation, and ``store`` where it is kept; without one, it is kept in
    memory. If the provider refuses a request as too long, a smaller one is sent, at most three times, but not for the
    context managers of ``stream``. If Lookback fails, the request is sent as it is, and ``logging`` tells why.
    """
    keeper = _Keeper(session, store, policy)
    is_async = hasattr(type(client), "__aenter__")
    return cast(T, _Wrapped(client, "", keeper, is_async))


class _Keeper:
    """The sessions of a client: one for each format and model that it asks."""

    def __init__(self, name: str, store: str | PathLike[str] | None, policy: str | dict[str, Any] | None) -> None:
        self._options: dict[str, Any] = {"store": store, "policy": policy}
        self._name = name
        self._sessions: dict[Any, Any] = {}
        self._lock = Lock()

    def open(self, kind: Callable[..., T], seam: _Seam, model: Any) -> T:
        model = model if isinstance(model, str) else None
        with self._lock:
            key = (kind, seam.dialect, model)
            if key not in self._sessions:
                self._sessions[key] = kind(self._name, model=model, dialect=seam.dialect, **self._options)
            return cast(T, self._sessions[key])


class _Call:
    """One call, and the window that it sends."""

    def __init__(self, seam: _Seam, arguments: dict[str, Any]) -> None:
        self.seam, self.arguments = seam, arguments
        self.history = arguments.get(seam.history)

    def has_window(self) -> bool:
        return isinstance(self.history, (list, tuple)) and not any(self.arguments.get(name) for name in _STORED)

    def preamble(self) -> dict[str, Any]:
        # The SDKs have values of their own for what is not given.
        system = self.arguments.get(self.seam.system) if self.seam.system else None
        tools = self.arguments.get("tools")
        return {
            "system": system if isinstance(system, (str, list)) else None,
            "tools": cast(Any, tools) if isinstance(tools, list) else None,
        }

    def with_window(self, window: Window) -> dict[str, Any]:
        """The arguments, with the window in place of the history, unless that is all of it."""
        unchanged = all(source.kind == "unchanged" for source in window.sources)
        if unchanged and len(window.sources) == len(cast("list[Any]", self.history)):
            return self.arguments
        return self.arguments | {self.seam.history: window.messages}


def _failed(error: LookbackError) -> None:
    _log.warning("the request is sent as it is: %s", error)


def _unrecorded(error: LookbackError) -> None:
    _log.warning("the usage is not recorded: %s", error)


def _recorder(session: Session) -> Record:
    def record(model: str, tokens: int) -> None:
        try:
            session.usage(model, tokens)
        except LookbackError as error:
            _unrecorded(error)

    return record


def _async_recorder(session: AsyncSession) -> Record:
    async def record(model: str, tokens: int) -> None:
        try:
            await session.usage(model, tokens)
        except LookbackError as error:
            _unrecorded(error)

    return record


class _Wrapped:
    """A client, or a part of one."""

    def __init__(self, target: Any, path: str, keeper: _Keeper, is_async: bool) -> None:
        self._target, self._path, self._keeper, self._is_async = target, path, keeper, is_async

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        path = f"{self._path}.{name}".lstrip(".")
        if seam := _SEAMS.get(path):
            if self._is_async and name != "stream":
                return self._awaiting(seam, value)
            return self._calling(seam, value, recovers=name != "stream")
        if any(known.startswith(f"{path}.") for known in _SEAMS):
            return _Wrapped(value, path, self._keeper, self._is_async)
        if path in ("with_options", "copy"):
            return self._again(value)
        return value

    def _again(self, make: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps the clients that a method of the client makes."""

        def made(*args: Any, **options: Any) -> Any:
            return _Wrapped(make(*args, **options), "", self._keeper, self._is_async)

        return made

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

    def _calling(self, seam: _Seam, target: Callable[..., Any], *, recovers: bool) -> Callable[..., Any]:
        def call(*args: Any, **arguments: Any) -> Any:
            call = _Call(seam, arguments)
            if args or not call.has_window():
                return target(*args, **arguments)
            try:
                session = self._keeper.open(Session, seam, arguments.get("model"))
                session.preamble(**call.preamble())
                session.sync(cast(Any, call.history))
                sent = call.with_window(session.window())
            except LookbackError as error:
                _failed(error)
                return target(**arguments)
            tries = _TRIES if recovers else 0
            while True:
                try:
                    answer = target(**sent)
                    break
                except Exception as error:
                    if not tries:
                        raise
                    tries -= 1
                    try:
                        sent = call.with_window(session.overflow(error))
                    except LookbackError:
                        raise error from None
            record = _recorder(session)
            if not recovers or arguments.get("stream") is True:
                return streamed(answer, record)
            if reported := reported_by(answer):
                record(*reported)
            return answer

        return call

    def _awaiting(self, seam: _Seam, target: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **arguments: Any) -> Any:
            call = _Call(seam, arguments)
            if args or not call.has_window():
                return await target(*args, **arguments)
            try:
                session = self._keeper.open(AsyncSession, seam, arguments.get("model"))
                await session.preamble(**call.preamble())
                await session.sync(cast(Any, call.history))
                sent = call.with_window(await session.window())
            except LookbackError as error:
                _failed(error)
                return await target(**arguments)
            tries = _TRIES
            while True:
                try:
                    answer = await target(**sent)
                    break
                except Exception as error:
                    if not tries:
                        raise
                    tries -= 1
                    try:
                        sent = call.with_window(await session.overflow(error))
                    except LookbackError:
                        raise error from None
            record = _async_recorder(session)
            if arguments.get("stream") is True:
                return streamed(answer, record)
            if reported := reported_by(answer):
                await record(*reported)
            return answer

        return call
