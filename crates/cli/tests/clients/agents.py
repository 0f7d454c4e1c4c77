"""The coding agents, each pointed at the gateway as its documentation says."""

import json
import sys
from pathlib import Path

from lab import PROJECT, NotInstalled, must, recipe, variables

BIN = PROJECT / ".npm" / "agents" / "node_modules"
FIRST = "Please run the steps 1 to 12, each with your shell."
SECOND = "Now run the steps 13 to 24, each with your shell."
# The model of the recipes.
MODEL = "gpt-5"
LAST = "All steps up to 24 are done."


def program(path):
    found = BIN / path
    if not found.exists():
        raise NotInstalled(path)
    return str(found)


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def faulty(use, faults):
    def with_faults(lab):
        lab.fail(faults)
        return use(lab, faults)

    return with_faults


def codex(lab, faults=""):
    said = codex_run(lab)
    must(LAST in said, said)
    return lab.check(24, faults=faults)


def codex_run(lab, settings=""):
    run, env = codex_setup(lab, settings)
    lab.run([*run, FIRST], env)
    return lab.run([*run, "resume", "--last", SECOND], env)


def codex_setup(lab, settings=""):
    home = lab.home / ".codex"
    more = 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\ncheck_for_update_on_startup = false\n'
    table = recipe("Codex", lab.base) + "stream_idle_timeout_ms = 10000\n"
    tables = f"{table}\n[analytics]\nenabled = false\n"
    # Keys that belong to no table must come before the first table.
    plain, of_table = ("", settings) if settings.startswith("[") else (settings, "")
    write(home / "config.toml", f'model = "m1"\n{more}{plain}{tables}{of_table}')
    return [program(".bin/codex"), "exec", "--skip-git-repo-check"], {"OPENAI_API_KEY": "x"}


def task_for(kind):
    return {"description": "Steps", "prompt": "Please run the steps 1 to 4, each with your shell.", "subagent_type": kind}


def delegated(lab, tool, task, run):
    """Has an agent delegate its steps to another one, and checks that each has its own session."""
    run(f"Delegate it: CALL {tool} {json.dumps(task)}")
    lab.gateway.stop()
    report, failed = lab.report(), [call for call in lab.calls() if call["status"] != 200]
    must(not report["refused"] and not failed, f"{report['refused']} {failed}")
    *others, (other, done) = lab.steps()
    must(sorted(done) == [1, 2, 3, 4], f"{other} has the steps {done}")
    mixed = [(name, steps) for name, steps in others if steps]
    must(others and not mixed, f"steps of the other agent are in {mixed or 'no session of its own'}")
    return f"the other agent is {other}, beside {', '.join(name for name, _ in others)}"


def codex_compacts(lab):
    lab.serve()
    # This has room for the prompt and twelve steps, but not for many more.
    more = "model_context_window = 25000\nmodel_auto_compact_token_limit = 19000\n"
    said = codex_run(lab, more)
    must(LAST in said, said)
    return lab.check_compaction(24)


def codex_delegates(lab):
    run, env = codex_setup(lab, "[features]\nmulti_agent = true\n")
    task = {"message": "Please run the steps 1 to 4, each with your shell.", "agent_type": "default"}
    return delegated(lab, "spawn_agent", task, lambda prompt: lab.run([*run, prompt], env))


def claude_code(lab):
    run, env = claude_code_run(lab)
    lab.run([*run, FIRST], env)
    said = lab.run([*run, SECOND, "--continue"], env)
    must(LAST in said, said)
    # Its thinking is signed, so a tool loop is cut only after it has ended.
    return lab.check(24, cuts=1)


def claude_code_compacts(lab):
    lab.serve()
    run, env = claude_code_run(lab)
    lab.run([*run, FIRST], env)
    lab.run([*run, "/compact", "--continue"], env)
    said = lab.run([*run, SECOND, "--continue"], env)
    must(LAST in said, said)
    # After its summary, it sends thinking that was generated in a different context.
    return lab.check_compaction(24, mended="AM6")


