from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, final

from lookback._callbacks import Summarizer
from lookback._types import (
    By,
    CompactEnd,
    CompactStart,
    Excess,
    Fact,
    FactEvent,
    FactKind,
    Finding,
    Found,
    Json,
    Messages,
    Outcome,
    Preset,
    Receipt,
    Replay,
    Reply,
    Resumed,
    Said,
    Sheet,
    Stated,
    SummaryRefused,
    Synced,
    Trust,
)

__all__ = [
    "Answer",
    "Ask",
    "Memory",
    "Policy",
    "Session",
    "Source",
    "Window",
    "check",
    "command_line",
    "ends",
    "fit",
    "presets",
    "prices",
    "repair",
    "replay",
]

@final
class Session:
    """A conversation with a log of every message, and a window for each model call.

    Calls from several threads wait for each other. None of them holds the interpreter's lock while it works.
    """

    def __new__(
        cls,
        name: str,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        dialect: str | None = None,
        policy: str | dict[str, Any] | Policy | None = None,
        summarizer: Summarizer | None = None,
        on_compact_start: Callable[[CompactStart], object] | None = None,
        on_compact_end: Callable[[CompactEnd], object] | None = None,
        on_summary_refused: Callable[[SummaryRefused], object] | None = None,
    ) -> Session:
        """Opens the session with this name, or creates it.

        ``store`` is the path of a file, a folder that ends in ``/``, or the URL of a server. Without it, sessions are
        kept in memory. ``dialect`` is the format of the messages. Without it, the dialect is that of the model's
        provider, or ``openai-chat``. ``policy`` is a :class:`Policy`, a preset such as ``"turns:max_turns=8"``, a file,
        or a dictionary.

        If the policy makes a running summary, ``summarizer`` writes it. It may return a coroutine, and is called in the
        background, on its own thread. Without it, a summary consists of sentences of the conversation. The other
        functions are called for each compaction, and must return quickly. They may use the session: events of a call
        are reported when the call is done.
        """

    @property
    def name(self) -> str:
        """The name of the session."""
    @property
    def dialect(self) -> str:
        """The dialect of the messages, such as ``openai-chat``."""
    def push(self, messages: Messages) -> list[int]:
        """Appends a message or a list of messages, and returns the log position of each.

        A message is a dictionary, an object of a provider's SDK, or JSON text, which is kept byte for byte.
        """
    def sync(self, history: Messages) -> Synced:
        """Takes over a whole history: recognizes known messages and appends the rest.

        A changed message begins a branch.
        """
    def preamble(self, *, system: Json = None, tools: Json = None) -> None:
        """Sets the tools, and the system prompt if it is outside the messages, because the provider counts them."""
    def window(self) -> Window:
        """Returns the window for the next model call. It is recorded before it is returned."""
    def answered(self, response: Json) -> None:
        """Records the model's answer: its message, and the tokens that the provider reports."""
    def usage(self, model: str, input_tokens: int) -> None:
        """Records the input tokens that the provider reported for the last window, including cached ones."""
    def overflow(self, error: BaseException | str | None) -> Window:
        """Returns a smaller window, because the provider refused the last one as too long.

        ``error`` is the exception of the provider's SDK, or the text of its answer, or ``None`` if neither is
        available. An exception with another cause is raised again.
        """
    def search(self, query: str, limit: int = 10) -> list[Found]:
        """Finds messages by words, including those that have left the window. The best match comes first."""
    def history(self) -> list[Said]:
        """Returns the messages of the conversation with their log positions, and whether the window shows them."""
    def messages(self) -> list[Any]:
        """Returns the messages of the conversation as they arrived, including those that have left the window."""
    def why(self) -> list[Outcome]:
        """Returns the treatment of every message and its reason."""
    def receipt(self, price: str = "anthropic-5m") -> Receipt:
        """Returns what each call sent and cost, and what it would have cost without a window, in US dollars."""
    def set_policy(self, policy: str | dict[str, Any] | Policy) -> None:
        """Changes the policy for the next window and later ones."""
    def resume(self, task: Messages, turns: int | None = None) -> Resumed:
        """Continues the session of an earlier process: the last turns stay in the window, and the task follows them.

        Without ``turns``, 16 of them stay. If the session was interrupted in the middle of this task, it continues
        there.
        """
    def wait_for_summary(self) -> None:
        """Waits until the summary in progress is done."""
    def memory(self, workspace: str | None = None) -> Memory:
        """Opens the memory of the session: its facts, and those that it shares with its workspace."""
    def _repr_html_(self) -> str: ...

@final
class Window:
    """The messages that one model call sends."""

    @property
    def messages(self) -> list[Any]:
        """The messages, as dictionaries for a request. They are created when this is first read."""
    @property
    def json(self) -> bytes:
        """The messages as a JSON list. Unchanged messages have the bytes with which they arrived."""
    @property
    def tokens(self) -> int:
        """The tokens as Lookback counts them, including the system prompt and the tools."""
    @property
    def compacted(self) -> bool:
        """Whether this call compacted the conversation."""
    @property
    def sources(self) -> list[Source]:
        """The source of each message, in the same order. Faster than ``messages``, because it writes no JSON."""
    @property
    def over(self) -> list[Excess]:
        """The limits that the window exceeds, because the rest may not be dropped."""
    def why(self) -> list[Outcome]:
        """Returns the treatment of every message of the history and its reason."""
    def _repr_html_(self) -> str: ...

