"""A model for the agents of CrewAI, which sends a window of their messages and leaves the messages unchanged.

>>> from crewai import LLM, Agent
>>> from lookback.crewai import LookbackLLM
>>> llm = LookbackLLM(LLM(model="gpt-4o"), store="memory.db")  # doctest: +SKIP
>>> Agent(role="Analyst", goal="Find the cause", backstory="...", llm=llm)  # doctest: +SKIP

A hook of CrewAI could not do that: it would change the agent's own messages, and its errors are dropped.
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
    """A model that receives a window of each run's messages instead of all of them.

    ``store`` keeps the sessions. Without it, they are kept in memory. A run has a session from the model's first answer
    on. Its name comes from its task, and from its messages up to the first user message. So an agent without a task
    continues a conversation that it receives again, and two of its concurrent runs must not begin alike. If the
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

    # The other arguments are passed on, because not every model accepts all of them.

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
        """Returns false: there is nothing to summarize, because the model sees a window."""
        return False

    def summarize_messages(self, *args: Any, **kwargs: Any) -> None:
        """Raises an error: the window cannot be made smaller, and the run's messages must stay whole."""
        raise LLMContextLengthExceededError("the window cannot be made smaller")

    @contextmanager
    def _as_this(self) -> Generator[None]:
        """Applies the settings that CrewAI made on this model for the call to the wrapped model."""
        stream = bool(self._effective_stream())
        with call_stop_override(self._llm, self.stop_sequences or None), call_stream_override(self._llm, stream):
            yield

    def _mirror(self, messages: list[Any], task: Task | None) -> _Messages:
        first = next((index for index, message in enumerate(messages) if message["role"] == "user"), 0)
        beginning = json.dumps([_said(message) for message in messages[: first + 1]], default=str)
        begins = digest(beginning)
        name = f"crewai/{task.id}/{begins}" if task else f"crewai/{begins}"
        return self._mirrors.of(name, lambda: _Messages(name, **self._options))

    # The capabilities are those of the wrapped model.

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattr__(name)  # type: ignore[misc] # pyright: ignore
        return getattr(self._llm, name)

    def supports_stop_words(self) -> bool:
        """Returns whether the model supports stop words."""
        return self._llm.supports_stop_words()

    def supports_multimodal(self) -> bool:
        """Returns whether the model accepts more than text."""
        return self._llm.supports_multimodal()

    def get_context_window_size(self) -> int:
        """Returns the tokens that CrewAI assumes for the context window."""
        return self._llm.get_context_window_size()

    def get_input_tokens_count(self, *args: Any, **kwargs: Any) -> int:
        """Returns the tokens of a request."""
        return self._llm.get_input_tokens_count(*args, **kwargs)

    def get_token_usage_summary(self) -> UsageMetrics:
        """Returns the tokens that the model has used."""
        return self._llm.get_token_usage_summary()


class _Messages(Mirror[dict[str, Any]]):
    """The messages of a run. The session keeps them in OpenAI's format, like CrewAI."""

    def key(self, item: dict[str, Any]) -> Hashable:
        return tuple(map(str, _said(item).values()))

    def encode(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        return [_said(item)]

    def revive(self, item: dict[str, Any], shown: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
        [(_, message)] = shown
        # The provider's own form of the tool calls belongs to the original message.
        return {name: item[name] for name in item if name not in (*_SAID, "raw_tool_call_parts")} | message

    def make(self, shown: dict[str, Any], name: str) -> dict[str, Any]:
        return shown


_SAID = ("role", "content", "tool_calls", "tool_call_id")


def _said(message: dict[str, Any]) -> dict[str, Any]:
    """Returns the members of a message that the session keeps, without those that only CrewAI uses, such as files."""
    said = {name: message[name] for name in _SAID if name in message}
    if said.get("tool_calls"):
        said["tool_calls"] = [_called(call) for call in said["tool_calls"]]
    return said


def _called(call: dict[str, Any]) -> dict[str, Any]:
    """Returns a call whose arguments are text. CrewAI also accepts an object or nothing."""
    arguments = call["function"].get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return call | {"function": call["function"] | {"arguments": text}}


def _is_answered(messages: list[Any]) -> bool:
    """Returns whether a conversation has an answer. CrewAI also asks the model single questions."""
    return any(message["role"] == "assistant" for message in messages)