def claude_code_loads(lab):
    """Has Claude Code load one of forty tools, and call it when the window has been cut several times."""
    run, env = claude_code_run(lab)
    server = {"command": sys.executable, "args": [str(Path(__file__).with_name("many_tools.py"))]}
    write(lab.work / "mcp.json", {"mcpServers": {"many": server}})
    run = [*run[:-1], "--mcp-config", str(lab.work / "mcp.json"), "-p"]
    tool = "mcp__many__tool_7"
    lab.run([*run, f'CALL ToolSearch {{"query":"select:{tool}","max_results":1}}'], env)
    for prompt in [FIRST, SECOND]:
        lab.run([*run, prompt, "--continue"], env)
    lab.run([*run, f'CALL {tool} {{"text":"heron"}}', "--continue"], env)
    lab.gateway.stop()
    report, calls = lab.report(), lab.calls()
    # Claude Code changes its list of tools when it continues, which the gateway repairs.
    refused = [rule for rule in report["refused"] if not rule.startswith("AM6")]
    failed = [call for call in calls if call["status"] != 200]
    must(not refused and not failed, f"{refused} {failed}")
    session, _ = lab.steps()[-1]
    cuts = [call for call in calls if call.get("session") == session and "compacted" in call]
    must(len(cuts) >= 2, f"the window was cut {len(cuts)} times: {calls}")
    window = json.loads(lab.lookback("sessions", "window", session))
    loads = [tool for message in window for tool in references(message)]
    must(tool in loads, f"the window has loaded {loads}")
    must("tool_7 says heron" in lab.lookback("sessions", "export", session), "the loaded tool was not called")
    return f"{len(calls)} calls, {len(cuts)} compactions, {len(loads)} loaded"


