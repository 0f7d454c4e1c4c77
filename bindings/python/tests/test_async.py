"""Sessions in an event loop."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import lookback


@pytest.mark.parametrize("stored", [False, True])
def test_the_calls_are_awaited(tmp_path: Path, stored: bool) -> None:
    async def run() -> None:
        session = lookback.AsyncSession("s", store=tmp_path / "memory.db" if stored else None, model="gpt-4o")
        assert await session.push({"role": "user", "content": "Where is the key?"}) == [0]
        history = [{"role": "user", "content": "Where is the key?"}, {"role": "assistant", "content": "Here."}]
        assert await session.sync(history) == {"known": 1, "new": 1, "left": 0, "positions": [0, 1]}
        await session.preamble(system="Be brief.")
        await session.usage("gpt-4o", 12)
        assert (await session.window()).messages == history
        assert (await session.search("key"))[0]["entry"] == 0
        assert len(await session.why()) > 0

    asyncio.run(run())


def test_calls_at_once_keep_their_order(tmp_path: Path) -> None:
    async def run() -> None:
        session = lookback.AsyncSession("s", store=tmp_path / "memory.db")
        pushed = [session.push({"role": "user", "content": str(number)}) for number in range(30)]
        assert await asyncio.gather(*pushed) == [[number] for number in range(30)]

    asyncio.run(run())


def test_a_cancelled_call_loses_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        session = lookback.AsyncSession("s", store=tmp_path / "memory.db")
        task = asyncio.create_task(session.push({"role": "user", "content": "Hi"}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await session.push({"role": "user", "content": "Ho"})
        assert [message["content"] for message in (await session.window()).messages][-1] == "Ho"

    asyncio.run(run())


def test_another_loop_may_use_it(tmp_path: Path) -> None:
    session = lookback.AsyncSession("s", store=tmp_path / "memory.db")
    for number in range(3):
        assert asyncio.run(session.push({"role": "user", "content": "Hi"})) == [number]


def test_a_call_that_is_cancelled_in_the_queue_is_done(tmp_path: Path) -> None:
    held = threading.Event()

    class Slow:
        """A message that blocks the session's thread."""

        def model_dump(self, **options: Any) -> Any:
            assert held.wait(120)
            return {"role": "user", "content": "Slow"}

    async def run() -> None:
        session = lookback.AsyncSession("s", store=tmp_path / "memory.db")
        slow: Any = Slow()
        first = asyncio.create_task(session.push(slow))
        queued = asyncio.create_task(session.push({"role": "user", "content": "Queued"}))
        await asyncio.sleep(0.05)
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await queued
        held.set()
        await first
        assert [message["content"] for message in await session.messages()] == ["Slow", "Queued"]

    asyncio.run(run())


FORK = """
import asyncio, os, sys, lookback
session = lookback.AsyncSession("s", store=sys.argv[1])
memory = lookback.AsyncMemory("s", store=sys.argv[1])
asyncio.run(session.push({"role": "user", "content": "Hi"}))
asyncio.run(memory.facts())
child = os.fork()
if child == 0:
    for call in (session.messages, memory.facts):
        try:
            asyncio.run(asyncio.wait_for(call(), 60))
        except lookback.LookbackError as error:
            print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_after_a_fork_a_session_says_so(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FORK, tmp_path / "m.db"], capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines() == [
        f"this {what} was opened before the process was forked; open it here again" for what in ("session", "memory")
    ], done.stderr
