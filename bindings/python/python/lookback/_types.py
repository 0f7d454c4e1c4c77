"""What Lookback takes, and the values that it returns as dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict


class Model(Protocol):
    """A typed object of a provider's SDK."""

    def model_dump(self, *, mode: Any = ..., by_alias: Any = ..., exclude_unset: Any = ...) -> dict[str, Any]:
        """Returns its members."""
        ...


Json: TypeAlias = "Mapping[str, Any] | Sequence[Any] | Model | str | bytes | bytearray | None"
"""A value, or JSON text."""

Messages: TypeAlias = (
    "Mapping[str, Any] | Sequence[Mapping[str, Any] | Model | str | bytes] | Model | str | bytes | bytearray"
)
"""A message, a list of them, or JSON text of either."""


class Excess(TypedDict):
    """A limit that a window exceeds."""

    measure: str
    actual: int
    limit: int


class Pinned(TypedDict):
    """Messages that may not be dropped."""

    pin: Any
    size: dict[str, int]


class Synced(TypedDict):
    """What became of a history that was given as a whole, in messages."""

    known: int
    new: int
    left: int
    positions: list[int]
    """The position of each message of the history in the log."""


class Found(TypedDict):
    """A message that was found by words."""

    session: str
    entry: int
    excerpt: str


class Said(TypedDict):
    """A message of a conversation."""

    position: int
    role: Literal["system", "user", "assistant", "tool"]
    text: str
    in_window: bool


class Finding(TypedDict):
    """A rule that a request breaks."""

    rule: str
    severity: Literal["refused", "degraded"]
    message: int
    path: str
    problem: dict[str, Any]
    words: str
    """What is wrong, and what to do about it."""


class Outcome(TypedDict):
    """What became of neighboring messages of a history."""

    span: list[int]
    """The first of them, and the one after the last."""
    action: Literal["keep", "truncate", "clear", "summarize", "drop"]
    reason: dict[str, Any]
    mends: list[Any]
    tokens: int
    """Their tokens when they came."""
    sent: int
    """Their tokens in the window."""
    words: str
    """Why, for people."""
