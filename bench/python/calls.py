"""Measures the time of calls in Python: Lookback compared with LangChain and Strands, in one run.

Build the package as it is published, and install it with both frameworks:

    maturin build --profile dist --manifest-path bindings/python/Cargo.toml
    pip install target/wheels/*.whl langchain strands-agents
    python bench/python/calls.py
"""

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable

import lookback

RECORDED = [json.loads(line) for line in (Path(__file__).parents[2] / "examples" / "session.jsonl").open()]


def conversation(length: int) -> list[dict[str, Any]]:
    """Returns a conversation with short messages. Every fourth message is a tool result."""
    messages: list[dict[str, Any]] = []
    for number in range(0, length, 4):
        call = {"type": "function", "id": f"c{number}", "function": {"name": "read", "arguments": '{"path": "a"}'}}
        messages += [
            {"role": "user", "content": f"Question {number}: what is in the file?"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"The file has line {number}. " * 8},
            {"role": "assistant", "content": f"It has line {number}."},
        ]
    return messages[:length]


def median(work: Callable[[], object], runs: int = 30) -> float:
    """Returns the median time of the runs, in microseconds."""
    times: list[float] = []
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        times.append((time.perf_counter() - begun) * 1e6)
    return statistics.median(times)


def told(name: str, value: float) -> None:
    print(f"  {name:52} {value:12,.1f} µs")


def recorded() -> None:
    """Measures an agent's session of 200 messages, 573 KB."""
    messages = RECORDED[:200]
    print(f"{len(messages)} messages of a recorded session, {len(json.dumps(messages)):,} bytes")
    session = lookback.Session("s", model="gpt-4o", policy="none")
    session.push(messages)
    session.window()
    new = {"role": "user", "content": "And now?"}

    def decide() -> None:
        session.push(new)
        len(session.window().sources)

    told("push one, window, sources", median(decide))
    text = json.dumps(new)
    told("push one as text, window, sources", median(lambda: (session.push(text), len(session.window().sources))))
    known = lookback.Session("k", model="gpt-4o", policy="none")
    known.sync(messages)
    texts = [json.dumps(message) for message in messages]
    told("sync all, which are known", median(lambda: known.sync(messages)))
    told("sync all, which are known, as text", median(lambda: known.sync(texts)))
    told("window.messages", median(lambda: known.window().messages))
    told("fit", median(lambda: lookback.fit(messages, model="gpt-4o"), 5))


def beside(length: int) -> None:
    """Measures a new message in a conversation of this length, of which only the newest 40 messages are sent."""
    from langchain_core.messages import convert_to_messages, trim_messages
    from strands.agent.conversation_manager import SlidingWindowConversationManager

    messages = conversation(length)
    print(f"{length:,} messages, the newest 40 are sent")
    session = lookback.Session("s", policy="messages:max_messages=40,target_messages=20")
    session.push(messages)
    number = iter(range(10**9))

    def ours() -> None:
        session.push({"role": "user", "content": f"New {next(number)}"})
        session.window().messages

    told("Lookback: push, window, messages", median(ours))
    theirs = convert_to_messages(messages)
    told(
        "LangChain: trim_messages",
        median(lambda: trim_messages(theirs, max_tokens=40, token_counter=len, start_on="human"), 10),
    )
    converse = [{"role": m["role"], "content": [{"text": m["content"] or "x"}]} for m in messages if m["role"] != "tool"]

    def strands() -> None:
        agent: Any = SimpleNamespace(messages=list(converse))
        SlidingWindowConversationManager(window_size=40).apply_management(agent)

    told("Strands: SlidingWindowConversationManager", median(strands, 10))


def memory() -> None:
    """Measures the memory of an open session, without and with a store on the disk."""
    import resource
    import tempfile

    for name, store in (("in memory", None), ("in a store", tempfile.mkdtemp() + "/memory.db")):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        kept = [lookback.Session(f"s{number}", store=store) for number in range(1_000)]
        for session in kept:
            session.push(conversation(40))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"  an open session of 40 messages, {name:22} {(peak - before) / len(kept):10.1f} KiB")


def imported() -> None:
    for name in ("lookback", "langchain.agents", "strands"):
        command = [sys.executable, "-c", f"import time; b = time.perf_counter(); import {name}; print(time.perf_counter() - b)"]
        seconds = [float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(5)]
        print(f"  import {name:45} {statistics.median(seconds) * 1e3:12,.1f} ms")


if __name__ == "__main__":
    memory()
    recorded()
    for length in (100, 1_000, 10_000, 100_000):
        beside(length)
    imported()
