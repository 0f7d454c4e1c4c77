"""Sessions and memories for ``asyncio``, with the same calls as coroutines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lookback._callbacks import on_loop
from lookback._errors import LookbackError
from lookback._native import Memory, Policy, Session, Window

if TYPE_CHECKING:
    from lookback._callbacks import Summarizer
    from lookback._types import (
        By,
        CompactEnd,
        CompactStart,
        Fact,
        FactEvent,
        FactKind,
        Found,
        Json,
        Messages,
        Outcome,
        Receipt,
        Reply,
        Resumed,
        Said,
        Sheet,
        Stated,
        SummaryRefused,
        Synced,
        Trust,
    )

H = TypeVar("H")
T = TypeVar("T")


class _Awaited(Generic[H]):
    """A session or memory whose calls are awaited.

    In memory, calls run at once on the loop, because that is faster than waiting for a thread. With a store, they run
    one after another on their own thread. A call finishes even if its task is cancelled.
    """

    def __init__(self, what: str, is_stored: bool, make: Callable[[], H]) -> None:
        self._what = what
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="lookback") if is_stored else None
        self._make = make
        self._host: H | None = None
        self._process: int | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    async def do(self, call: Callable[[H], T]) -> T:
        self.loop = asyncio.get_running_loop()
        if self._worker is None:
            return call(self._made())
        # A fork does not copy the thread, so calls would wait forever.
        self._process = self._process or os.getpid()
        if self._process != os.getpid():
            raise LookbackError(f"this {self._what} was opened before the process was forked; open it here again")
        done = self._worker.submit(copy_context().run, lambda: call(self._made()))
        # If the task is cancelled, only the waiting ends.
        return await asyncio.shield(asyncio.wrap_future(done))

    def _made(self) -> H:
        # Only the worker calls this, or the loop if there is none.
        if self._host is None:
            self._host = self._make()
        return self._host


class AsyncSession:
    """A :class:`Session` whose calls are awaited.

    In memory, calls run at once on the loop, because that is faster than waiting for a thread. With a store, they run
    one after another on the session's thread. A call finishes even if its task is cancelled.
    """

    def __init__(
        self,
        name: str,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        dialect: str | None = None,
        policy: str | dict[str, Any] | Policy | None = None,
        summarizer: Summarizer | None = None,
        on_compact_start: Callable[[CompactStart], object] | None = None,
        on_compact_end: Callable[[CompactEnd], object] | None = None,
        on_summary_refused: Callable[[SummaryRefused], object] | None = None,
    ) -> None:
        self.name = name

        def opened() -> Session:
            return Session(
                name,
                store=store,
                model=model,
                dialect=dialect,
                policy=policy,
                summarizer=summarizer and on_loop(summarizer, lambda: self._awaited.loop),
                on_compact_start=on_compact_start,
                on_compact_end=on_compact_end,
                on_summary_refused=on_summary_refused,
            )

        self._awaited = _Awaited("session", store is not None, opened)

    async def push(self, messages: Messages) -> list[int]:
        """See :meth:`Session.push`."""
        return await self._awaited.do(lambda session: session.push(messages))

    async def sync(self, history: Messages) -> Synced:
        """See :meth:`Session.sync`."""
        return await self._awaited.do(lambda session: session.sync(history))

    async def preamble(self, *, system: Json = None, tools: Json = None) -> None:
        """See :meth:`Session.preamble`."""
        await self._awaited.do(lambda session: session.preamble(system=system, tools=tools))

    async def window(self) -> Window:
        """See :meth:`Session.window`."""
        return await self._awaited.do(lambda session: session.window())

    async def answered(self, response: Json) -> None:
        """See :meth:`Session.answered`."""
        await self._awaited.do(lambda session: session.answered(response))

    async def usage(self, model: str, input_tokens: int) -> None:
        """See :meth:`Session.usage`."""
        await self._awaited.do(lambda session: session.usage(model, input_tokens))

    async def overflow(self, error: BaseException | str | None) -> Window:
        """See :meth:`Session.overflow`."""
        return await self._awaited.do(lambda session: session.overflow(error))

    async def search(self, query: str, limit: int = 10) -> list[Found]:
        """See :meth:`Session.search`."""
        return await self._awaited.do(lambda session: session.search(query, limit))

    async def history(self) -> list[Said]:
        """See :meth:`Session.history`."""
        return await self._awaited.do(lambda session: session.history())

    async def messages(self) -> list[Any]:
        """See :meth:`Session.messages`."""
        return await self._awaited.do(lambda session: session.messages())

    async def why(self) -> list[Outcome]:
        """See :meth:`Session.why`."""
        return await self._awaited.do(lambda session: session.why())

    async def receipt(self, price: str = "anthropic-5m") -> Receipt:
        """See :meth:`Session.receipt`."""
        return await self._awaited.do(lambda session: session.receipt(price))

    async def set_policy(self, policy: str | dict[str, Any] | Policy) -> None:
        """See :meth:`Session.set_policy`."""
        await self._awaited.do(lambda session: session.set_policy(policy))

    async def resume(self, task: Messages, turns: int | None = None) -> Resumed:
        """See :meth:`Session.resume`."""
        return await self._awaited.do(lambda session: session.resume(task, turns))

    async def wait_for_summary(self) -> None:
        """See :meth:`Session.wait_for_summary`."""
        session = await self._awaited.do(lambda session: session)
        # On a separate thread, because the summarizer may need the loop.
        await asyncio.to_thread(session.wait_for_summary)

    async def memory(self, workspace: str | None = None) -> AsyncMemory:
        """See :meth:`Session.memory`."""
        memory = await self._awaited.do(lambda session: session.memory(workspace))
        return AsyncMemory._of(memory, self._awaited)  # pyright: ignore[reportPrivateUsage]


class AsyncMemory:
    """A :class:`Memory` whose calls are awaited, like those of an :class:`AsyncSession`."""

    def __init__(
        self, session: str, *, store: str | PathLike[str] | None = None, workspace: str | None = None
    ) -> None:
        self.name = session

        def opened() -> Memory:
            return Memory(session, store=store, workspace=workspace)

        self._awaited = _Awaited("memory", store is not None, opened)

    @classmethod
    def _of(cls, memory: Memory, session: _Awaited[Session]) -> AsyncMemory:
        made = cls(memory.name)
        is_stored = session._worker is not None  # pyright: ignore[reportPrivateUsage]
        made._awaited = _Awaited("memory", is_stored, lambda: memory)
        return made

    async def remember(
        self,
        kind: FactKind,
        text: str,
        *,
        about: str | None = None,
        confidence: float | None = None,
        by: By | None = None,
        trust: Trust | None = None,
        tags: list[str] | None = None,
        supersedes: list[str] | None = None,
        shared: bool | None = None,
    ) -> Stated:
        """See :meth:`Memory.remember`."""
        return await self._awaited.do(
            lambda memory: memory.remember(
                kind,
                text,
                about=about,
                confidence=confidence,
                by=by,
                trust=trust,
                tags=tags,
                supersedes=supersedes,
                shared=shared,
            )
        )

    async def facts(self) -> list[Fact]:
        """See :meth:`Memory.facts`."""
        return await self._awaited.do(lambda memory: memory.facts())

    async def search(self, query: str, limit: int = 10) -> list[Fact]:
        """See :meth:`Memory.search`."""
        return await self._awaited.do(lambda memory: memory.search(query, limit))

    async def resolve(self, id: str, by: str) -> None:
        """See :meth:`Memory.resolve`."""
        await self._awaited.do(lambda memory: memory.resolve(id, by))

    async def forget(self, id: str, why: str | None = None) -> None:
        """See :meth:`Memory.forget`."""
        await self._awaited.do(lambda memory: memory.forget(id, why))

    async def history(self, id: str) -> list[FactEvent]:
        """See :meth:`Memory.history`."""
        return await self._awaited.do(lambda memory: memory.history(id))

    async def sheet(self, *, budget: int | None = None, model: str | None = None) -> Sheet:
        """See :meth:`Memory.sheet`."""
        return await self._awaited.do(lambda memory: memory.sheet(budget=budget, model=model))

    async def tools(self, dialect: str = "openai-chat") -> list[Any]:
        """See :meth:`Memory.tools`."""
        return await self._awaited.do(lambda memory: memory.tools(dialect))

    async def call(self, tool: str, arguments: Json) -> Reply:
        """See :meth:`Memory.call`."""
        return await self._awaited.do(lambda memory: memory.call(tool, arguments))
