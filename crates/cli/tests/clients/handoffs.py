"""Conversations that one coding agent begins and another one continues."""

import json
import os
import subprocess

import agents
from agents import FIRST, LAST, SECOND
from lab import LOOKBACK, must


def codex(lab):
    run, env = agents.codex_setup(lab)
    return [*run, FIRST], lambda name: [*run, "resume", name, SECOND], env


def claude_code(lab):
    run, env = agents.claude_code_run(lab)
    return [*run, FIRST], lambda name: [*run, SECOND, "--resume", name], env


def opencode(lab):
    run, env = agents.opencode_run(lab, "@ai-sdk/openai-compatible")
    return [*run, FIRST], lambda name: [*run, "--session", name, SECOND], env


def gemini(lab):
    run, env = agents.gemini_setup(lab)
    return [*run, "-p", FIRST], lambda name: [*run, "--resume", name, "-p", SECOND], env


def pi(lab):
    run, env = agents.pi_setup(lab, "openai-completions")
    return [*run, "-p", FIRST], lambda name: [*run, "--session", name, "-p", SECOND], env


def qwen(lab):
    run, env = agents.qwen_setup(lab)
    return [*run, "-p", FIRST], lambda name: [*run, "--resume", name, "-p", SECOND], env


AGENTS = {
    "Claude Code": claude_code, "Codex": codex, "opencode": opencode, "Gemini CLI": gemini, "pi": pi, "Qwen Code": qwen,
}


def continued(source, target):
    """Has one agent run the first steps, and the other one the rest in the same conversation."""

    def use(lab):
        lab.serve("--policy", "none")
        begin, _, env = AGENTS[source](lab)
        lab.run(begin, env)
        run = [LOOKBACK, "handoff", target, "--json"]
        done = subprocess.run(run, cwd=lab.work, capture_output=True, text=True, env=os.environ | {"HOME": str(lab.home)})
        must(done.returncode == 0, f"{run}: {done.stdout}{done.stderr}")
        handoff = json.loads(done.stdout)
        must(handoff["from"]["agent"] == source, handoff)
        must(not done.stderr, done.stderr)
        _, resume, env = AGENTS[target](lab)
        *imports, last = handoff["commands"]
        for command in imports:
            program = resume("")[0]
            lab.run([program, *command.split()[1:]], env)
        said = lab.run(resume(last.split()[-1]), env)
        must(LAST in said or target == "pi", said)
        return lab.check(24, cuts=0)

    return use


HANDOFFS = {
    f"{source} to {target}": continued(source, target)
    for source, target in [
        ("Claude Code", "Codex"),
        ("Codex", "Claude Code"),
        ("Claude Code", "opencode"),
        ("Codex", "opencode"),
        ("Claude Code", "pi"),
        ("Codex", "pi"),
        ("pi", "Gemini CLI"),
        ("opencode", "Qwen Code"),
    ]
}
