"""Facts, which outlive the window and the session."""

import asyncio
from pathlib import Path

import pytest

import lookback


def test_a_fact_is_remembered_replaced_and_forgotten(tmp_path: Path) -> None:
    memory = lookback.Memory("chat-1", store=tmp_path / "memory.db")
    first = memory.remember("finding", "It listens on port 5050.", about="the port", by={"tool": "read_file"})
    assert first["id"] == "f0"
    second = memory.remember("finding", "It listens on port 5051.", about="the port", confidence=0.9)
    assert [fact["id"] for fact in memory.facts()] == [second["id"]]
    assert len(memory.history(first["id"])) == 2
    memory.forget(second["id"], "it was a guess")
    assert memory.facts() == []


def test_preferences_are_shared_between_the_sessions_of_a_store(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    lookback.Memory("chat-1", store=store).remember("preference", "Use pnpm, not npm.")
    assert [fact["statement"].get("text") for fact in lookback.Memory("chat-2", store=store).search("pnpm")] == [
        "Use pnpm, not npm."
    ]
    assert lookback.Memory("chat-2", store=store, workspace="other").facts() == []


def test_a_session_has_its_memory_also_without_a_store() -> None:
    session = lookback.Session("s")
    session.memory().remember("decision", "We use SQLite.")
    assert "We use SQLite." in session.memory().sheet()["text"]
    assert session.memory().sheet(budget=1)["text"] == ""


def test_a_blocker_is_resolved() -> None:
    memory = lookback.Memory("s")
    blocker = memory.remember("blocker", "The key is missing.")
    memory.resolve(blocker["id"], "the key came")
    assert memory.facts() == []
    with pytest.raises(lookback.FactRefused):
        memory.resolve(blocker["id"], "again")


def test_a_model_reads_and_writes_with_tools() -> None:
    memory = lookback.Memory("s")
    names = [tool["function"]["name"] for tool in memory.tools()]
    assert "memory_finding" in names and "recall" in names
    assert memory.tools("anthropic")[0]["name"] == "memory_finding"
    reply = memory.call("memory_finding", {"content": "It is slow.", "confidence": 0.9})
    assert reply == {"text": "f0 is remembered.", "error": False}
    assert memory.call("memory_finding", "{}")["error"]


def test_what_is_no_fact_is_refused() -> None:
    memory = lookback.Memory("s")
    with pytest.raises(lookback.FactRefused):
        memory.remember("finding", " ")
    with pytest.raises(lookback.DecodeError) as refused:
        memory.remember("rumor", "x")  # type: ignore[arg-type]
    assert refused.value.where == "kind"
    with pytest.raises(lookback.DecodeError):
        memory.forget("fact 12")


def test_the_calls_are_awaited(tmp_path: Path) -> None:
    async def run(store: Path | None) -> list[str | None]:
        session = lookback.AsyncSession("s", store=store)
        memory = await session.memory()
        stated = await memory.remember("blocker", "The key is missing.")
        await memory.resolve(stated["id"], "it came")
        await memory.remember("finding", "It works.")
        return [fact["statement"].get("text") for fact in await memory.facts()]

    assert asyncio.run(run(None)) == ["It works."]
    assert asyncio.run(run(tmp_path / "memory.db")) == ["It works."]