def references(value):
    """The tools that the blocks of a message load."""
    if isinstance(value, dict):
        if value.get("type") == "tool_reference":
            yield value["tool_name"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def claude_code_delegates(lab):
    run, env = claude_code_run(lab)
    return delegated(lab, "Agent", task_for("general-purpose"), lambda prompt: lab.run([*run, prompt], env))


def claude_code_run(lab):
    env = variables("Claude Code", lab.base) | {
        "ANTHROPIC_API_KEY": "x", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "IS_SANDBOX": "1",
    }
    return [program("@anthropic-ai/claude-code-linux-x64/claude"), "--dangerously-skip-permissions", "-p"], env


def opencode(package):
    def use(lab):
        run, env = opencode_run(lab, package)
        lab.run([*run, FIRST], env)
        said = lab.run([*run, "--continue", SECOND], env)
        must(LAST in said, said)
        return lab.check(24)

    return use


def opencode_compacts(lab):
    lab.serve()
    run, env = opencode_run(lab, "@ai-sdk/openai-compatible", {"context": 24_000, "output": 4_000})
    lab.run([*run, FIRST], env)
    said = lab.run([*run, "--continue", SECOND], env)
    must(LAST in said, said)
    return lab.check_compaction(24)


def opencode_delegates(lab):
    run, env = opencode_run(lab, "@ai-sdk/openai-compatible")
    return delegated(lab, "task", task_for("general"), lambda prompt: lab.run([*run, prompt], env))


def opencode_run(lab, package, limit=None):
    config = json.loads(recipe("opencode", lab.base))
    if limit:
        config["provider"]["lookback"]["models"][MODEL]["limit"] = limit
    config["provider"]["lookback"]["npm"] = package
    model = f"lookback/{MODEL}"
    config |= {"model": model, "small_model": model, "permission": "allow", "autoupdate": False}
    write(lab.work / "opencode.json", config)
    env = {"OPENAI_API_KEY": "x", "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return [program("opencode-linux-x64/bin/opencode"), "run", "--model", model], env


def gemini(lab):
    said = gemini_run(lab)
    must(LAST in said, said)
    return lab.check(24)


def gemini_compacts(lab):
    lab.serve()
    # Of a million tokens, this leaves room for the prompt and half of the steps.
    said = gemini_run(lab, {"model": {"compressionThreshold": 0.02}})
    must(LAST in said, said)
    # When it resumes a session, it has each result twice.
    return lab.check_compaction(24, mended="GM2")


def gemini_run(lab, more=None):
    run, env = gemini_setup(lab, more)
    lab.run([*run, "-p", FIRST], env)
    return lab.run([*run, "--resume", "latest", "-p", SECOND], env)


def gemini_setup(lab, more=None):
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False}, "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
    } | (more or {})
    write(lab.home / ".gemini" / "settings.json", settings)
    env = variables("Gemini CLI", lab.base) | {"GEMINI_API_KEY": "x", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return [program(".bin/gemini"), "-y", "-m", "gemini-3-pro-preview"], env


def pi(api):
    def use(lab, faults=""):
        said = pi_run(lab, api)
        must(LAST in said, said)
        return lab.check(24, faults=faults)

    return use


def pi_compacts(api):
    def use(lab):
        lab.serve()
        write(lab.home / ".pi" / "agent" / "settings.json", {"compaction": {"reserveTokens": 2000, "keepRecentTokens": 4000}})
        # It compacts at the end of a run, and then prints nothing.
        pi_run(lab, api, 12_000)
        return lab.check_compaction(24)

    return use


def pi_run(lab, api, window=None):
    run, env = pi_setup(lab, api, window)
    lab.run([*run, "-p", FIRST], env)
    return lab.run([*run, "--continue", "-p", SECOND], env)


def pi_setup(lab, api, window=None):
    config = json.loads(recipe("pi", lab.base))
    provider = config["providers"]["lookback"]
    provider["api"] = api
    if window:
        provider["models"][0]["contextWindow"] = window
    if api == "anthropic-messages":
        provider["baseUrl"] = provider["baseUrl"].removesuffix("/v1")
    write(lab.home / ".pi" / "agent" / "models.json", config)
    env = {"PI_OFFLINE": "1", "OPENAI_API_KEY": "x"}
    return [program(".bin/pi"), "--provider", "lookback", "--model", MODEL], env


def qwen(lab):
    said = qwen_run(lab)
    must(LAST in said, said)
    return lab.check(24)


def qwen_compacts(lab):
    lab.serve()
    said = qwen_run(lab, {"model": {"chatCompression": {"contextPercentageThreshold": 0.15}}})
    must(LAST in said, said)
    return lab.check_compaction(24)


def qwen_run(lab, more=None):
    run, env = qwen_setup(lab, more)
    lab.run([*run, "-p", FIRST], env)
    return lab.run([*run, "--continue", "-p", SECOND], env)


def qwen_setup(lab, more=None):
    settings = {
        "security": {"auth": {"selectedType": "openai"}}, "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False}, "general": {"disableAutoUpdate": True},
    } | (more or {})
    write(lab.home / ".qwen" / "settings.json", settings)
    env = variables("Qwen Code", lab.base) | {"OPENAI_API_KEY": "x", "OPENAI_MODEL": "m1"}
    return [program(".bin/qwen"), "-y"], env


AGENTS = {
    "Claude Code": claude_code,
    "Claude Code, with a sub-agent": claude_code_delegates,
    "Claude Code, compacting": claude_code_compacts,
    "Claude Code, with loaded tools": claude_code_loads,
    "Codex": codex,
    "Codex, with faults": faulty(codex, "ok,cut,ok,busy,ok,too-long,500"),
    "Codex, with a stall": faulty(codex, "ok,stall,ok,slow,ok,wait,malformed"),
    "Codex, with a sub-agent": codex_delegates,
    "Codex, compacting": codex_compacts,
    "opencode, OpenAI Chat": opencode("@ai-sdk/openai-compatible"),
    "opencode, OpenAI Responses": opencode("@ai-sdk/openai"),
    "opencode, Anthropic": opencode("@ai-sdk/anthropic"),
    "opencode, with a sub-agent": opencode_delegates,
    "opencode, compacting": opencode_compacts,
    "Gemini CLI": gemini,
    "Gemini CLI, compacting": gemini_compacts,
    "pi, OpenAI Chat": pi("openai-completions"),
    "pi, OpenAI Responses": pi("openai-responses"),
    "pi, Anthropic": pi("anthropic-messages"),
    "pi, OpenAI Chat, compacting": pi_compacts("openai-completions"),
    "pi, Anthropic, compacting": pi_compacts("anthropic-messages"),
    "pi, Anthropic, with faults": faulty(pi("anthropic-messages"), "ok,cut,ok,529,too-long,ok,busy"),
    "Qwen Code": qwen,
    "Qwen Code, compacting": qwen_compacts,
}
