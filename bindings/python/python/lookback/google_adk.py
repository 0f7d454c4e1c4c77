"""A plugin for the agents of Google's Agent Development Kit, which sends a window of each session.

>>> from google.adk.agents import LlmAgent
>>> from google.adk.apps import App
>>> from lookback.google_adk import LookbackPlugin
>>> agent = LlmAgent(name="helper", model="gemini-3-pro")
>>> app = App(name="app", root_agent=agent, plugins=[LookbackPlugin(store="memory.db")])  # doctest: +SKIP

The events of the session are unchanged: only the model sees fewer of them.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Sequence
from os import PathLike
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.events import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins import BasePlugin
from google.genai.types import Content, GenerateContentConfig, Tool

from lookback._mirror import TRIES, Mirror, Mirrors

__all__ = ["LookbackPlugin"]


class LookbackPlugin(BasePlugin):
    """Shows the model a window of each session's contents.

    ``store`` keeps Lookback's sessions, one for each agent of a session, because each agent sees the events
    differently. Without it, they are kept in memory. If the provider refuses a request as too long, a smaller one is
    sent, at most three times, and its answer is not streamed.
    """

    def __init__(
        self,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        policy: str | dict[str, Any] | None = None,
        name: str = "lookback",
    ) -> None:
        super().__init__(name)
        self._options: dict[str, Any] = {"store": store, "model": model, "policy": policy}
        self._mirrors = Mirrors[_Contents](store)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Replaces the contents of the request by a window."""
        # If the request continues an interaction, the provider already has the earlier contents.
        if llm_request.contents and not llm_request.previous_interaction_id:
            mirror = await self._mirror(callback_context)
            llm_request.contents = await mirror.away(mirror.fit, llm_request, callback_context.session.events)
        return None

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> LlmResponse | None:
        """Sends the request again with a smaller window, if the provider refuses it as too long."""
        agent = callback_context.get_invocation_context().agent
        if llm_request.previous_interaction_id or not isinstance(agent, LlmAgent):
            return None
        mirror = await self._mirror(callback_context)
        llm = await agent.canonical_model_async(callback_context)
        for _ in range(TRIES):
            try:
                contents = mirror.with_asides(await mirror.asmaller(error, mirror.whole))
            except Exception as left:
                if left is error:
                    # Without an answer, the agent raises its error.
                    return None
                raise
            try:
                return await _ask(llm, mirror.again(llm_request, contents))
            except Exception as again:
                error = again
        return None

    async def _mirror(self, context: CallbackContext) -> _Contents:
        session = context.session
        name = f"google-adk/{session.app_name}/{session.user_id}/{session.id}/{context.agent_name}"
        return await self._mirrors.aof(name, lambda: _Contents(name, **self._options))


class _Contents(Mirror[Content]):
    """The contents of a session. Lookback's session keeps them in Gemini's format, as they are sent."""

    dialect = "gemini"

    def __init__(self, session: str, **options: Any) -> None:
        super().__init__(session, **options)
        self.whole: list[Content] = []
        """The contents of the request before its window, without those that are only for this request."""
        self._tail: list[Content] = []
        """The contents after the last one of the model, including those that are only for this request."""
        self._config = GenerateContentConfig()

    def fit(self, request: LlmRequest, events: Sequence[Event]) -> list[Content]:
        """Returns the window of a request."""
        self._config = request.config.model_copy()
        # The framework uses these types. The annotations also allow types of other packages.
        config: Any = request.config
        system: str | None = config.system_instruction
        tools = [_dumped(tool) for tool in config.tools or () if isinstance(tool, Tool)]
        preamble = {"system": {"parts": [{"text": system}]} if system else None, "tools": tools or None}
        contents = request.contents
        answered = max((at for at, content in enumerate(contents, 1) if content.role == "model"), default=0)
        self._tail = contents[answered:]
        # Contents of instructions or memories come from no event. In the next request they are elsewhere, or gone.
        self.whole = contents[:answered] + [content for content in self._tail if _is_kept(content, events)]
        return self.with_asides(self.window(self.whole, preamble) if self.whole else [])

    def with_asides(self, window: list[Content]) -> list[Content]:
        """Returns the window with the contents that are only for this request, in their original places."""
        at = len(window)
        for content in reversed(self._tail):
            if any(content is kept for kept in self.whole):
                at = next((place for place, shown in enumerate(window) if shown is content), at)
            else:
                window.insert(at, content)
        return window

    def again(self, request: LlmRequest, contents: list[Content]) -> LlmRequest:
        """Returns the request with other contents."""
        # The framework has removed from the request what the provider's cache holds.
        config = self._config if request.config.cached_content else request.config
        return request.model_copy(update={"contents": contents, "config": config, "cache_config": None})

    def key(self, item: Content) -> Hashable:
        # The framework creates the contents from the events for each request.
        return item.model_dump_json(by_alias=True, exclude_none=True)

    def encode(self, item: Content) -> list[dict[str, Any]]:
        return [_dumped(item)]

    def revive(self, item: Content, shown: list[tuple[int, dict[str, Any]]]) -> Content:
        [(_, content)] = shown
        return self.make(content, "")

    def make(self, shown: dict[str, Any], name: str) -> Content:
        # Only the JSON validation decodes bytes from base 64.
        return Content.model_validate_json(json.dumps(shown))


def _is_kept(content: Content, events: Sequence[Event]) -> bool:
    """Returns whether a content comes from the events of the session."""
    # The framework prefixes the contents of other agents with their names.
    names = tuple(f"[{event.author}] " for event in events)
    is_said = any(part.function_response or (part.text or "").startswith(names) for part in content.parts or ())
    return is_said or any(content == event.content for event in events)


async def _ask(llm: BaseLlm, request: LlmRequest) -> LlmResponse:
    """Returns the answer of a model, not streamed."""
    [answer] = [response async for response in llm.generate_content_async(request)]
    return answer


def _dumped(value: Content | Tool) -> dict[str, Any]:
    """Returns a value with the names of the REST API, and with its bytes in base 64."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)
