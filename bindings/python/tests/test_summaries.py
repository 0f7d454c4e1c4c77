"""Summaries by callbacks, and the events that a session emits about compactions."""

import asyncio
import contextvars
import gc
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import lookback

POLICY = "rolling-summary:window_size=4"


def talk(session: lookback.Session, turns: int = 8) -> None:
    for number in range(turns):
        session.push({"role": "user", "content": f"Question {number}, please?"})
        session.window()
        session.push({"role": "assistant", "content": f"Answer {number}, of course."})
        session.wait_for_summary()


def summary(session: lookback.Session) -> str:
    return str(session.window().messages[0]["content"])


def test_a_function_makes_the_summary() -> None:
    asked: list[lookback.Ask] = []

    def summarize(ask: lookback.Ask) -> str:
        asked.append(ask)
        return "They spoke of questions and answers."

    session = lookback.Session("s", policy=POLICY, summarizer=summarize)
    talk(session)
    assert "They spoke of questions" in summary(session)
    assert "Question 0" in asked[0].prompt and asked[0].budget > 0 and asked[0].system


def test_a_coroutine_makes_the_summary() -> None:
    async def summarize(ask: lookback.Ask) -> str:
        await asyncio.sleep(0)
        return "They spoke of questions and answers."

    session = lookback.Session("s", policy=POLICY, summarizer=summarize)
    talk(session)
    assert "They spoke of questions" in summary(session)


def test_a_coroutine_runs_on_the_loop_of_the_session() -> None:
    loops: list[Any] = []

    async def summarize(ask: lookback.Ask) -> str:
        loops.append(asyncio.get_running_loop())
        return "They spoke of questions and answers."

    async def run() -> None:
        session = lookback.AsyncSession("s", policy=POLICY, summarizer=summarize)
        for number in range(8):
            await session.push({"role": "user", "content": f"Question {number}, please?"})
            await session.window()
            await session.push({"role": "assistant", "content": f"Answer {number}, of course."})
            await session.wait_for_summary()
        assert "They spoke of questions" in (await session.window()).messages[0]["content"]
        assert loops and all(loop is asyncio.get_running_loop() for loop in loops)

    asyncio.run(run())


def test_a_summary_belongs_to_the_context_of_the_call() -> None:
    span: contextvars.ContextVar[str] = contextvars.ContextVar("span", default="none")
    seen: list[str] = []

    def summarize(ask: lookback.Ask) -> str:
        seen.append(span.get())
        return "They spoke of questions and answers."

    session = lookback.Session("s", policy=POLICY, summarizer=summarize)
    span.set("call")
    talk(session)
    assert seen and set(seen) == {"call"}


@pytest.mark.parametrize("stored", [False, True])
def test_a_summary_belongs_to_the_context_of_an_awaited_call(tmp_path: Path, stored: bool) -> None:
    span: contextvars.ContextVar[str] = contextvars.ContextVar("span", default="none")
    seen: list[str] = []

    async def summarize(ask: lookback.Ask) -> str:
        seen.append(span.get())
        return "They spoke of questions and answers."

    async def run() -> None:
        store = tmp_path / "memory.db" if stored else None
        session = lookback.AsyncSession("s", store=store, policy=POLICY, summarizer=summarize)
        span.set("call")
        for number in range(8):
            await session.push({"role": "user", "content": f"Question {number}, please?"})
            await session.push({"role": "assistant", "content": f"Answer {number}, of course."})
            await session.window()
        await session.wait_for_summary()

    asyncio.run(run())
    assert "call" in seen and set(seen) == {"call"}


def test_a_function_that_raises_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def summarize(ask: lookback.Ask) -> str:
        raise ValueError("secret")

    ended: list[Any] = []
    session = lookback.Session("s", policy=POLICY, summarizer=summarize, on_compact_end=ended.append)
    with caplog.at_level(logging.WARNING, "lookback"):
        talk(session, 4)
    failed = [event for event in ended if event["outcome"] == "failed"]
    assert failed and "ValueError" in failed[0]["reason"] and "secret" not in failed[0]["reason"]
    assert len(session.messages()) == 8
    assert "Question 0, please?" in [message["content"] for message in session.window().messages]
    assert any(record.name == "lookback" and "no summary was made" in record.message for record in caplog.records)


def test_what_is_no_text_is_no_summary() -> None:
    ended: list[Any] = []
    made: Any = lambda ask: 7  # noqa: E731
    session = lookback.Session("s", policy=POLICY, summarizer=made, on_compact_end=ended.append)
    talk(session, 4)
    assert "TypeError" in ended[0]["reason"]


