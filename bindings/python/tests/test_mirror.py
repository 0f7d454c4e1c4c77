"""The shared part of the adapters: the mirror of a framework's list, and the open conversations."""

import asyncio
import threading
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lookback
from lookback._mirror import Mirror, Mirrors

Message = dict[str, Any]


class Plain(Mirror[Message]):
    """A mirror whose items have the session's own form."""

    def key(self, item: Message) -> Hashable:
        return repr(item)

    def encode(self, item: Message) -> list[Message]:
        return [item]

    def revive(self, item: Message, shown: list[tuple[int, Message]]) -> Message:
        return shown[0][1]

    def make(self, shown: Message, name: str) -> Message:
        return shown | {"name": name}


def said(*texts: Any) -> list[Message]:
    return [{"role": "assistant" if number % 2 else "user", "content": text} for number, text in enumerate(texts)]


def threads_of_sessions(monkeypatch: pytest.MonkeyPatch, module: str = "lookback._mirror") -> set[threading.Thread]:
    """Returns a set that collects the threads that open and use a module's sessions from now on."""
    threads = set[threading.Thread]()

    class Watched:
        def __init__(self, *args: Any, **options: Any) -> None:
            threads.add(threading.current_thread())
            self._session = lookback.Session(*args, **options)

        def __getattr__(self, name: str) -> Any:
            threads.add(threading.current_thread())
            return getattr(self._session, name)

    monkeypatch.setattr(f"{module}.Session", Watched)
    return threads


@pytest.mark.parametrize("known", [["Hi", "Ho"], ["Hi", "Ho", "And?"]])
def test_a_list_that_is_refused_leaves_the_mirror_whole(known: list[str]) -> None:
    mirror = Plain("s")
    before = said(*known)
    assert mirror.window(before) == before
    for refused in (said("Hi", "Changed", float("nan")), [*before, *said(float("nan"))]):
        with pytest.raises(lookback.DecodeError):
            mirror.window(refused)
        assert mirror.window(before) == before
    longer = [*before, *said("More")]
    window = mirror.window(longer)
    assert window == longer and all(shown is item for shown, item in zip(window, longer))


def test_an_opening_store_holds_no_other_conversation_up() -> None:
    mirrors = Mirrors[str]("store")
    opening, opened = threading.Event(), threading.Event()

    def slow() -> str:
        opening.set()
        assert opened.wait(120)
        return "slow"

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(mirrors.of, "slow", slow)
        assert opening.wait(120)
        assert pool.submit(mirrors.of, "other", lambda: "other").result(120) == "other"
        # Of two callers that open the same name at the same time, both get the one that was ready first.
        assert mirrors.of("slow", lambda: "quick") == "quick"
        opened.set()
        assert first.result(120) == "quick"


@pytest.mark.parametrize("stored", [False, True])
def test_a_store_is_opened_beside_the_loop(stored: bool, tmp_path: Path) -> None:
    mirrors = Mirrors[threading.Thread](tmp_path if stored else None)

    async def opener() -> threading.Thread:
        first = await mirrors.aof("s", threading.current_thread)
        assert await mirrors.aof("s", threading.current_thread) is first
        return first

    assert (asyncio.run(opener()) is not threading.current_thread()) == stored
