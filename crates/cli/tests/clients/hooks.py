"""Agents with Lookback's hooks, and without a gateway: the agents talk to the stand-in themselves."""

import json
import subprocess
import time

from agents import FIRST, SECOND, claude_code_run, write
from lab import LONGEST, LOOKBACK, must, strings

RULE = "Never push to main, whatever the tests say."
# A result of many lines, which the agent itself does not cut.
COMMAND = "seq 1 4000"
WHOLE = "\n".join(map(str, range(1, 4001)))


def lookback(lab, *args):
    """Runs a command in the project, with the home of the agent."""
    env = {"HOME": str(lab.home), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([LOOKBACK, *args], capture_output=True, text=True, cwd=lab.work, env=env)
    must(done.returncode == 0, f"lookback {args} failed: {done.stdout}{done.stderr}")
    return done.stdout


def soon(found, what):
    """Waits for work in the background."""
    end = time.monotonic() + LONGEST
    while time.monotonic() < end:
        if result := found():
            return result
        time.sleep(0.1)
    must(False, what)


def sessions(lab):
    """The recorded conversations, each with its messages."""
    names = [json.loads(line)["session"] for line in lookback(lab, "sessions", "list", "--json", "--store", store(lab)).splitlines()]
    return {name: lookback(lab, "sessions", "export", name, "--store", store(lab)) for name in names if "/claude-code/" in name}


def store(lab):
    return str(lab.home / ".local/share/lookback/lookback.db")


def claude_code(lab):
    """Large results, a compaction by the client, and facts that come back after it."""
    run, env = claude_code_run(lab)
    env |= {"ANTHROPIC_BASE_URL": lab.stand_in.base, "ENABLE_TOOL_SEARCH": "false"}
    command = {"type": "command", "command": f"{LOOKBACK} hook claude-code"}
    events = ["PostToolUse", "UserPromptSubmit", "SessionStart", "PreCompact", "Stop", "SessionEnd"]
    write(lab.home / ".claude" / "settings.json", {"hooks": {event: [{"hooks": [command]}] for event in events}})
    server = {"command": LOOKBACK, "args": ["mcp", "--project"]}
    write(lab.work / "mcp.json", {"mcpServers": {"lookback": server}})
    run = [*run[:-1], "--mcp-config", str(lab.work / "mcp.json"), "-p"]
    lab.run([*run, f'CALL Bash {json.dumps({"command": COMMAND})}'], env)
    project = json.loads(lookback(lab, "forget", "--project", ".", "--json"))["project"]
    lookback(lab, "facts", "add", "--shared", "constraint", RULE, "--workspace", project, "--store", store(lab))
    lab.run([*run, FIRST, "--continue"], env)
    lab.run([*run, "/compact", "--continue"], env)
    lab.run([*run, SECOND, "--continue"], env)
    lab.run([*run, 'CALL mcp__lookback__recall {"entry": 1}', "--continue"], env)
    # After its summary, Claude Code sends thinking that was generated in a different context.
    refused = [rule for rule in lab.report()["refused"] if not rule.startswith("AM6")]
    must(not refused, f"requests broke rules: {refused}")
    log = [line for file in (lab.home / ".claude" / "projects").rglob("*.jsonl") for line in map(json.loads, open(file))]
    results = [text for line in log if line["type"] == "user" for text in strings(line["message"]["content"])]
    cut = [text for text in results if "lines cut; entry 1 of" in text]
    must(cut and not any(WHOLE in text for text in results), f"the result was not shortened: {[len(text) for text in results]}")
    must(any("| 1\n| 2\n" in text for text in results), "the model could not read the whole result")
    told = [at for at, line in enumerate(log) if line["type"] == "attachment" and RULE in str(line["attachment"].get("content"))]
    boundary = next(at for at, line in enumerate(log) if line.get("subtype") == "compact_boundary")
    must(len(told) == 2 and told[0] < boundary < told[1], f"the fact was told at {told}, and the compaction was at {boundary}")
    recorded = lambda: [text for text in sessions(lab).values() if json.dumps(WHOLE)[1:-1] in text and "steps up to 24" in text]
    soon(recorded, f"the conversation was not recorded with its whole result: {list(sessions(lab))}")
    found = lookback(lab, "sessions", "search", '"STEP 7 OF"', "--store", store(lab))
    must("/claude-code/" in found, f"step 7 is not found: {found}")
    lookback(lab, "forget", "--project", str(lab.work), "--yes")
    must(not sessions(lab), "a forgotten project has sessions")
    return f"{len(results)} results, {len(cut)} shortened, the facts told twice"


HOOKS = {"Claude Code, with hooks": claude_code}
