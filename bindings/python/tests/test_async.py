"""Sessions in an event loop."""

import asyncio
from pathlib import Path

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
