"""What a program must survive: a full disk, many threads, signals, and texts of any size."""

import gc
import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import lookback

FULL = """
import resource, signal, sys, lookback
# Writes beyond the limit fail, as on a full disk.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
session = lookback.Session("s", store=sys.argv[1])
acknowledged = 0
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
try:
    for number in range(1000):
        session.push({"role": "user", "content": f"{number} " * 2000})
        acknowledged += 1
except lookback.StoreError as error:
    print(type(error).__name__, acknowledged)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    session.push({"role": "user", "content": "There is room again."})
    print(len(session.messages()))
"""


@pytest.mark.parametrize("store", ["memory.db", "files/"])
def test_a_full_disk_is_told_and_loses_nothing_that_was_acknowledged(store: str, tmp_path: Path) -> None:
    # Unlike `Path`, a string keeps the slash at its end.
    place = f"{tmp_path}/{store}"
    done = subprocess.run([sys.executable, "-c", FULL, place], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told, after = done.stdout.splitlines()
    acknowledged = int(told.removeprefix("StoreError "))
    assert acknowledged > 3 and int(after) == acknowledged + 1
    said = lookback.Session("s", store=place).messages()
    texts = [message["content"] for message in said]
    assert texts == [f"{number} " * 2000 for number in range(acknowledged)] + ["There is room again."]


@pytest.mark.parametrize("store", [None, "memory.db"])
def test_many_threads_lose_nothing(store: "str | None", tmp_path: Path) -> None:
    session = lookback.Session("s", store=store and tmp_path / store)

    def work(number: int) -> None:
        for step in range(10):
            session.push({"role": "user", "content": f"{number}.{step}"})
            assert session.window().messages and session.search(str(number)) is not None

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    said: list[Any] = session.messages()
    assert sorted(message["content"] for message in said) == sorted(f"{n}.{s}" for n in range(8) for s in range(10))


def test_a_message_of_any_size_is_a_message() -> None:
    session = lookback.Session("s")
    session.push({"role": "user", "content": "word " * 400_000})
    window = session.window()
    assert window.tokens > 300_000 and len(window.json) > 2_000_000


def test_what_is_open_cannot_be_pickled() -> None:
    import pickle

    for value in (lookback.Session("s"), lookback.Memory("s"), lookback.Policy()):
        with pytest.raises(TypeError):
            pickle.dumps(value)


def test_a_hook_may_use_its_session() -> None:
    seen: list[int] = []

    def told(_: object) -> None:
        seen.append(len(session.messages()))

    session = lookback.Session("s", policy="messages:max_messages=4", on_compact_end=told)
    for number in range(6):
        session.push([{"role": "user", "content": f"{number}?"}, {"role": "assistant", "content": "Yes."}])
        session.window()
    assert seen and seen[-1] > 4, seen


INTERRUPTED = """
import os, signal, sys, threading, time, traceback, lookback
# A background process of a shell ignores this signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
session = lookback.Session("s", policy="rolling-summary:window_size=4", summarizer=lambda ask: time.sleep(600))
for number in range(8):
    session.push([{"role": "user", "content": f"{number}?"}, {"role": "assistant", "content": "Yes."}])
    session.window()
def wait():
    session.wait_for_summary()
def interrupt():
    main = threading.main_thread().ident
    # A function in `threading` has the same name.
    def waits(frame):
        return frame.name == "wait" and frame.filename == "<string>"
    while not any(waits(frame) for frame in traceback.extract_stack(sys._current_frames()[main])):
        time.sleep(0.01)
    # Waits until the call has begun, because the signal must not arrive before it.
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    wait()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    os._exit(0)
"""


def test_waiting_for_a_summary_can_be_interrupted() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=300)
    assert done.stdout == "interrupted\n", done.stderr


class Agent:
    """An agent that writes the summaries of its own session."""

    def __init__(self) -> None:
        self.session = lookback.Session("s", summarizer=self.write, on_compact_end=self.tell)

    def write(self, ask: lookback.Ask) -> str:
        return ask.prompt[:20]

    def tell(self, event: object) -> None:
        pass


def test_a_session_in_a_cycle_with_its_functions_is_freed() -> None:
    agents = [weakref.ref(Agent()) for _ in range(5)]
    gc.collect()
    assert [agent() for agent in agents] == [None] * 5


FORK = """
import os, sys, lookback
session = lookback.Session("s", store=sys.argv[1])
in_memory = lookback.Session("s")
child = os.fork()
if child == 0:
    for call in (session.messages, in_memory.messages, lambda: lookback.Session("s", store=sys.argv[1])):
        try:
            call()
        except lookback.LookbackError as error:
            print(error, flush=True)
    print(lookback.Session("s").messages(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_process_that_was_forked_opens_no_store_again(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FORK, tmp_path / "m.db"], capture_output=True, text=True, timeout=300)
    stored, in_memory, opened, own = done.stdout.splitlines()
    assert stored == in_memory and "before the process was forked" in stored
    assert "spawn" in opened and own == "[]"
