"""A filter and a session for the agents of OpenAI's Agents SDK: the filter sends windows, and the session keeps items.

>>> from agents import Agent, RunConfig, Runner
>>> from lookback.openai_agents import LookbackFilter, LookbackSession
>>> session = LookbackSession("chat-1", store="memory.db")
>>> config = RunConfig(call_model_input_filter=LookbackFilter("chat-1", store="memory.db"))
>>> Runner.run_sync(Agent("Helper"), "Hello.", session=session, run_config=config)  # doctest: +SKIP

Each works without the other. The filter leaves the SDK's history unchanged: only the model sees fewer items.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Hashable
from os import PathLike
from threading import Lock
from typing import Any, TypeVar, cast

from agents import FunctionTool, SessionSettings, TResponseInputItem
from agents.models.fake_id import FAKE_RESPONSES_ID
from agents.run import CallModelData, ModelInputData

from lookback._errors import LookbackError
from lookback._mirror import Mirror, Mirrors, digest, frozen
from lookback._native import Session

__all__ = ["LookbackFilter", "LookbackSession"]

T = TypeVar("T")

_DIALECT = "openai-responses"

_FOREIGN = "lookback_foreign"
"""The type of an element that is not an item of the provider."""


class LookbackFilter:
    """Shows the model a window of the items of a run, as its ``call_model_input_filter``.

    ``session`` is the name of the conversation, and ``store`` keeps it. Without ``store``, it is kept in memory. Agents
    that are tools use the same filter. A conversation is identified by its first item, and each one after the first
    gets its own session. A call that continues a conversation kept by the provider is left alone.

    If the provider refuses a request as too long, the run fails. Call ``overflow`` to make the next run send less.
    """

    def __init__(
        self,
        session: str,
        *,
        store: str | PathLike[str] | None = None,
        model: str | None = None,
        policy: str | dict[str, Any] | None = None,
    ) -> None:
        self._name = f"openai-agents/{session}"
        self._options: dict[str, Any] = {"store": store, "model": model, "policy": policy}
        self._mirrors = Mirrors[_Items](store)
        self._first: str | None = None

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Returns the input for a model call."""
        items = cast("list[dict[str, Any]]", data.model_data.input)
        if not items or _continues(items):
            return data.model_data
        mirror = await self._mirror(_digest(items[0]))
        window = await mirror.awindow(items, _preamble(data))
        return ModelInputData(cast("list[TResponseInputItem]", window), data.model_data.instructions)

    async def overflow(self, error: Exception) -> None:
        """Makes the next window of the first conversation smaller, because the provider refused a run as too long.

        Raises an error with another cause again. Also raises the error again if nothing more can be dropped.
        """
        if self._first is None:
            raise error
        mirror = await self._mirror(self._first)
        await mirror.away(mirror.shrink, error)

    async def _mirror(self, conversation: str) -> _Items:
        self._first = self._first or conversation
        name = self._name if conversation == self._first else f"{self._name}/{conversation}"
        return await self._mirrors.aof(conversation, lambda: _Items(name, **self._options))


class LookbackSession:
    """The items of a conversation, as the ``session`` of its runs.

    ``store`` keeps them. Without it, they are kept in memory. Items that are popped or cleared leave the conversation,
    but stay in its log.
    """

    def __init__(
        self,
        session_id: str,
        *,
        store: str | PathLike[str] | None = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings: SessionSettings | None = SessionSettings().resolve(session_settings)
        self._name = f"openai-agents/{session_id}/items"
        self._store = store
        self._in_memory = self._open() if store is None else None
        self._lock = Lock()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Returns the items in order, or only the newest ones if there is a limit."""
        elements = await self._do(lambda session: session.messages())
        items = [_as_item(element) for element in elements]
        if limit is None and self.session_settings:
            limit = self.session_settings.limit
        return items if limit is None or limit < 0 else items[max(len(items) - limit, 0) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Appends items."""
        elements = [_as_element(item) for item in items]
        await self._do(lambda session: session.push(elements))

    async def pop_item(self) -> TResponseInputItem | None:
        """Removes the newest item from the conversation, and returns it."""

        def pop(session: Session) -> TResponseInputItem | None:
            elements = session.messages()
            if elements:
                session.sync(elements[:-1])
            return _as_item(elements[-1]) if elements else None

        return await self._do(pop)

    async def clear_session(self) -> None:
        """Removes all items from the conversation."""
        await self._do(lambda session: session.sync([]))

    def _open(self) -> Session:
        return Session(self._name, store=self._store, dialect=_DIALECT, policy="none")

    async def _do(self, work: Callable[[Session], T]) -> T:
        def alone() -> T:
            with self._lock:
                # Other processes may have written to the store since an open session read it.
                return work(self._in_memory or self._open())

        return alone() if self._in_memory else await asyncio.to_thread(alone)


class _Items(Mirror["dict[str, Any]"]):
    """The items of a conversation. The session keeps them unchanged."""

    dialect = _DIALECT

    def shrink(self, error: Exception) -> None:
        with self.lock:
            try:
                self.session.overflow(error)
            except LookbackError as left:
                raise error from left

    def key(self, item: dict[str, Any]) -> Hashable:
        key: Hashable = frozen(item)
        return key

    def encode(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        # The SDK gives this identifier to items from other APIs, and providers do not know it.
        is_fake = item.get("id") == FAKE_RESPONSES_ID
        return [{name: member for name, member in item.items() if name != "id"} if is_fake else item]

    def revive(self, item: dict[str, Any], shown: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
        [(_, changed)] = shown
        return {**changed, "id": FAKE_RESPONSES_ID} if item.get("id") == FAKE_RESPONSES_ID else changed

    def make(self, shown: dict[str, Any], name: str) -> dict[str, Any]:
        return shown


def _preamble(data: CallModelData[Any]) -> dict[str, Any]:
    # The tools of MCP servers are not counted, because that would mean listing them once more.
    tools = [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.params_json_schema,
        }
        for tool in data.agent.tools
        if isinstance(tool, FunctionTool)
    ]
    return {"system": data.model_data.instructions or None, "tools": tools or None}


def _as_element(item: TResponseInputItem) -> dict[str, Any]:
    """Returns an item as an element of the session, even if it is no provider item, as in ``EncryptedSession``."""
    element = cast("dict[str, Any]", item)
    is_known = "role" in element or element.get("type", "message") != "message"
    return element if is_known else {"type": _FOREIGN, "item": item}


def _as_item(element: dict[str, Any]) -> TResponseInputItem:
    return cast(TResponseInputItem, element["item"] if element.get("type") == _FOREIGN else element)


def _continues(items: list[dict[str, Any]]) -> bool:
    """Returns whether items answer calls that are not among them. Then the provider keeps the conversation."""
    asked = {item.get("call_id") or item.get("id") for item in items if not _answered(item)}
    return any(_answered(item) not in asked for item in items if _answered(item))


def _answered(item: dict[str, Any]) -> Any:
    """Returns the identifier of the call that an item answers, if the item is a result or an approval."""
    kind = str(item.get("type"))
    if kind == "mcp_approval_response":
        return item.get("approval_request_id")
    return item.get("call_id") if kind.endswith("_output") else None


def _digest(item: dict[str, Any]) -> str:
    return digest(json.dumps(item, sort_keys=True))
