"""The benchmark of tasks: the same agent with a window and without one, through two gateways."""

import json
import subprocess
import sys
from pathlib import Path

from lab import LOOKBACK, PROJECT, must

SCRIPT = PROJECT / "bench" / "tasks.py"
AGENT = PROJECT / "crates" / "cli" / "tests" / "clients" / "sdk" / "openai_chat.py"

TASKS = """
agent = 'URL="$OPENAI_BASE_URL" {python} {agent} && echo "$TASK" > told'
upstream = "{upstream}"
prices = "openai"
minutes = 5

[[task]]
name = "one"
setup = "echo begun > state"
task = "Say so."
check = "test -e state && grep -q 'Say so' told"

[[task]]
name = "two"
task = "Nobody can."
check = "test -e state"
"""


def use(lab):
    tasks = Path(lab.folder) / "tasks.toml"
    tasks.write_text(TASKS.format(python=sys.executable, agent=AGENT, upstream=lab.stand_in.base))
    env = {"LOOKBACK": LOOKBACK}
    command = [sys.executable, str(SCRIPT), str(tasks), "--policy", str(Path(lab.folder) / "policy.toml")]
    results = [json.loads(line) for line in lab.run([*command, "--json"], env).splitlines()]
    must(len(results) == 4, results)
    for result in results:
        must(result["succeeded"] == (result["task"] == "one") and result["ended"], result)
        must(result["calls"] > 10 and (result["compactions"] > 0) == (result["policy"] != "none"), result)
    cost = {of: sum(result["cost"] for result in results if (result["policy"] == "none") == of) for of in [True, False]}
    must(0 < cost[False] < cost[True], cost)
    # A second time, nothing is run again.
    table = lab.run(command, env)
    must("only with a window 0, only without 0, neither 1" in table and "| `none` | 1 of 2 |" in table, table)
    told = refusal([*command[:2], str(tasks.with_name("none.toml"))], env)
    must("No such file" in told, told)
    tasks.write_text(TASKS.format(python="false", agent=AGENT, upstream=lab.stand_in.base))
    told = refusal([*command, "--results", str(tasks.with_suffix(".others"))], env)
    must("made no call through the gateway" in told, told)
    return f"4 runs, ${cost[False]:.4f} beside ${cost[True]:.4f}"


def refusal(command, env):
    """What a command says as it fails."""
    done = subprocess.run(command, env=env | {"PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
    must(done.returncode == 1, done)
    return done.stderr
