"""Sessions for ``asyncio``: the same calls, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lookback._native import Session, Window

if TYPE_CHECKING:
    from lookback._types import Found, Json, Messages, Outcome, Said, Synced

P = ParamSpec("P")
T = TypeVar("T")


class AsyncSession:
    """A :class:`Session` whose calls are awaited.

    In memory they are done at once, because that is quicker than to wait for them. With a store, they are done one after
    another on a thread of the session. A call whose task is cancelled is finished all the same.
    """

    def __init__(
        self,
        name: str,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        dialect: str | None = None,
        policy: str | dict[str, Any] | None = None,
    ) -> None:
        self.name = name
        self._options: dict[str, Any] = {"store": store, "model": model, "dialect": dialect, "policy": policy}
        self._worker = None if store is None else ThreadPoolExecutor(1, thread_name_prefix="lookback")
        self._session: Session | None = None

    async def _do(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._worker is None:
            return call(*args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._worker, lambda: call(*args, **kwargs))

    def _opened(self) -> Session:
        # Only the worker comes here, or the loop if there is none.
        if self._session is None:
            self._session = Session(self.name, **self._options)
        return self._session

    async def push(self, messages: Messages) -> list[int]:
        """See :meth:`Session.push`."""
        return await self._do(lambda: self._opened().push(messages))

    async def sync(self, history: Messages) -> Synced:
        """See :meth:`Session.sync`."""
        return await self._do(lambda: self._opened().sync(history))

    async def preamble(self, *, system: Json = None, tools: Json = None) -> None:
        """See :meth:`Session.preamble`."""
        await self._do(lambda: self._opened().preamble(system=system, tools=tools))

    async def window(self) -> Window:
        """See :meth:`Session.window`."""
        return await self._do(lambda: self._opened().window())

    async def answered(self, response: Json) -> None:
        """See :meth:`Session.answered`."""
        await self._do(lambda: self._opened().answered(response))

    async def usage(self, model: str, input_tokens: int) -> None:
        """See :meth:`Session.usage`."""
        await self._do(lambda: self._opened().usage(model, input_tokens))

    async def overflow(self, error: BaseException | str | None) -> Window:
        """See :meth:`Session.overflow`."""
        return await self._do(lambda: self._opened().overflow(error))

    async def search(self, query: str, limit: int = 10) -> list[Found]:
        """See :meth:`Session.search`."""
        return await self._do(lambda: self._opened().search(query, limit))

    async def history(self) -> list[Said]:
        """See :meth:`Session.history`."""
        return await self._do(lambda: self._opened().history())

    async def why(self) -> list[Outcome]:
        """See :meth:`Session.why`."""
        return await self._do(lambda: self._opened().why())
