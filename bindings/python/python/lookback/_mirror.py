"""The shared part of all adapters: it mirrors a framework's list of messages in a session."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Hashable, Sequence
from hashlib import sha256
from os import PathLike
from threading import Lock, RLock
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from lookback._errors import LookbackError
from lookback._native import Session, Source, Window

T = TypeVar("T")
M = TypeVar("M")

TRIES = 3
"""How often a window is made smaller if the provider refuses it as too long."""

_MOST_OPEN = 256
"""The most conversations that an adapter keeps open."""


async def away(is_stored: bool, work: Callable[..., M], *args: Any) -> M:
    """Runs work on a thread if it uses a store. Work in memory is faster without one."""
    return await asyncio.to_thread(work, *args) if is_stored else work(*args)


def digest(beginning: str) -> str:
    """Returns the name of a conversation that has no other: a hash of its beginning."""
    return sha256(beginning.encode()).hexdigest()[:16]


class _Place(NamedTuple):
    """The origin of a session's element."""

    item: int
    """The index of the framework's message in its list."""
    element: int
    """The index of the element among those that the message was encoded as."""


class Mirror(ABC, Generic[T]):
    """A framework's list of messages, and the session that keeps them.

    New messages of the list are pushed. Messages that a window leaves unchanged are returned as the framework's own
    objects, so nothing is lost that only the framework knows.
    """

    dialect: ClassVar[str] = "openai-chat"
    """The dialect of the session's messages."""

    def __init__(
        self,
        session: str,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        policy: str | dict[str, Any] | None = None,
    ) -> None:
        self.session = Session(session, store=store, model=model, policy=policy, dialect=self.dialect)
        self.lock = RLock()
        """Held while the list is taken over, because two runs may share a conversation."""
        self._is_stored = store is not None
        self._keys: list[Hashable] | None = None
        self._encoded: list[list[dict[str, Any]]] = []
        self._places: defaultdict[int, list[_Place]] = defaultdict(list)

    @abstractmethod
    def key(self, item: T) -> Hashable:
        """Returns a value that identifies a message when the framework sends it again."""

    @abstractmethod
    def encode(self, item: T) -> list[dict[str, Any]]:
        """Returns a message in the session's dialect, as several elements if one is not enough."""

    @abstractmethod
    def revive(self, item: T, shown: list[tuple[int, dict[str, Any]]]) -> T:
        """Returns a copy of a message with only these elements. Each has its index in the result of ``encode``."""

    @abstractmethod
    def make(self, shown: dict[str, Any], name: str) -> T:
        """Returns a message that Lookback adds, with a stable name."""

    def window(self, items: Sequence[T], preamble: dict[str, Any] | None = None) -> list[T]:
        """Takes over the framework's list, and returns the window that the model should see.

        ``preamble`` is what the request sends outside the messages: its ``system`` prompt and its ``tools``.
        """
        with self.lock:
            if preamble is not None:
                self.session.preamble(**preamble)
            self.take(items)
            return self._revived(self.session.window(), items)

    def take(self, items: Sequence[T]) -> None:
        """Takes over the framework's list."""
        with self.lock:
            keys = [self.key(item) for item in items]
            # If this fails, the next list is compared with the whole session.
            known, self._keys = self._keys, None
            if known is not None and keys[: len(known)] == known:
                if new := items[len(known) :]:
                    self._place(new, self.session.push)
            else:
                # The list was rewritten, or the store may already have the session.
                self._encoded.clear()
                self._places.clear()
                self._place(items, lambda elements: self.session.sync(elements)["positions"])
            self._keys = keys

    def smaller(self, error: Exception, items: Sequence[T]) -> list[T]:
        """Returns a smaller window of the same list, because the provider refused the last one as too long.

        Raises an error with another cause again. Also raises the error again if nothing more can be dropped.
        """
        with self.lock:
            # Another run may have taken over another list since then.
            self.take(items)
            try:
                window = self.session.overflow(error)
            except LookbackError:
                raise error from None
            return self._revived(window, items)

    async def awindow(self, items: Sequence[T], preamble: dict[str, Any] | None = None) -> list[T]:
        """The same as ``window``, awaited."""
        return await self.away(self.window, items, preamble)

    async def asmaller(self, error: Exception, items: Sequence[T]) -> list[T]:
        """The same as ``smaller``, awaited."""
        return await self.away(self.smaller, error, items)

    async def away(self, work: Callable[..., M], *args: Any) -> M:
        """Runs work on the session on a thread, unless the session is in memory."""
        return await away(self._is_stored, work, *args)

    def _place(self, items: Sequence[T], give: Callable[[list[dict[str, Any]]], list[int]]) -> None:
        """Gives messages to the session, and records their positions."""
        encoded = [self.encode(item) for item in items]
        places = [
            _Place(item, element)
            for item, elements in enumerate(encoded, len(self._encoded))
            for element in range(len(elements))
        ]
        positions = give([element for elements in encoded for element in elements])
        for position, place in zip(positions, places, strict=True):
            self._places[position].append(place)
        self._encoded += encoded

    def _revived(self, window: Window, items: Sequence[T]) -> list[T]:
        revived: list[T] = []
        # The message whose elements are being collected, and the elements that the window shows.
        item, shown, is_whole = -1, list[tuple[int, dict[str, Any]]](), True

        def finish() -> None:
            if item >= 0:
                whole = is_whole and len(shown) == len(self._encoded[item])
                revived.append(items[item] if whole else self.revive(items[item], shown))

        taken = set[_Place]()
        for index, source in enumerate(window.sources):
            place = self._found(source, window, index, taken)
            if place is None or place.item != item or place.element <= shown[-1][0]:
                finish()
                item, shown, is_whole = (place.item if place else -1), [], True
            if place is None:
                revived.append(self.make(window.messages[index], "-".join(["lookback", *map(str, source.positions)])))
            elif source.kind == "unchanged":
                shown.append((place.element, self._encoded[item][place.element]))
            else:
                is_whole = False
                shown.append((place.element, window.messages[index]))
        finish()
        return revived

    def _found(self, source: Source, window: Window, index: int, taken: set[_Place]) -> _Place | None:
        """Returns the origin of a window's message. ``None`` if Lookback added it."""
        places = next((self._places[position] for position in source.positions if position in self._places), None)
        if places is None:
            return None
        free = [place for place in places if place not in taken] or places
        found = free[0]
        if source.kind == "changed" and len(places) > 1:
            # Some of the message's elements are left out, and the others are unchanged.
            shown = window.messages[index]
            found = next((place for place in free if self._encoded[place.item][place.element] == shown), found)
        taken.add(found)
        return found


