#!/usr/bin/env python3
"""Runs an agent on tasks of your own, with a window and without one, and compares successes, calls and costs.

    python3 bench/tasks.py TASKS.toml [--policy POLICY] [--times N] [--results FILE] [--json]

Each run has an empty folder, a gateway of its own (`lookback serve`, from `LOOKBACK` or the PATH) and an empty store. The
file of tasks has these keys:

    agent = 'claude -p "$TASK" --permission-mode acceptEdits'   # a shell command
    upstream = "https://api.anthropic.com"                      # for `lookback serve`
    prices = "anthropic-5m"                                     # for `lookback sessions calls`
    minutes = 30                                                # the longest run of the agent

    [[task]]
    name = "comments"
    setup = "git clone -q ~/parser . && git checkout -q 1a2b3c"  # optional
    task = "The test `comments` fails. Mend the parser."
    check = "cargo test -q comments"                            # succeeds if the task is done

The agent finds the gateway in ANTHROPIC_BASE_URL, OPENAI_BASE_URL, OPENAI_API_BASE, GOOGLE_GEMINI_BASE_URL and
LOOKBACK_BASE_URL, and its task in TASK. It has your environment otherwise, and so your keys: run only tasks that you
trust. Every run is written to the file of results as it ends, and is not repeated until its task, its policy or the
agent changes.

Costs are estimated from the usage that the provider reported. An agent does not do the same twice, so compare many
tasks, or the same with `--times`.
"""

import argparse
import contextlib
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

WITHOUT = "none"
# How long the gateway may take to start, in seconds.
START = 60
SAMPLES = 2_000
# An interval needs at least so many tasks.
FEW = 5


class Failed(Exception):
    """A run that could not be made, with the reason."""