def test_a_function_that_hangs_holds_nobody_up() -> None:
    held = threading.Event()

    def summarize(ask: lookback.Ask) -> str:
        held.wait(120)
        return "Late."

    session = lookback.Session("s", policy=POLICY, summarizer=summarize)
    for number in range(8):
        session.push({"role": "user", "content": f"Question {number}, please?"})
        session.push({"role": "assistant", "content": f"Answer {number}, of course."})
        session.window()
    assert len(session.messages()) == 16
    held.set()


@pytest.mark.parametrize("makes", ["time.sleep(600)", "asyncio.run(asyncio.sleep(600))", "sys.exit()"])
def test_a_program_ends_in_the_middle_of_a_summary(makes: str) -> None:
    program = f"""
import asyncio, sys, time, lookback
def summarize(ask):
    {makes}
session = lookback.Session("s", policy={POLICY!r}, summarizer=summarize)
for number in range(8):
    session.push([{{"role": "user", "content": f"Question {{number}}"}}, {{"role": "assistant", "content": "Yes."}}])
    session.window()
print(len(session.messages()))
"""
    # The program does not wait for the summary.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "16\n"), done.stderr


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_loop_that_closes_takes_nothing_with_it() -> None:
    async def summarize(ask: lookback.Ask) -> str:
        await asyncio.sleep(600)
        return "Late."

    session = lookback.AsyncSession("s", policy=POLICY, summarizer=summarize)

    async def run() -> int:
        for number in range(8):
            await session.push({"role": "user", "content": f"Question {number}, please?"})
            await session.push({"role": "assistant", "content": f"Answer {number}, of course."})
            await session.window()
        return len(await session.messages())

    assert asyncio.run(run()) == 16
    # Another event loop continues the session.
    assert asyncio.run(run()) == 32
    gc.collect()


CLOSED = f"""
import asyncio, time, lookback
async def summarize(ask):
    await asyncio.sleep(0.5)
    return "They spoke."
session = lookback.AsyncSession("s", policy={POLICY!r}, summarizer=summarize)
async def talk():
    for number in range(8):
        await session.push({{"role": "user", "content": f"Question {{number}}, please?"}})
        await session.push({{"role": "assistant", "content": f"Answer {{number}}, of course."}})
        await session.window()
async def again():
    await talk()
    await asyncio.wait_for(session.wait_for_summary(), 120)
    return "ended"
loop = asyncio.new_event_loop()
loop.run_until_complete(talk())
time.sleep(0.3)
END
print(asyncio.run(again()))
"""


@pytest.mark.parametrize("end", ["loop.close()", "# It has stopped, and nobody goes on with it."])
def test_a_summary_does_not_wait_for_a_loop_that_has_ended(end: str) -> None:
    program = CLOSED.replace("END", end)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "ended\n"), done.stderr
    assert "exception calling callback" not in done.stderr


def test_a_summarizer_that_takes_long_is_waited_for() -> None:
    async def summarize(ask: lookback.Ask) -> str:
        await asyncio.sleep(1.5)
        return "They spoke of questions and answers."

    async def run() -> None:
        session = lookback.AsyncSession("s", policy=POLICY, summarizer=summarize)
        for number in range(8):
            await session.push({"role": "user", "content": f"Question {number}, please?"})
            await session.push({"role": "assistant", "content": f"Answer {number}, of course."})
            await session.window()
        await session.wait_for_summary()
        assert "They spoke of questions" in (await session.window()).messages[0]["content"]

    asyncio.run(run())


def test_compactions_are_told() -> None:
    told: list[tuple[str, Any]] = []
    session = lookback.Session(
        "s",
        policy="messages:max_messages=4",
        on_compact_start=lambda event: told.append(("start", event)),
        on_compact_end=lambda event: told.append(("end", event)),
    )
    talk(session, 4)
    assert [kind for kind, _ in told[:2]] == ["start", "end"]
    assert told[0][1]["session"] == "s" and told[0][1]["evicted_count"] > 0
    assert told[1][1]["outcome"] == "cut" and told[1][1]["tokens_after"] < told[1][1]["tokens_before"]


def test_a_listener_that_raises_is_reported_and_changes_nothing() -> None:
    reported: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, reported.append
    try:
        session = lookback.Session("s", policy="messages:max_messages=2", on_compact_start=lambda event: 1 / 0)
        talk(session, 3)
    finally:
        sys.unraisablehook = before
    assert isinstance(reported[0].exc_value, ZeroDivisionError)
    assert len(session.messages()) == 6


def test_a_listener_may_ask_another_session() -> None:
    other = lookback.Session("other")
    session = lookback.Session(
        "s", policy="messages:max_messages=2", on_compact_start=lambda event: other.push({"role": "user", "content": "x"})
    )
    talk(session, 3)
    assert other.messages()
