"""Runs summarizers of the program on Python threads, in the context of the call."""

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
"""A function that makes a summary from a system prompt, a prompt and a token budget, as text or as an awaitable."""


_LOOK_AGAIN = 1
"""How often, in seconds, a waiting summary checks whether its event loop still runs."""


def begin(summarizer: Summarizer, ask: Ask, answer: Answer, context: Context | None) -> None:
    """Makes a summary on a daemon thread. No session and no exit of the program waits for it."""
    context = context or Context()
    Thread(target=context.run, args=(_make, summarizer, ask, answer), name="lookback-summary", daemon=True).start()


def on_loop(summarizer: Summarizer, loop: Callable[[], asyncio.AbstractEventLoop | None]) -> Summarizer:
    """Returns a summarizer that awaits coroutines on a running loop, because its client may belong to that loop."""

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
        # The session gets only the kind of error, because the message may have contents.
        _log.warning("a summarizer failed", exc_info=True)
        answer.fail(f"the summarizer raised {type(error).__name__}")


async def _awaited(made: Awaitable[str]) -> str:
    return await made