@final
class Source:
    """The source of a message in a window."""

    @property
    def kind(self) -> Literal["unchanged", "changed", "own"]:
        """``unchanged`` if it has exactly the bytes of its entry, ``changed`` if it was shortened, repaired or merged
        from several, and ``own`` if Lookback made it."""
    @property
    def positions(self) -> list[int]:
        """The positions of its entries in the log."""

@final
class Policy:
    """The limits of a window, the messages to keep, and the ways to make it smaller.

    ``source`` is a preset with settings such as ``"turns:max_turns=8"``, the path of a TOML or JSON file, or a
    dictionary with the members of such a file. Without it, this is the default policy.
    """

    def __new__(cls, source: str | dict[str, Any] | Policy | None = None) -> Policy: ...
    def to_dict(self) -> dict[str, Any]:
        """Returns all members as a dictionary, including defaults."""
    def to_toml(self) -> str:
        """Returns the policy as TOML."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Memory:
    """The memory of one session: its own facts, and those that all sessions of a workspace share.

    Calls from several threads wait for each other. None of them holds the interpreter's lock while it works.
    """

    def __new__(
        cls, session: str, *, store: str | PathLike[str] | None = None, workspace: str | None = None
    ) -> Memory:
        """Opens the memory of a session. The default ``workspace`` is ``"shared"``."""

    @property
    def name(self) -> str:
        """The name of the session."""
    def remember(
        self,
        kind: FactKind,
        text: str,
        *,
        about: str | None = None,
        confidence: float | None = None,
        by: By | None = None,
        trust: Trust | None = None,
        tags: Sequence[str] | None = None,
        supersedes: Sequence[str] | None = None,
        shared: bool | None = None,
    ) -> Stated:
        """Writes a fact, or confirms an existing one with the same content.

        A later fact of the same kind ``about`` the same subject replaces it. ``by`` is the speaker, by default a
        person. Without ``shared``, preferences and constraints are shared with the workspace.
        """
    def facts(self) -> list[Fact]:
        """Returns the current facts: the session's, then the shared ones."""
    def search(self, query: str, limit: int = 10) -> list[Fact]:
        """Returns the current facts that contain any of these words, the best match first."""
    def resolve(self, id: str, by: str) -> None:
        """Marks a blocker as resolved, and records what resolved it."""
    def forget(self, id: str, why: str | None = None) -> None:
        """Removes a fact from the fact sheet. Its history stays readable."""
    def history(self, id: str) -> list[FactEvent]:
        """Returns the history of a fact, of those that it replaced, and of those that replaced it."""
    def sheet(self, *, budget: int | None = None, model: str | None = None) -> Sheet:
        """Returns the fact sheet: a text for the model within a token budget, and the facts shown and left out."""
    def tools(self, dialect: str = "openai-chat") -> list[Any]:
        """Returns the memory tools for a model, for the ``tools`` of a request."""
    def call(self, tool: str, arguments: Json) -> Reply:
        """Runs a tool call of the model. Returns the text of the result, and whether it is an error."""

@final
class Ask:
    """A request for a summary."""

    @property
    def system(self) -> str:
        """The system prompt."""
    @property
    def prompt(self) -> str:
        """The user's message: the conversation."""
    @property
    def budget(self) -> int:
        """The most tokens of the answer."""

@final
class Answer:
    """Receives the answer of a summarizer."""

    def give(self, summary: str) -> None:
        """Gives the summary."""
    def fail(self, why: str) -> None:
        """Reports why there is no summary."""

def fit(
    request: Json,
    *,
    model: str | None = None,
    dialect: str | None = None,
    policy: str | dict[str, Any] | Policy | None = None,
) -> Window:
    """Returns the window of a request: a list of messages, or a request body.

    The window is the one that a session would send if it had seen the conversation message by message. So a longer
    request of the same conversation begins with the same bytes until the next compaction. Without ``model``, the
    request's own model counts.
    """

def repair(
    request: Json,
    *,
    model: str | None = None,
    dialect: str | None = None,
    provider: str | None = None,
    path: str | None = None,
) -> Window:
    """Returns a request that is only repaired: it keeps everything that its provider accepts.

    Some rules apply only to one provider or model. If the request does not show its destination, pass ``model``,
    ``provider`` or ``path``, the path of its URL.
    """

def check(
    request: Json,
    *,
    model: str | None = None,
    dialect: str | None = None,
    provider: str | None = None,
    path: str | None = None,
) -> list[Finding]:
    """Returns the rules that a request breaks, each with its identifier, its place and the problem.

    Some rules apply only to one provider or model. If the request does not show its destination, pass ``model``,
    ``provider`` or ``path``, the path of its URL. Otherwise such a rule has the severity ``degraded``.
    """

def replay(
    recording: Json | PathLike[str],
    *,
    model: str | None = None,
    dialect: str | None = None,
    policy: str | dict[str, Any] | Policy | None = None,
    price: str = "anthropic-5m",
) -> Replay:
    """Replays a recorded conversation message by message, and returns what its windows would have sent and cost.

    ``recording`` is the path of a file, a request, or a list of messages. A file may have several recordings as JSON
    lines, or be a session of Claude Code.
    """

def presets() -> list[Preset]:
    """Returns the name and purpose of each preset."""

def prices() -> dict[str, dict[str, Any]]:
    """Returns all built-in prices by name, in US dollars per million tokens."""

def command_line(args: list[str]) -> int:
    """Runs the command line and returns its exit code. The first argument is the name of the program."""

def ends() -> None:
    """Stops threads of Lookback from entering the interpreter, and waits for those that have entered."""
