"""The types of arguments, and of the dictionaries that Lookback returns."""

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
    """The result of taking over a whole history, in messages."""

    known: int
    new: int
    left: int
    positions: list[int]
    """The log position of each message of the history."""


class Found(TypedDict):
    """A message that a search found."""

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
    """The state of a resumed session."""

    turns: int
    """The turns before the task that stay in the window."""
    unfinished: bool
    """Whether the session was interrupted in the middle of this task."""


class CompactStart(TypedDict):
    """The beginning of a compaction."""

    session: str
    evicted_count: int
    """The number of messages that leave the window."""
    total_tokens: int
    """The tokens of the window before the compaction."""


class CompactEnd(TypedDict):
    """The end of a compaction."""

    session: str
    outcome: Literal["cut", "summarized", "refused", "failed"]
    reason: str | None
    """The reason if it failed."""
    tokens_before: int
    tokens_after: int
    summary_tokens: int
    seconds: float


class SummaryRefused(TypedDict):
    """A summary that failed its check."""

    session: str
    model: str
    again: bool
    """Whether the summarizer is asked once more."""
    invented: list[str]
    """Names and numbers in the summary that are not in its source."""
    missing: list[str]
    """Names that the model used most, and that the summary lacks."""


FactKind: TypeAlias = Literal["correction", "constraint", "blocker", "preference", "decision", "finding"]
"""The kind of a fact."""

By: TypeAlias = "Literal['person', 'model'] | dict[Literal['tool'], str]"
"""The speaker of a fact: a person, the model, or a tool with its name, as ``{"tool": "read_file"}``."""

Trust: TypeAlias = Literal["low", "medium", "high"]
"""The degree of trust in a fact."""


class Stated(TypedDict):
    """A fact that was written."""

    id: str
    """Its identifier, such as ``f12``, or ``s3`` if it is shared."""
    judgment: Any
    """Whether it is new, and which facts it replaces or disputes."""


class Statement(TypedDict, total=False):
    """An assertion of a fact, with its source and confidence."""

    kind: FactKind
    text: str
    about: str
    confidence: float
    source: dict[str, Any]
    trust: Trust
    time: int
    """Milliseconds since 1970."""
    tags: list[str]
    supersedes: list[str]


class _Fact(TypedDict):
    id: str
    statement: Statement
    confidence: float
    trust: Trust
    confirmations: int


class Fact(_Fact, total=False):
    """A current fact."""

    disputes: str
    said: int


class FactEvent(TypedDict):
    """An event in the history of a fact."""

    scope: Literal["session", "shared"]
    position: int
    entry: dict[str, Any]


class Sheet(TypedDict):
    """A fact sheet: the most important facts, as a text for the model."""

    text: str
    tokens: int
    shown: list[str]
    left_out: list[tuple[FactKind, int]]
    """The kinds of the omitted facts, with their numbers."""


class Reply(TypedDict):
    """The result of a tool call of the model."""

    text: str
    error: bool


class Preset(TypedDict):
    """A ready-made policy."""

    name: str
    purpose: str


class Receipt(TypedDict):
    """What each call of a session sent and cost."""

    calls: list[dict[str, Any]]
    total: dict[str, Any]
    since: int


class Replayed(TypedDict):
    """The replay of one recording."""

    report: dict[str, Any]
    calls: list[dict[str, Any]]


class Replay(TypedDict):
    """The replays of all recordings, and their sums."""

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
    """The problem, and what to do about it."""


class Outcome(TypedDict):
    """The treatment of adjacent messages of a history."""

    span: list[int]
    """The index of the first message, and the index after the last."""
    action: Literal["keep", "truncate", "clear", "summarize", "drop"]
    reason: dict[str, Any]
    mends: list[Any]
    tokens: int
    """Their tokens when they arrived."""
    sent: int
    """Their tokens in the window."""
    words: str
    """The reason, for people."""
