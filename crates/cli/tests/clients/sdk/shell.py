"""The tool of all clients here, which runs a command."""

import subprocess

FIRST = "Please run the steps 1 to 12, each with the tool."
SECOND = "Now run the steps 13 to 24, each with the tool."
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


def run(command):
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    return done.stdout
