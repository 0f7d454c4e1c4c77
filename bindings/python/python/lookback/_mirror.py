"""What all adapters for frameworks share: a framework's list of messages, and the session that keeps them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

from lookback._native import Session, Window

T = TypeVar("T")


class Mirror(ABC, Generic[T]):
    """A framework's list of messages, and the session that keeps them.

    What is new in the list is pushed. What a window has unchanged comes back as the framework's own objects, so nothing
    is lost that only the framework knows.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._keys: list[Hashable] = []
        self._positions: list[int] = []
        self._items: dict[int, T] = {}
        self._is_read = False

    @abstractmethod
    def key(self, item: T) -> Hashable:
        """What a message is recognized by when the framework has it again."""

    @abstractmethod
    def encode(self, item: T) -> dict[str, Any]:
        """A message in the format of the session."""

    @abstractmethod
    def revive(self, item: T, shown: dict[str, Any]) -> T:
        """A copy of a message that shows this instead of all that it has."""

    @abstractmethod
    def make(self, shown: dict[str, Any], name: str) -> T:
        """A message of Lookback's own, with a name that it always has."""

    def window(self, items: Sequence[T]) -> list[T]:
        """Takes over the framework's list, and returns what the model is to see of it."""
        keys = [self.key(item) for item in items]
        known = next((at for at, (one, other) in enumerate(zip(keys, self._keys)) if one != other), None)
        is_continued = self._is_read and known is None and len(keys) >= len(self._keys)
        if not is_continued:
            # The list was rewritten, or the store may have the session already.
            self.session.sync([self.encode(item) for item in items])
            self._positions = [entry["position"] for entry in self.session.history()]
        elif new := items[len(self._keys) :]:
            self._positions += self.session.push([self.encode(item) for item in new])
        self._keys, self._is_read = keys, True
        # The framework may have made its objects anew.
        self._items = dict(zip(self._positions, items, strict=True))
        return self._revived(self.session.window())

    def smaller(self, error: BaseException) -> list[T]:
        """Returns a smaller window, because the provider refused the last one as too long."""
        return self._revived(self.session.overflow(error))

    def _revived(self, window: Window) -> list[T]:
        revived: list[T] = []
        for index, source in enumerate(window.sources):
            item = next((self._items[at] for at in source.positions if at in self._items), None)
            if item is None:
                name = "-".join(["lookback", *map(str, source.positions)])
                revived.append(self.make(window.messages[index], name))
            elif source.kind == "unchanged":
                revived.append(item)
            else:
                revived.append(self.revive(item, window.messages[index]))
        return revived
