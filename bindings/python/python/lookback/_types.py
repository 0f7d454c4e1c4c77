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


class Resumed(TypedDict):
    """How a session goes on."""

    turns: int
    """The turns before the task that stay in the window."""
    unfinished: bool
    """Whether the session was left in the middle of this task."""


class CompactStart(TypedDict):
    """A compaction that begins."""

    session: str
    evicted_count: int
    """The messages that leave the window."""
    total_tokens: int
    """The tokens of the window before."""


class CompactEnd(TypedDict):
    """A compaction that has ended."""

    session: str
    outcome: Literal["cut", "summarized", "refused", "failed"]
    reason: str | None
    """Why it failed."""
    tokens_before: int
    tokens_after: int
    summary_tokens: int
    seconds: float


class SummaryRefused(TypedDict):
    """A summary that did not pass its check."""

    session: str
    model: str
    again: bool
    """Whether the summarizer is asked once more."""
    invented: list[str]
    """Names and numbers that are not in what is summarized."""
    missing: list[str]
    """Names that the model used most, and that the summary does not have."""


FactKind: TypeAlias = Literal["correction", "constraint", "blocker", "preference", "decision", "finding"]
"""The kind of a fact."""

By: TypeAlias = "Literal['person', 'model'] | dict[Literal['tool'], str]"
"""Who states a fact: a person, the model, or a tool with its name, as ``{"tool": "read_file"}``."""

Trust: TypeAlias = Literal["low", "medium", "high"]
"""How far a fact can be trusted."""


class Stated(TypedDict):
    """A fact that was written."""

    id: str
    """Its name, such as ``f12``, or ``s3`` if it is shared."""
    judgment: Any
    """Whether it is new, and which facts it replaces or contradicts."""


class Statement(TypedDict, total=False):
    """What somebody said."""

    kind: FactKind
    text: str
    about: str
    confidence: float
    source: dict[str, Any]
    trust: Trust
    time: int
    """In milliseconds since 1970."""
    tags: list[str]
    supersedes: list[str]


class _Fact(TypedDict):
    id: str
    statement: Statement
    confidence: float
    trust: Trust
    confirmations: int


class Fact(_Fact, total=False):
    """A fact that is known now."""

    disputes: str
    said: int


class FactEvent(TypedDict):
    """Something that happened to a fact."""

    scope: Literal["session", "shared"]
    position: int
    entry: dict[str, Any]


class Sheet(TypedDict):
    """The facts as a model reads them."""

    text: str
    tokens: int
    shown: list[str]
    left_out: list[tuple[FactKind, int]]
    """How many facts of which kind are not on it."""


class Reply(TypedDict):
    """The answer to a model's call of a tool."""

    text: str
    error: bool


class Preset(TypedDict):
    """A ready-made policy."""

    name: str
    purpose: str


class Receipt(TypedDict):
    """What each call of a session has sent and cost."""

    calls: list[dict[str, Any]]
    total: dict[str, Any]
    since: int


class Replayed(TypedDict):
    """A recording that was replayed."""

    report: dict[str, Any]
    calls: list[dict[str, Any]]


class Replay(TypedDict):
    """Recordings that were replayed, and their sums."""

    total: dict[str, Any]
    recordings: list[Replayed]


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
