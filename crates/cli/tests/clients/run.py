"""Uses the gateway as its users do: with unmodified SDKs and coding agents, in front of a stand-in for their providers.

    .venv/bin/python crates/cli/tests/clients/run.py [NAME]...

Each client runs in a network namespace that has only the loopback interface. It follows a script of many steps, so that
its window is cut several times. Prints a line for each client, and counts those that could not run.
"""

import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path

import kills
import rest
import tasks
import telemetry
from agents import AGENTS
from handoffs import HANDOFFS
from hooks import HOOKS
from lab import PROJECT, NotInstalled, Wrong, address, in_lab, must, packets_out
from litellm_proxy import proxied

HERE = Path(__file__).resolve().parent
# In seconds. A client takes 5 to 30, and several times as long on a busy machine.
LONGEST = 900
NPM = PROJECT / ".npm" / "sdks"


def python(call, script, *args, faults=""):
    """A client that uses a library, which this call creates."""

    def use(lab):
        quiet = {"URL": address(call, lab.base), "OPENAI_AGENTS_DISABLE_TRACING": "1", "LANGSMITH_TRACING": "false"}
        lab.fail(faults)
        lab.run([sys.executable, str(HERE / "sdk" / script), *args], quiet)
        return lab.check(24, faults=faults)

    return use


def node(call, script, *args):
    def use(lab):
        must_have(NPM / "node_modules")
        lab.run(["node", str(HERE / "sdk" / script), *args], {"NPM": str(NPM), "URL": address(call, lab.base)})
        return lab.check(24)

    return use


def must_have(path):
    if not path.exists():
        raise NotInstalled(path)


CLIENTS = {
    "openai (Python), Chat Completions": python("OpenAI", "openai_chat.py"),
    "openai (Python), Responses": python("OpenAI", "openai_responses.py"),
    "anthropic (Python)": python("Anthropic", "anthropic_messages.py"),
    "anthropic (Python), Vertex AI": python("AnthropicVertex", "anthropic_messages.py", "vertex"),
    "anthropic (Python), Bedrock": python("AnthropicBedrockMantle", "anthropic_messages.py", "bedrock"),
    "google-genai (Python)": python("genai.Client", "gemini.py"),
    "OpenAI Agents SDK (Python)": python("OpenAIResponsesModel", "openai_agents.py"),
    "LangChain (Python), OpenAI": python("ChatOpenAI", "langchain_agent.py", "openai"),
    "LangChain (Python), Anthropic": python("ChatAnthropic", "langchain_agent.py", "anthropic"),
    "openai (Python), with faults": python("OpenAI", "openai_chat.py", faults="busy,ok,500,ok,too-long,ok,short,529"),
    "anthropic (Python), with faults": python("Anthropic", "anthropic_messages.py", faults="529,ok,busy" + ",ok" * 14 + ",too-long,ok,500"),
    "openai (JavaScript), Chat Completions": node("new OpenAI", "openai.mjs", "chat"),
    "openai (JavaScript), Responses": node("new OpenAI", "openai.mjs", "responses"),
    "@anthropic-ai/sdk (JavaScript)": node("new Anthropic", "anthropic.mjs"),
    "@google/genai (JavaScript)": node("new GoogleGenAI", "genai.mjs"),
    "Vercel AI SDK, OpenAI Chat": node("createOpenAI", "ai.mjs", "chat"),
    "Vercel AI SDK, OpenAI Responses": node("createOpenAI", "ai.mjs", "responses"),
    "Vercel AI SDK, Anthropic": node("createAnthropic", "ai.mjs", "anthropic"),
    "Vercel AI SDK, Google": node("createGoogleGenerativeAI", "ai.mjs", "google"),
    "LiteLLM, with openai (Python)": proxied("openai_chat.py", "/v1"),
    "LiteLLM, with anthropic (Python)": proxied("anthropic_messages.py", ""),
    "schemathesis": rest.use,
    "kill -9 under load": kills.use,
    "OpenTelemetry": telemetry.use,
    "the benchmark of tasks": tasks.use,
} | AGENTS | HANDOFFS | HOOKS


def with_log(name, lab):
    """Runs one client. A coding agent keeps a log of its own."""
    said = CLIENTS[name](lab)
    return f"{said}; {lab.check_log(name.split(',')[0])}" if name in AGENTS else said


def inside(name):
    """Runs one client. The network has only the loopback interface."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    before = packets_out()
    said = in_lab(lambda lab: with_log(name, lab))
    tried = packets_out() - before
    # The agents look for updates and more, whatever their settings. Here they reach no server.
    must(tried == 0 or name in AGENTS | HANDOFFS | HOOKS, f"{tried} packets wanted to leave the machine")
    print(f"{said}; {tried} packets for elsewhere went nowhere" if tried else said)


def run(command):
    """Runs a client. If it takes too long, it is killed with all processes that it has started."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=LONGEST)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return 1, f"{said}\nit did not end within {LONGEST} seconds"


def main(names):
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode != 0:
        print("skipped: this machine lets nobody make a network namespace, so the clients could reach their makers")
        return 0
    ran, failed, skipped = 0, [], []
    for name in CLIENTS:
        if names and not any(wanted in name for wanted in names):
            continue
        command = ["unshare", "-n", sys.executable, str(HERE / "run.py"), "--inside", name]
        status, said = run(command)
        ran += status != 77
        last = said.strip().splitlines()[-1:] or ["nothing"]
        if status == 0:
            print(f"ok       {name}: {last[0]}", flush=True)
        elif status == 77:
            skipped.append(name)
            print(f"skipped  {name}: {last[0]}", flush=True)
        else:
            failed.append(name)
            print(f"FAILED   {name}\n{said}", flush=True)
    print(f"{ran} ran, {len(failed)} failed, {len(skipped)} skipped: {', '.join(skipped) or 'none'}")
    return 1 if failed or ran == 0 else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        try:
            inside(sys.argv[2])
        except NotInstalled as missing:
            print(f"not installed: {missing}")
            sys.exit(77)
        except Wrong:
            traceback.print_exc()
            sys.exit(1)
    else:
        sys.exit(main(sys.argv[1:]))
