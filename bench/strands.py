#!/usr/bin/env python3
"""Measures a push into the original sliding window of Strands: append one message, then apply_management.

    python3 -m venv bench/.venv && bench/.venv/bin/pip install strands-agents==1.62.0
    bench/.venv/bin/python bench/strands.py [MESSAGES ...]

Prints one JSON object per line: the mean time of a push in nanoseconds, as the median over several runs. Each length
of conversation is measured with the default window of 40, and with a window that holds all messages, which measures
only the append.
"""

import json
import statistics
import sys
import time
from importlib.metadata import version
from types import SimpleNamespace

sys.path.pop(0)  # Without this file's folder in the path, `strands` is the library and not this file.
from strands.agent.conversation_manager import SlidingWindowConversationManager  # noqa: E402

RUNS = 7
TAKEN = {"role": "user", "content": [{"text": "the quick brown fox jumps over the lazy dog, and then once more"}]}
GIVEN = {"role": "assistant", "content": [{"text": "so it did, and the dog has not so much as opened one of its eyes"}]}


def push(messages, window):
    """Returns the nanoseconds of one push, over a conversation of `messages` messages."""
    agent = SimpleNamespace(messages=[])
    manager = SlidingWindowConversationManager(window_size=window)
    begun = time.perf_counter_ns()
    for index in range(messages):
        turn = GIVEN if index % 2 else TAKEN
        agent.messages.append({"role": turn["role"], "content": list(turn["content"])})
        manager.apply_management(agent)
    return (time.perf_counter_ns() - begun) / messages


def main():
    sizes = [int(size) for size in sys.argv[1:]] or [100, 1_000, 10_000, 100_000]
    for messages in sizes:
        for window in (40, messages):
            push(min(messages, 1_000), window)
            costs = [push(messages, window) for _ in range(RUNS)]
            print(json.dumps({
                "system": f"strands-agents {version('strands-agents')}",
                "messages": messages,
                "window": window,
                "runs": RUNS,
                "push_ns": round(statistics.median(costs)),
            }), flush=True)


if __name__ == "__main__":
    main()
