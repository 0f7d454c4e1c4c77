"""Functions of a program that make summaries: they run on threads of Python's own, in the context of the call."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import TimeoutError
from contextvars import Context
from threading import Thread
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from lookback._native import Answer, Ask

_log = logging.getLogger("lookback")

Summarizer: TypeAlias = "Callable[[Ask], str | Awaitable[str]]"
"""A function that makes a summary: it is asked with a system prompt, a prompt, and a budget of tokens."""


_LOOK_AGAIN = 1
"""After how many seconds a summary that is awaited looks whether its loop is there."""


def begin(summarizer: Summarizer, ask: Ask, answer: Answer, context: Context | None) -> None:
    """Makes a summary on a thread, which no session and no exit of the program waits for."""
    context = context or Context()
    Thread(target=context.run, args=(_make, summarizer, ask, answer), name="lookback-summary", daemon=True).start()


def on_loop(summarizer: Summarizer, loop: Callable[[], asyncio.AbstractEventLoop | None]) -> Summarizer:
    """Has what a function returns be awaited on a loop that runs, because its client may belong to that loop."""

    def asked(ask: Ask) -> str | Awaitable[str]:
        made = summarizer(ask)
        running = loop()
        if isinstance(made, str) or running is None or running.is_closed():
            return made
        summary = asyncio.run_coroutine_threadsafe(_awaited(made), running)
        while True:
            try:
                return summary.result(timeout=_LOOK_AGAIN)
            except TimeoutError:
                if summary.done():
                    return summary.result()
                is_left = running.is_closed() or loop() is not running
                if is_left and not running.is_running():
                    if not running.is_closed():
                        summary.cancel()
                    raise RuntimeError("the event loop of the summarizer has ended") from None

    return asked


def _make(summarizer: Summarizer, ask: Ask, answer: Answer) -> None:
    try:
        made = summarizer(ask)
        if inspect.isawaitable(made):
            made = asyncio.run(_awaited(made))
        answer.give(made)
    except BaseException as error:
        # The session is told the kind of error only: its message may have contents.
        _log.warning("a summarizer failed", exc_info=True)
        answer.fail(f"the summarizer raised {type(error).__name__}")


async def _awaited(made: Awaitable[str]) -> str:
    return await made
