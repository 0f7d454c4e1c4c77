"""A conversation manager for the agents of Strands, which sends a window and leaves the agent's messages unchanged.

>>> from strands import Agent
>>> from lookback.strands import LookbackManager
>>> agent = Agent(conversation_manager=LookbackManager("chat-1", store="memory.db"))
"""

from __future__ import annotations

import base64
from collections.abc import Hashable
from os import PathLike
from typing import TYPE_CHECKING, Any

from strands.agent.conversation_manager import ConversationManager
from strands.hooks import AgentInitializedEvent, HookRegistry
from strands.middleware import InvokeModelStage
from strands.types.content import Message

from lookback._errors import Irreducible, LookbackError
from lookback._mirror import Mirror, frozen

if TYPE_CHECKING:
    from strands import Agent
    from strands.middleware.stages import InvokeModelContext

__all__ = ["LookbackManager"]


class LookbackManager(ConversationManager):
    """Shows the model a window of the agent's messages.

    ``session`` is the name of the conversation, and ``store`` keeps it. Without ``store``, it is kept in memory. Use a
    manager for one agent. If the provider refuses a request as too long, the agent asks again with a smaller window.
    """

    def __init__(
        self,
        session: str,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        policy: str | dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._mirror = _Messages(session, store=store, model=model, policy=policy)

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Makes the agent request a window before each model call."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._begin)

    def _begin(self, event: AgentInitializedEvent) -> None:
        event.agent.add_middleware(InvokeModelStage.Input, self._window)

    async def _window(self, context: InvokeModelContext) -> InvokeModelContext:
        tools: list[Any] = [{"toolSpec": specification} for specification in context.tool_specs]
        preamble = {"system": context.system_prompt or None, "tools": tools or None}
        return context.replace(messages=await self._mirror.awindow(context.messages, preamble))

    def apply_management(self, agent: Agent, **kwargs: Any) -> None:
        """Leaves the agent's messages unchanged: only the model sees fewer of them."""

    def reduce_context(self, agent: Agent, e: Exception | None = None, **kwargs: Any) -> None:
        """Makes the next window smaller, or raises the error again if nothing more can be dropped."""
        session = self._mirror.session
        try:
            try:
                session.overflow(str(e) if e else None)
            except Irreducible:
                raise
            except LookbackError:
                # The agent knows that the request was too long, even if the error does not say so.
                session.overflow(None)
        except LookbackError as left:
            raise (e or left) from left


class _Messages(Mirror[Message]):
    """The messages of an agent. The session keeps them in Bedrock's format, like the agent."""

    dialect = "bedrock"

    def key(self, item: Message) -> Hashable:
        return item["role"], frozen(item["content"])

    def encode(self, item: Message) -> list[dict[str, Any]]:
        # Members that only the agent uses are not sent.
        return [{"role": item["role"], "content": _as_text(item["content"])}]

    def revive(self, item: Message, shown: list[tuple[int, dict[str, Any]]]) -> Message:
        [(_, message)] = shown
        return {**item, "content": _as_bytes(message["content"])}

    def make(self, shown: dict[str, Any], name: str) -> Message:
        return {"role": shown["role"], "content": _as_bytes(shown["content"]), "tracking_id": name}


def _as_text(value: Any) -> Any:
    """Returns a value with its bytes in base 64, because JSON has no bytes."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: _as_text(member) for key, member in value.items()}  # pyright: ignore
    if isinstance(value, (list, tuple)):
        return [_as_text(item) for item in value]  # pyright: ignore
    return value


def _as_bytes(value: Any, is_bytes: bool = False) -> Any:
    """Returns a value in the agent's form, with its bytes decoded."""
    if isinstance(value, str):
        return base64.b64decode(value) if is_bytes else value
    if isinstance(value, dict):
        return {key: _as_bytes(member, key == "bytes") for key, member in value.items()}  # pyright: ignore
    if isinstance(value, list):
        return [_as_bytes(item) for item in value]  # pyright: ignore
    return value