def shell(command, folder, env, seconds):
    """Runs a command, and ends all that it has started. Returns whether it succeeded, and the end of what it printed."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            ["sh", "-c", command], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False, f"it did not end within {seconds:.0f} seconds"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        out.seek(max(0, out.seek(0, os.SEEK_END) - 2_000))
        return status == 0, out.read().decode(errors="replace")


class Gateway:
    def __init__(self, folder, upstream, policy):
        self.store, self.log = str(folder / "store.db"), folder / "gateway.log"
        command = [LOOKBACK, "serve", "--upstream", upstream, "--policy", policy, "--listen", "127.0.0.1:0"]
        with self.log.open("w") as log:
            self.process = started([*command, "--log", "failures", "--store", self.store], stderr=log)
        end = time.monotonic() + START
        while not (found := re.match(r"listening on (http://\S+)\n", self.log.read_text())):
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise Failed(f"the gateway does not start: {self.log.read_text().strip()}")
            time.sleep(0.05)
        self.base = found[1]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(START)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def totals(self, prices):
        """The sums over the sessions of the store."""
        sums = {"calls": 0, "sent_tokens": 0, "output_tokens": 0, "compactions": 0, "cost": 0.0}
        for line in lookback("sessions", "list", "--json", "--store", self.store):
            name = json.loads(line)["session"]
            total = json.loads(lookback("sessions", "calls", name, "--json", "--prices", prices, "--store", self.store)[-1])
            sums = {key: value + total[key] for key, value in sums.items()}
        return sums


def lookback(*arguments):
    process = started([LOOKBACK, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said, complaint = process.communicate()
    if process.returncode != 0:
        raise Failed(complaint.strip())
    return said.splitlines()


def started(command, **options):
    try:
        return subprocess.Popen(command, **options)
    except OSError as error:
        raise Failed(f"cannot run {command[0]}: {error}; set LOOKBACK") from None


def run(tasks, task, policy):
    """Runs the agent once on a task, and returns what came of it."""
    # What a run cost is worth more than an empty folder.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        folder = Path(folder)
        work = folder / "work"
        work.mkdir()
        seconds = 60 * tasks.get("minutes", 30)
        own = os.environ | {"TASK": task["task"]}
        done, said = shell(task.get("setup", "true"), work, own, seconds)
        if not done:
            raise Failed(f"the setup of {task['name']} fails: {said.strip()}")
        gateway = Gateway(folder, tasks["upstream"], policy)
        try:
            base = gateway.base
            env = own | {"ANTHROPIC_BASE_URL": base, "GOOGLE_GEMINI_BASE_URL": base, "LOOKBACK_BASE_URL": base}
            env |= {"OPENAI_BASE_URL": f"{base}/v1", "OPENAI_API_BASE": f"{base}/v1"}
            start = time.monotonic()
            ended, said = shell(tasks["agent"], work, env, seconds)
            minutes = (time.monotonic() - start) / 60
        finally:
            gateway.stop()
        succeeded, _ = shell(task["check"], work, own, seconds)
        totals = gateway.totals(tasks.get("prices", "anthropic-5m"))
        if totals["calls"] == 0:
            raise Failed(f"the agent made no call through the gateway in {task['name']}: {said.strip()}")
        return {"succeeded": succeeded, "ended": ended, "minutes": round(minutes, 2), **totals}


def read(path):
    """Reads the file of tasks."""
    try:
        tasks = tomllib.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise Failed(f"{path}: {error}") from None
    for holder, keys in [(tasks, ["agent", "upstream", "task"]), *((task, ["name", "task", "check"]) for task in tasks.get("task", []))]:
        missing = [key for key in keys if not holder.get(key)]
        if missing:
            raise Failed(f"{path}: {holder.get('name', 'the file')} has no {missing[0]}")
    names = [task["name"] for task in tasks["task"]]
    if len(set(names)) < len(names):
        raise Failed(f"{path}: two tasks have the same name")
    return tasks


def ratio(tasks):
    """The ratio of the costs of tasks with a window and without, each a list of pairs."""
    pairs = [pair for pairs in tasks for pair in pairs]
    return sum(a for a, _ in pairs) / (sum(b for _, b in pairs) or 1)


def interval(tasks):
    """Between which ratios 95 % of samples of the tasks are."""
    chance = random.Random(1)
    samples = sorted(ratio(chance.choices(tasks, k=len(tasks))) for _ in range(SAMPLES))
    return samples[SAMPLES // 40], samples[-1 - SAMPLES // 40]


def digest(tasks, task, policy):
    """What a run depends on. After a change of it, the run is repeated."""
    contents = Path(policy).read_text() if Path(policy).is_file() else policy
    text = json.dumps([tasks["agent"], tasks["upstream"], task, contents], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def report(results, policy):
    """Prints the table, and compares the two runs of each task."""
    print("| windows | succeeded | calls | sent tokens | cuts | cost | minutes |\n|---|---|---|---|---|---|---|")
    for windows in [policy, WITHOUT]:
        own = [result for result in results if result["policy"] == windows]
        total = lambda key: sum(result[key] for result in own)
        print(
            f"| `{windows}` | {total('succeeded')} of {len(own)} | {total('calls')} | {total('sent_tokens'):,} | "
            f"{total('compactions')} | ${total('cost'):.2f} | {total('minutes'):.0f} |"
        )
    runs = {(result["task"], result["time"], result["policy"]): result for result in results}
    pairs = [(runs[(task, time, policy)], other) for (task, time, of), other in runs.items() if of == WITHOUT and (task, time, policy) in runs]
    if not pairs:
        return
    count = lambda a, b: sum(1 for one, other in pairs if (one["succeeded"], other["succeeded"]) == (a, b))
    print(f"\nBoth succeeded {count(True, True)} times, only with a window {count(True, False)}, only without {count(False, True)}, neither {count(False, False)}.")
    costs = {}
    for one, other in pairs:
        costs.setdefault(one["task"], []).append((one["cost"], other["cost"]))
    costs = list(costs.values())
    low, high = interval(costs)
    within = f" ({low:.2f} to {high:.2f} in 95 % of samples of the tasks)" if len(costs) >= FEW else ""
    print(f"The cost with a window is {ratio(costs):.2f} of that without{within}.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", help="the file of tasks")
    parser.add_argument("--policy", default="default", help="the policy of the windows (default: default)")
    parser.add_argument("--times", type=int, default=1, help="how often each task is run")
    parser.add_argument("--results", help="the file of results (default: the file of tasks, with .results.jsonl)")
    parser.add_argument("--json", action="store_true", help="print the results as lines of JSON in place of the table")
    arguments = parser.parse_args()
    try:
        tasks = read(arguments.tasks)
        path = Path(arguments.results or f"{arguments.tasks}.results.jsonl")
        results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        policies = [arguments.policy, WITHOUT]
        if arguments.policy == WITHOUT:
            raise Failed("the policy `none` makes no window; name another")
        wanted = {(task["name"], policy): digest(tasks, task, policy) for task in tasks["task"] for policy in policies}
        results = [result for result in results if wanted.get((result["task"], result["policy"])) == result["digest"]]
        known = {(result["task"], result["time"], result["policy"]) for result in results}
        for number in range(1, arguments.times + 1):
            for place, task in enumerate(tasks["task"]):
                # Neither is always the first, because providers are slower at some times than at others.
                for policy in policies if (place + number) % 2 else reversed(policies):
                    if (task["name"], number, policy) in known:
                        continue
                    print(f"{task['name']}, {policy}", file=sys.stderr)
                    result = {"task": task["name"], "time": number, "policy": policy}
                    result |= {"digest": wanted[(task["name"], policy)], **run(tasks, task, policy)}
                    results.append(result)
                    with path.open("a") as file:
                        file.write(json.dumps(result) + "\n")
        if arguments.json:
            for result in results:
                print(json.dumps(result))
        else:
            report(results, arguments.policy)
    except Failed as failed:
        sys.exit(f"error: {failed}")
    except KeyboardInterrupt:
        sys.exit(130)


LOOKBACK = os.environ.get("LOOKBACK", "lookback")

if __name__ == "__main__":
    main()
