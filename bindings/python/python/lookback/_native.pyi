from os import PathLike
from typing import Any, Literal, final

from lookback._types import Excess, Finding, Found, Json, Messages, Outcome, Said, Synced

__all__ = ["Session", "Source", "Window", "check", "fit", "repair"]

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
        policy: str | dict[str, Any] | None = None,
    ) -> Session:
        """Opens the session of a name, and begins it if there is none.

        ``store`` is where sessions are kept: the path of a file, a folder that ends in ``/``, or the URL of a server.
        Without one, they are kept in memory. ``dialect`` is the format of the messages; without it, it is that of the
        model's own provider, or ``openai-chat``. ``policy`` is a preset such as ``"turns:max_turns=8"``, a file, or a
        dictionary.
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
    def why(self) -> list[Outcome]:
        """Returns what became of every message, and why."""

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
        """Returns what became of every message of the history, and why. For the window of a session, ask the session."""

@final
class Source:
    """Where a message of a window comes from."""

    @property
    def kind(self) -> Literal["unchanged", "changed", "own"]:
        """What was done to its entries."""
    @property
    def positions(self) -> list[int]:
        """The positions of its entries in the log."""

def fit(
    request: Json,
    *,
    model: str | None = None,
    dialect: str | None = None,
    policy: str | dict[str, Any] | None = None,
) -> Window:
    """Returns the window of a request: a list of messages, or all that is sent with them.

    It is what a session would send that had seen the conversation message by message, so a longer request of the same
    conversation begins with the same bytes until the next cut. If the model is not given, it is the request's.
    """

def repair(request: Json, *, dialect: str | None = None) -> Window:
    """Returns a request with repairs alone: nothing is left out that its provider accepts."""

def check(request: Json, *, dialect: str | None = None) -> list[Finding]:
    """Returns the rules of its provider that a request breaks, each with its number, its place and what is wrong."""
