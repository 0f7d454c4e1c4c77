"""What all adapters for frameworks share: a framework's list of messages, and the session that keeps them."""

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
"""How often a window is made smaller because the provider refuses it as too long."""

_MOST_OPEN = 256
"""The most conversations of an adapter that are kept open."""


async def away(is_stored: bool, work: Callable[..., M], *args: Any) -> M:
    """Does something with a store on a thread. What is only in memory takes less time than that."""
    return await asyncio.to_thread(work, *args) if is_stored else work(*args)


def digest(beginning: str) -> str:
    """What a conversation that begins so is named by, if nothing else names it."""
    return sha256(beginning.encode()).hexdigest()[:16]


class _Place(NamedTuple):
    """Where an element of the session comes from."""

    item: int
    """The place of the framework's message in its list."""
    element: int
    """The place of the element in what the message was encoded as."""


class Mirror(ABC, Generic[T]):
    """A framework's list of messages, and the session that keeps them.

    What is new in the list is pushed. What a window has unchanged comes back as the framework's own objects, so nothing
    is lost that only the framework knows.
    """

    dialect: ClassVar[str] = "openai-chat"
    """The format of the session's messages."""

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
        """What is held while the list is taken over, because two runs may have the same conversation."""
        self._is_stored = store is not None
        self._keys: list[Hashable] | None = None
        self._encoded: list[list[dict[str, Any]]] = []
        self._places: defaultdict[int, list[_Place]] = defaultdict(list)

    @abstractmethod
    def key(self, item: T) -> Hashable:
        """What a message is recognized by when the framework has it again."""

    @abstractmethod
    def encode(self, item: T) -> list[dict[str, Any]]:
        """A message in the format of the session: several elements if the framework has in one what the format has not."""

    @abstractmethod
    def revive(self, item: T, shown: list[tuple[int, dict[str, Any]]]) -> T:
        """A copy of a message that shows these elements of it instead of all: each with its place in ``encode``."""

    @abstractmethod
    def make(self, shown: dict[str, Any], name: str) -> T:
        """A message of Lookback's own, with a name that it always has."""

    def window(self, items: Sequence[T], preamble: dict[str, Any] | None = None) -> list[T]:
        """Takes over the framework's list, and returns what the model is to see of it.

        ``preamble`` is what the request has beside the messages: its ``system`` prompt and its ``tools``.
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
            # If this fails, the next list is compared with all that the session has.
            known, self._keys = self._keys, None
            if known is not None and keys[: len(known)] == known:
                if new := items[len(known) :]:
                    self._place(new, self.session.push)
            else:
                # The list was rewritten, or the store may have the session already.
                self._encoded.clear()
                self._places.clear()
                self._place(items, lambda elements: self.session.sync(elements)["positions"])
            self._keys = keys

    def smaller(self, error: Exception, items: Sequence[T]) -> list[T]:
        """Returns a smaller window of the same list, because the provider refused the last one as too long.

        An error that says something else is raised again, and so is one after which nothing is left that may go.
        """
        with self.lock:
            # Another run may have taken over another list meanwhile.
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
        """Does something with the session on a thread, unless it is in memory."""
        return await away(self._is_stored, work, *args)

    def _place(self, items: Sequence[T], give: Callable[[list[dict[str, Any]]], list[int]]) -> None:
        """Gives messages to the session, and notes where it has put them."""
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
        # The message whose elements are being collected, and those that the window shows of it.
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
        """Returns where a message of a window comes from: nowhere if it is Lookback's own."""
        places = next((self._places[position] for position in source.positions if position in self._places), None)
        if places is None:
            return None
        free = [place for place in places if place not in taken] or places
        found = free[0]
        if source.kind == "changed" and len(places) > 1:
            # Of several elements that are one message, some are left out, and the others are as they were.
            shown = window.messages[index]
            found = next((place for place in free if self._encoded[place.item][place.element] == shown), found)
        taken.add(found)
        return found


class Mirrors(Generic[M]):
    """The open mirrors of an adapter: those of the conversations that were used last."""

    def __init__(self, store: object) -> None:
        self._is_stored = store is not None
        self._mirrors: OrderedDict[Hashable, M] = OrderedDict()
        self._lock = Lock()

    def of(self, conversation: Hashable, make: Callable[[], M]) -> M:
        """Returns the mirror of a conversation, and makes it if there is none."""
        mirror = self._used(conversation)
        if mirror is None:
            # Others do not wait while it is opened. If two open the same one, the first stays.
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
    """The value as something that can be compared at once, for ``key``."""
    if isinstance(value, dict):
        return tuple((key, frozen(member)) for key, member in value.items())  # pyright: ignore
    if isinstance(value, (list, tuple)):
        return tuple(frozen(item) for item in value)  # pyright: ignore
    return value
