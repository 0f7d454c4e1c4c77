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
    """A conversation that is kept: every message in a log, and the window of it that a model call sends.

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
        """Opens the session of a name, and begins it if there is none.

        ``store`` is where sessions are kept: the path of a file, a folder that ends in ``/``, or the URL of a server.
        Without one, they are kept in memory. ``dialect`` is the format of the messages; without it, it is that of the
        model's own provider, or ``openai-chat``. ``policy`` is a :class:`Policy`, a preset such as
        ``"turns:max_turns=8"``, a file, or a dictionary.

        If the policy makes a running summary, ``summarizer`` is a function that writes it, or one that returns a
        coroutine. It is called in the background, on a thread of its own. Without one, sentences of the conversation
        itself are chosen, offline. The other functions are told of compactions, and have to return soon. They may use
        the session: what a call does is told when it is done.
        """

    @property
    def name(self) -> str:
        """The name of the session."""
    @property
    def dialect(self) -> str:
        """The format of the messages, such as ``openai-chat``."""
    def push(self, messages: Messages) -> list[int]:
        """Appends a message, or a list of them, and returns the position in the log of each.

        A message is a dictionary, an object of a provider's SDK, or JSON text, which is kept byte for byte.
        """
    def sync(self, history: Messages) -> Synced:
        """Takes over a whole history: what is known is recognized, and the rest is appended.

        A message that was changed begins a branch.
        """
    def preamble(self, *, system: Json = None, tools: Json = None) -> None:
        """Says what comes with the messages of each request, because the provider counts it."""
    def window(self) -> Window:
        """Returns the window for the next model call. It is recorded before it is returned."""
    def answered(self, response: Json) -> None:
        """Records what the model answered: its message, and the tokens that the provider reports."""
    def usage(self, model: str, input_tokens: int) -> None:
        """Records the input tokens that the provider reported for the last window, cached ones included."""
    def overflow(self, error: BaseException | str | None) -> Window:
        """Returns a smaller window, because the provider refused the last one as too long.

        ``error`` is the exception of the provider's SDK, or the text of its answer; ``None`` if only the caller knows.
        An exception that says something else is raised again.
        """
    def search(self, query: str, limit: int = 10) -> list[Found]:
        """Finds messages by words, also those that have left the window: the best first."""
    def history(self) -> list[Said]:
        """Returns the messages of the conversation, with their positions in the log, and whether the window shows them."""
    def messages(self) -> list[Any]:
        """Returns the messages of the conversation as they came, with all that has left the window."""
    def why(self) -> list[Outcome]:
        """Returns what became of every message, and why."""
    def receipt(self, price: str = "anthropic-5m") -> Receipt:
        """Returns what each call has sent and cost, and what it would have cost without a window, in US dollars."""
    def set_policy(self, policy: str | dict[str, Any] | Policy) -> None:
        """Changes the policy, from the next window on."""
    def resume(self, task: Messages, turns: int | None = None) -> Resumed:
        """Goes on with the session of an earlier process: the last turns stay in the window, and the task follows them.

        Without ``turns``, 16 of them stay. If the session was left in the middle of this task, it goes on there.
        """
    def wait_for_summary(self) -> None:
        """Waits until the summary that is being made is done."""
    def memory(self, workspace: str | None = None) -> Memory:
        """Opens the memory of the session: its facts, and those that it shares with its workspace."""
    def _repr_html_(self) -> str: ...

@final
class Window:
    """The messages that one model call sends."""

    @property
    def messages(self) -> list[Any]:
        """The messages, as dictionaries for a request. They are made when this is read first."""
    @property
    def json(self) -> bytes:
        """The messages as a JSON list. What is unchanged has the bytes with which it came."""
    @property
    def tokens(self) -> int:
        """The tokens, with the system prompt and the tools, as Lookback counts them."""
    @property
    def compacted(self) -> bool:
        """Whether this call cut the conversation."""
    @property
    def sources(self) -> list[Source]:
        """Where each of the messages comes from, in the same order. No JSON is written for it."""
    @property
    def over(self) -> list[Excess]:
        """The limits that it exceeds, because what is left may not be dropped."""
    def why(self) -> list[Outcome]:
        """Returns what became of every message of the history, and why."""
    def _repr_html_(self) -> str: ...

@final
class Source:
    """Where a message of a window comes from."""

    @property
    def kind(self) -> Literal["unchanged", "changed", "own"]:
        """What was done to its entries."""
    @property
    def positions(self) -> list[int]:
        """The positions of its entries in the log."""

@final
class Policy:
    """What a window may contain: limits, what to keep, and how to make it smaller.

    ``source`` is a preset with settings such as ``"turns:max_turns=8"``, the path of a TOML or JSON file, or a dictionary
    with the members of one. Without it, it is the default policy.
    """

    def __new__(cls, source: str | dict[str, Any] | Policy | None = None) -> Policy: ...
    def to_dict(self) -> dict[str, Any]:
        """Returns all of its members as a dictionary, also those that are defaults."""
    def to_toml(self) -> str:
        """Returns it as TOML."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Memory:
    """What one session knows: its own facts, and those that all sessions of a workspace share.

    Calls from several threads wait for each other. None of them holds the interpreter's lock while it works.
    """

    def __new__(
        cls, session: str, *, store: str | PathLike[str] | None = None, workspace: str | None = None
    ) -> Memory:
        """Opens the memory of a session. ``workspace`` is ``"shared"`` unless another is given."""

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
        """Writes a fact, or confirms the one that says the same.

        The next fact of the same kind ``about`` the same thing replaces it. ``by`` is who says it: a person, unless
        another is given. Without ``shared``, preferences and constraints are shared with the workspace.
        """
    def facts(self) -> list[Fact]:
        """Returns the current facts: the session's, then the shared ones."""
    def search(self, query: str, limit: int = 10) -> list[Fact]:
        """Returns the current facts that have any of these words: the best first."""
    def resolve(self, id: str, by: str) -> None:
        """Ends a blocker, and says what resolved it."""
    def forget(self, id: str, why: str | None = None) -> None:
        """Removes a fact from the fact sheet. Its versions stay readable."""
    def history(self, id: str) -> list[FactEvent]:
        """Returns what happened to a fact, to those that it replaced, and to those that replaced it."""
    def sheet(self, *, budget: int | None = None, model: str | None = None) -> Sheet:
        """Returns the fact sheet: its text for the model, within a budget of tokens, and what it shows and leaves out."""
    def tools(self, dialect: str = "openai-chat") -> list[Any]:
        """Returns the tools with which a model reads and writes its memory, for the ``tools`` of a request."""
    def call(self, tool: str, arguments: Json) -> Reply:
        """Carries out a model's call of one of the tools, and returns the text of the result, and whether it is an error."""

