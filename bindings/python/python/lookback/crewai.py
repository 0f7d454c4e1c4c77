"""A model for the agents of CrewAI, which sends a window of their messages and leaves the messages as they are.

>>> from crewai import LLM, Agent
>>> from lookback.crewai import LookbackLLM
>>> llm = LookbackLLM(LLM(model="gpt-4o"), store="memory.db")  # doctest: +SKIP
>>> Agent(role="Analyst", goal="Find the cause", backstory="...", llm=llm)  # doctest: +SKIP

A hook of CrewAI could not do that: it changes the agent's own messages, and what it raises is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Hashable
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any

from crewai.llms.base_llm import BaseLLM, call_stop_override, call_stream_override
from crewai.types.usage_metrics import UsageMetrics
from crewai.utilities.exceptions.context_window_exceeding_exception import LLMContextLengthExceededError
from crewai.utilities.types import LLMMessage
from pydantic import PrivateAttr

from lookback._mirror import TRIES, Mirror, Mirrors, away, digest

if TYPE_CHECKING:
    from crewai import Task

__all__ = ["LookbackLLM"]


class LookbackLLM(BaseLLM):
    """A model that is given a window of the messages of each run, in place of all of them.

    ``store`` is where the sessions are kept; without one, they are kept in memory. A run has a session from the model's
    first answer on. It is named after its task, and after its messages up to the first of the user. So an agent without
    a task goes on with a conversation that it is given again, and two of its runs at once must not begin alike. If the
    provider refuses a request as too long, a smaller one is sent, at most three times.
    """

    _llm: BaseLLM = PrivateAttr()
    _options: dict[str, Any] = PrivateAttr()
    _mirrors: Mirrors[_Messages] = PrivateAttr()

    def __init__(
        self,
        llm: BaseLLM,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        policy: str | dict[str, Any] | None = None,
    ) -> None:
        fields = {name: getattr(llm, name) for name in BaseLLM.model_fields if name != "llm_type"}
        super().__init__(**fields)
        self._llm = llm
        self._options = {"store": store, "model": model, "policy": policy}
        self._mirrors = Mirrors[_Messages](store)

    # How it is called is left to CrewAI: some models do not take all of it.

    def call(self, messages: str | list[LLMMessage], *args: Any, **kwargs: Any) -> str | Any:
        """Calls the model with a window of the messages."""
        with self._as_this():
            if isinstance(messages, str) or not _is_answered(messages):
                return self._llm.call(messages, *args, **kwargs)
            items: list[Any] = list(messages)
            mirror = self._mirror(items, kwargs.get("from_task"))
            window: Any = mirror.window(items, {"tools": kwargs.get("tools") or None})
            for _ in range(TRIES):
                try:
                    return self._llm.call(window, *args, **kwargs)
                except Exception as error:
                    window = mirror.smaller(error, items)
            return self._llm.call(window, *args, **kwargs)

    async def acall(self, messages: str | list[LLMMessage], *args: Any, **kwargs: Any) -> str | Any:
        """Calls the model with a window of the messages."""
        with self._as_this():
            if isinstance(messages, str) or not _is_answered(messages):
                return await self._llm.acall(messages, *args, **kwargs)
            items: list[Any] = list(messages)
            is_stored = self._options["store"] is not None
            mirror = await away(is_stored, self._mirror, items, kwargs.get("from_task"))
            window: Any = await mirror.awindow(items, {"tools": kwargs.get("tools") or None})
            for _ in range(TRIES):
                try:
                    return await self._llm.acall(window, *args, **kwargs)
                except Exception as error:
                    window = await mirror.asmaller(error, items)
            return await self._llm.acall(window, *args, **kwargs)

    def is_context_window_overflowing_threshold(self, *args: Any, **kwargs: Any) -> bool:
        """Returns that there is nothing to summarize, because the model sees a window."""
        return False

    def summarize_messages(self, *args: Any, **kwargs: Any) -> None:
        """Raises an error: the window has nothing left that may go, and the run's messages stay whole."""
        raise LLMContextLengthExceededError("the window cannot be made smaller")

    @contextmanager
    def _as_this(self) -> Generator[None]:
        """Has the model that is called follow what CrewAI has set here for this call."""
        stream = bool(self._effective_stream())
        with call_stop_override(self._llm, self.stop_sequences or None), call_stream_override(self._llm, stream):
            yield

    def _mirror(self, messages: list[Any], task: Task | None) -> _Messages:
        first = next((index for index, message in enumerate(messages) if message["role"] == "user"), 0)
        beginning = json.dumps([_said(message) for message in messages[: first + 1]], default=str)
        begins = digest(beginning)
        name = f"crewai/{task.id}/{begins}" if task else f"crewai/{begins}"
        return self._mirrors.of(name, lambda: _Messages(name, **self._options))

    # What the model can do is what the other one can.

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattr__(name)  # type: ignore[misc] # pyright: ignore
        return getattr(self._llm, name)

    def supports_stop_words(self) -> bool:
        """Returns whether the model knows stop words."""
        return self._llm.supports_stop_words()

    def supports_multimodal(self) -> bool:
        """Returns whether the model takes more than text."""
        return self._llm.supports_multimodal()

    def get_context_window_size(self) -> int:
        """Returns the tokens that CrewAI counts on."""
        return self._llm.get_context_window_size()

    def get_input_tokens_count(self, *args: Any, **kwargs: Any) -> int:
        """Returns the tokens of a request."""
        return self._llm.get_input_tokens_count(*args, **kwargs)

    def get_token_usage_summary(self) -> UsageMetrics:
        """Returns the tokens that the model has used."""
        return self._llm.get_token_usage_summary()


class _Messages(Mirror[dict[str, Any]]):
    """The messages of a run. The session has them in OpenAI's format, as CrewAI does."""

    def key(self, item: dict[str, Any]) -> Hashable:
        return tuple(map(str, _said(item).values()))

    def encode(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        return [_said(item)]

    def revive(self, item: dict[str, Any], shown: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
        [(_, message)] = shown
        # The provider's own calls are those that the message had.
        return {name: item[name] for name in item if name not in (*_SAID, "raw_tool_call_parts")} | message

    def make(self, shown: dict[str, Any], name: str) -> dict[str, Any]:
        return shown


_SAID = ("role", "content", "tool_calls", "tool_call_id")


def _said(message: dict[str, Any]) -> dict[str, Any]:
    """What the session has of a message: not what only CrewAI knows, such as its files."""
    said = {name: message[name] for name in _SAID if name in message}
    if said.get("tool_calls"):
        said["tool_calls"] = [_called(call) for call in said["tool_calls"]]
    return said


def _called(call: dict[str, Any]) -> dict[str, Any]:
    """A call whose arguments are text: CrewAI also takes an object, or nothing."""
    arguments = call["function"].get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return call | {"function": call["function"] | {"arguments": text}}


def _is_answered(messages: list[Any]) -> bool:
    """Returns whether a conversation has begun: CrewAI also asks the model about many things once."""
    return any(message["role"] == "assistant" for message in messages)
