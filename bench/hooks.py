"""How long an agent waits for a hook: from the start of `lookback hook` to its end.

    cargo build --release -p lookback-cli
    python3 bench/hooks.py target/release/lookback

Prints the median and the 99th percentile in milliseconds, beside those of a program that does nothing.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def event(project, name, **members):
    common = {"session_id": "s", "transcript_path": str(project / "log.jsonl"), "cwd": str(project)}
    return json.dumps(common | {"hook_event_name": name} | members).encode()


def result(project, kilobytes):
    line = "src/main_{0}.rs:{1}: does something to the kettle\n"
    output = "".join(line.format(number % 97, number) for number in range(kilobytes * 20))
    call = {"tool_name": "Bash", "tool_use_id": "t", "tool_input": {"command": "make"}}
    return event(project, "PostToolUse", **call, tool_response={"stdout": output, "stderr": ""})


def measure(name, command, stdin, home, times=300):
    taken = []
    for _ in range(times):
        begun = time.perf_counter()
        subprocess.run(command, input=stdin, capture_output=True, check=True, env={"HOME": home})
        taken.append((time.perf_counter() - begun) * 1000)
    taken.sort()
    print(f"{name:28} {taken[times // 2]:6.1f} {taken[times * 99 // 100]:6.1f}")


def main(program):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home, project = str(Path(folder, "home")), Path(folder, "kettle")
        project.mkdir()
        hook = [str(Path(program).resolve()), "hook", "claude-code"]
        print(f"{'':28} {'p50':>6} {'p99':>6}")
        measure("nothing (/bin/true)", ["/bin/true"], b"", home)
        for kilobytes in [1, 30, 100, 1_000]:
            measure(f"a result of {kilobytes:,} kB", hook, result(project, kilobytes), home, 300 if kilobytes < 1_000 else 30)
        measure("the person asks", hook, event(project, "UserPromptSubmit", prompt="Go on."), home)
        measure("the history was compacted", hook, event(project, "SessionStart", source="compact"), home)
        measure("the agent stops", hook, event(project, "Stop"), home)


if __name__ == "__main__":
    main(sys.argv[1])
