"""A filter and a session for the agents of OpenAI's Agents SDK: what each call of the model sends, and what is kept.

>>> from agents import Agent, RunConfig, Runner
>>> from lookback.openai_agents import LookbackFilter, LookbackSession
>>> session = LookbackSession("chat-1", store="memory.db")
>>> config = RunConfig(call_model_input_filter=LookbackFilter("chat-1", store="memory.db"))
>>> Runner.run_sync(Agent("Helper"), "Hello.", session=session, run_config=config)  # doctest: +SKIP

Each works without the other. The filter leaves the SDK's history as it is: only the model sees less of it.
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
"""The type of an element that is no item of the provider."""


class LookbackFilter:
    """Has the model see a window of the items of a run, as its ``call_model_input_filter``.

    ``session`` is the name of the conversation, and ``store`` where it is kept; without one, it is kept in memory. The
    agents that are tools have the filter, too. Their conversations are told by their first item: each has a session
    beside that of the first conversation. What goes on with a conversation that the provider keeps is left alone.

    If the provider refuses a request as too long, the run fails; ``overflow`` has the next one send less.
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
        """Returns what a call of the model is to send."""
        items = cast("list[dict[str, Any]]", data.model_data.input)
        if not items or _continues(items):
            return data.model_data
        mirror = await self._mirror(_digest(items[0]))
        window = await mirror.awindow(items, _preamble(data))
        return ModelInputData(cast("list[TResponseInputItem]", window), data.model_data.instructions)

    async def overflow(self, error: Exception) -> None:
        """Has the next window of the first conversation be smaller, because the provider refused a run as too long.

        An error that says something else is raised again, and so is one after which nothing is left that may go.
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

    ``store`` is where they are kept; without one, they are kept in memory. Items that are popped or cleared leave the
    conversation, and stay in its log.
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
        """Returns the items in their order: the newest ones if there is a limit."""
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
        """Takes the newest item out of the conversation, and returns it."""

        def pop(session: Session) -> TResponseInputItem | None:
            elements = session.messages()
            if elements:
                session.sync(elements[:-1])
            return _as_item(elements[-1]) if elements else None

        return await self._do(pop)

    async def clear_session(self) -> None:
        """Takes all items out of the conversation."""
        await self._do(lambda session: session.sync([]))

    def _open(self) -> Session:
        return Session(self._name, store=self._store, dialect=_DIALECT, policy="none")

    async def _do(self, work: Callable[[Session], T]) -> T:
        def alone() -> T:
            with self._lock:
                # Other processes may have written to the store meanwhile, which an open session does not know.
                return work(self._in_memory or self._open())

        return alone() if self._in_memory else await asyncio.to_thread(alone)


class _Items(Mirror["dict[str, Any]"]):
    """The items of a conversation. The session has them as they are."""

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
        # No provider knows the identifier that the SDK gives to what came from another API.
        is_fake = item.get("id") == FAKE_RESPONSES_ID
        return [{name: member for name, member in item.items() if name != "id"} if is_fake else item]

    def revive(self, item: dict[str, Any], shown: list[tuple[int, dict[str, Any]]]) -> dict[str, Any]:
        [(_, changed)] = shown
        return {**changed, "id": FAKE_RESPONSES_ID} if item.get("id") == FAKE_RESPONSES_ID else changed

    def make(self, shown: dict[str, Any], name: str) -> dict[str, Any]:
        return shown


def _preamble(data: CallModelData[Any]) -> dict[str, Any]:
    # The tools of MCP servers are not counted, because they would have to be listed once more.
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
    """The item as an element of the session, also if it is none of the provider's, as those of ``EncryptedSession``."""
    element = cast("dict[str, Any]", item)
    is_known = "role" in element or element.get("type", "message") != "message"
    return element if is_known else {"type": _FOREIGN, "item": item}


def _as_item(element: dict[str, Any]) -> TResponseInputItem:
    return cast(TResponseInputItem, element["item"] if element.get("type") == _FOREIGN else element)


def _continues(items: list[dict[str, Any]]) -> bool:
    """Whether items answer what is not among them, because the provider keeps the conversation and has the rest."""
    asked = {item.get("call_id") or item.get("id") for item in items if not _answered(item)}
    return any(_answered(item) not in asked for item in items if _answered(item))


def _answered(item: dict[str, Any]) -> Any:
    """The identifier of what an item answers, if it is a result or an approval."""
    kind = str(item.get("type"))
    if kind == "mcp_approval_response":
        return item.get("approval_request_id")
    return item.get("call_id") if kind.endswith("_output") else None


def _digest(item: dict[str, Any]) -> str:
    return digest(json.dumps(item, sort_keys=True))