class Mirrors(Generic[M]):
    """The open mirrors of an adapter, for the conversations that were used last."""

    def __init__(self, store: object) -> None:
        self._is_stored = store is not None
        self._mirrors: OrderedDict[Hashable, M] = OrderedDict()
        self._lock = Lock()

    def of(self, conversation: Hashable, make: Callable[[], M]) -> M:
        """Returns the mirror of a conversation, and creates it if necessary."""
        mirror = self._used(conversation)
        if mirror is None:
            # Opens without the lock, so that others need not wait. If two open the same conversation, the first is
            # kept.
            made = make()
            mirror = self._used(conversation, made) or made
        return mirror

    async def aof(self, conversation: Hashable, make: Callable[[], M]) -> M:
        """The same as ``of``, awaited."""
        mirror = self._used(conversation)
        return await away(self._is_stored, self.of, conversation, make) if mirror is None else mirror

    def _used(self, conversation: Hashable, made: M | None = None) -> M | None:
        with self._lock:
            mirror = self._mirrors.pop(conversation, made)
            if mirror is not None:
                self._mirrors[conversation] = mirror
            if len(self._mirrors) > _MOST_OPEN:
                self._mirrors.popitem(last=False)
            return mirror


def frozen(value: Any) -> Any:
    """Returns a value that can be compared and hashed, for ``key``."""
    if isinstance(value, dict):
        return tuple((key, frozen(member)) for key, member in value.items())  # pyright: ignore
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)  # pyright: ignore
    return value
