"""Streams of the providers' SDKs, passed through unchanged. At their end, the reported tokens are recorded."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

Record = Callable[[str, int], Any]
"""Records the model and the input tokens that the provider reports."""

_COUNTS = ("prompt_tokens", "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_SNAPSHOTS = ("current_message_snapshot", "current_completion_snapshot")


def reported_by(answer: Any) -> tuple[str, int] | None:
    """Returns the model and the input tokens that a whole answer reports, including cached ones."""
    if not hasattr(answer, "usage") and hasattr(answer, "parse"):
        # A raw response parses its body only once. If that fails, the caller gets the same error.
        try:
            answer = answer.parse()
        except Exception:
            return None
    model, tokens = getattr(answer, "model", None), _tokens(answer)
    return (model, tokens) if isinstance(model, str) and tokens else None


def _tokens(told: Any) -> int:
    usage = getattr(told, "usage", None)
    counts = [getattr(usage, name, None) for name in _COUNTS]
    return sum(count for count in counts if isinstance(count, int))


def streamed(answer: Any, record: Record) -> Any:
    """Returns a stream that records its tokens when it ends."""
    is_async = hasattr(answer, "__anext__") or hasattr(answer, "__aenter__")
    return _AsyncStream(answer, _Told(record)) if is_async else _Stream(answer, _Told(record))


class _Told:
    """The model and the tokens that a stream has reported so far."""

    def __init__(self, record: Record) -> None:
        self._record: Record | None = record
        self._model: str | None = None
        self._tokens = 0

    def look(self, told: Any) -> None:
        model = getattr(told, "model", None)
        self._model = model if isinstance(model, str) else self._model
        # Later events repeat or raise the counts of earlier ones.
        self._tokens = max(self._tokens, _tokens(told))

    def event(self, event: Any) -> None:
        for told in (event, *(getattr(event, name, None) for name in ("chunk", "message", "response"))):
            self.look(told)

    def end(self, stream: Any) -> Any:
        """Records the tokens, once. The result may have to be awaited."""
        for name in _SNAPSHOTS:
            try:
                self.look(getattr(stream, name, None))
            except AssertionError:
                pass  # The SDK has no snapshot before the first event.
        record, self._record = self._record, None
        return record(self._model, self._tokens) if record and self._model and self._tokens else None


class _Stream:
    """A stream, or a context manager of one."""

    def __init__(self, stream: Any, told: _Told) -> None:
        self._stream, self._told = stream, told
        self._entered = stream

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._stream, name)
        if name.startswith("get_final_"):
            return self._final(value)
        return value

    def _final(self, get: Callable[[], Any]) -> Callable[[], Any]:
        def final() -> Any:
            answer = get()
            self._told.look(answer)
            return answer

        return final

    def __iter__(self) -> Iterator[Any]:
        # The SDK closes the response if its own iterator is not exhausted.
        for event in self._stream:
            self._told.event(event)
            yield event
        self._told.end(self._stream)

    def __next__(self) -> Any:
        try:
            event = next(self._stream)
        except StopIteration:
            self._told.end(self._stream)
            raise
        self._told.event(event)
        return event

    def __enter__(self) -> Any:
        self._entered = self._stream.__enter__()
        return self if self._entered is self._stream else _Stream(self._entered, self._told)

    def __exit__(self, *error: Any) -> Any:
        try:
            return self._stream.__exit__(*error)
        finally:
            self._told.end(self._entered)

    def close(self) -> None:
        self._stream.close()
        self._told.end(self._stream)


class _AsyncStream:
    """The same for ``asyncio``."""

    def __init__(self, stream: Any, told: _Told) -> None:
        self._stream, self._told = stream, told
        self._entered = stream

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._stream, name)
        if name.startswith("get_final_"):
            return self._final(value)
        return value

    def _final(self, get: Callable[[], Any]) -> Callable[[], Any]:
        async def final() -> Any:
            answer = await get()
            self._told.look(answer)
            return answer

        return final

    async def _end(self, stream: Any) -> None:
        recorded = self._told.end(stream)
        if inspect.isawaitable(recorded):
            await recorded

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for event in self._stream:
            self._told.event(event)
            yield event
        await self._end(self._stream)

    async def __anext__(self) -> Any:
        try:
            event = await self._stream.__anext__()
        except StopAsyncIteration:
            await self._end(self._stream)
            raise
        self._told.event(event)
        return event

    async def __aenter__(self) -> Any:
        self._entered = await self._stream.__aenter__()
        return self if self._entered is self._stream else _AsyncStream(self._entered, self._told)

    async def __aexit__(self, *error: Any) -> Any:
        try:
            return await self._stream.__aexit__(*error)
        finally:
            await self._end(self._entered)

    async def close(self) -> None:
        await self._stream.close()
        await self._end(self._stream)
