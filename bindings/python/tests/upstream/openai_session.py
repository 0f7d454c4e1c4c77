"""A pytest plugin: Lookback's session as the SQLite session of OpenAI's Agents SDK."""

from pathlib import Path
from typing import Any

import agents
import agents.memory
from agents.memory import sqlite_session
from record import reach

from lookback.openai_agents import LookbackSession


class SQLiteSession(LookbackSession):
    def __init__(self, session_id: str, db_path: str | Path = ":memory:", **options: Any) -> None:
        settings = options.get("session_settings")
        super().__init__(session_id, store=None if db_path == ":memory:" else db_path, session_settings=settings)

    async def _do(self, work: Any) -> Any:
        reach()
        return await super()._do(work)

    def close(self) -> None:
        """Does nothing, because the session has nothing to close."""


for module in (agents, agents.memory, sqlite_session):
    setattr(module, "SQLiteSession", SQLiteSession)