@final
class Ask:
    """What a summarizer is asked."""

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
    """Where a summary goes."""

    def give(self, summary: str) -> None:
        """Gives the summary."""
    def fail(self, why: str) -> None:
        """Says why there is none."""

def fit(
    request: Json,
    *,
    model: str | None = None,
    dialect: str | None = None,
    policy: str | dict[str, Any] | Policy | None = None,
) -> Window:
    """Returns the window of a request: a list of messages, or all that is sent with them.

    It is what a session would send that had seen the conversation message by message, so a longer request of the same
    conversation begins with the same bytes until the next cut. If the model is not given, it is the request's.
    """

def repair(
    request: Json,
    *,
    model: str | None = None,
    dialect: str | None = None,
    provider: str | None = None,
    path: str | None = None,
) -> Window:
    """Returns a request with repairs alone: nothing is left out that its provider accepts.

    Some rules are only one provider's or one model's. If the request does not tell where it goes, `model`, `provider` and
    `path`, the path of its URL, do.
    """

def check(
    request: Json,
    *,
    model: str | None = None,
    dialect: str | None = None,
    provider: str | None = None,
    path: str | None = None,
) -> list[Finding]:
    """Returns the rules of its provider that a request breaks, each with its number, its place and what is wrong.

    Some rules are only one provider's or one model's. If the request does not tell where it goes, `model`, `provider` and
    `path`, the path of its URL, do. If nobody knows, such a rule has the severity `degraded`.
    """

def replay(
    recording: Json | PathLike[str],
    *,
    model: str | None = None,
    dialect: str | None = None,
    policy: str | dict[str, Any] | Policy | None = None,
    price: str = "anthropic-5m",
) -> Replay:
    """Replays a recorded conversation message by message: what its windows would have sent and cost.

    ``recording`` is the path of a file, or a request or a list of messages. A file may have several recordings, as JSON
    lines, and may be a session of Claude Code.
    """

def presets() -> list[Preset]:
    """Returns the presets: the name of each, and what it is for."""

def prices() -> dict[str, dict[str, Any]]:
    """Returns all prices that Lookback knows, by name, in US dollars for a million tokens."""

def command_line(args: list[str]) -> int:
    """Runs the command line, and returns its exit code. The first argument is the name of the program."""

def ends() -> None:
    """Lets no more threads of Lookback into the interpreter, and waits for those that are inside."""
