"""Tests the gateway's own calls with schemathesis: they do what the OpenAPI document says."""

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

from lab import LOOKBACK, Program, must

# Half of the calls name a session that exists. It is not deleted.
CONFIG = """
[dictionaries.sessions]
values = ["chat"]
[parameters]
"path.session" = { dictionary = "sessions", probability = 0.5 }
[[operations]]
include-name = "DELETE /lookback/v1/sessions/{session}"
parameters = { "path.session" = "gone" }
# A schema cannot say which bodies are requests of a provider, and LiteLLM gets an answer to anything.
[[operations]]
include-tag = "windows"
checks.positive_data_acceptance.enabled = false
checks.negative_data_rejection.enabled = false
"""


def keyed(lab):
    """A gateway with a key, in front of the stand-in."""
    made = subprocess.run([LOOKBACK, "serve", "--new-key", "ann"], capture_output=True, text=True, check=True)
    secret = re.search(r"lookback_[0-9a-f]+", made.stderr)[0]
    config = lab.folder / "gateway.toml"
    config.write_text(f'[[upstream]]\nurl = "{lab.stand_in.base}"\n{made.stdout}')
    command = [LOOKBACK, "serve", "--config", str(config), "--listen", "127.0.0.1:0", "--store", lab.store]
    return Program(command, str(lab.folder / "keyed.log")), secret


def post(gateway, secret, path, body):
    headers = {"content-type": "application/json", "x-lookback-key": secret, "x-lookback-session": "chat"}
    request = urllib.request.Request(gateway.base + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def use(lab):
    gateway, secret = keyed(lab)
    try:
        messages = []
        for turn in range(4):
            messages.append({"role": "user", "content": f"Question {turn}"})
            answer = post(gateway, secret, "/v1/chat/completions", {"model": "gpt-5", "messages": messages})
            messages.append(answer["choices"][0]["message"])
        for number in range(4):
            text = f"The port is {5050 + number}."
            post(gateway, secret, "/lookback/v1/sessions/chat/facts", {"kind": "finding", "text": text})
        (lab.work / "schemathesis.toml").write_text(CONFIG)
        program = Path(sys.executable).with_name("schemathesis")
        command = [str(program), "run", f"{gateway.base}/lookback/openapi.json", "--seed", "1"]
        said = lab.run([*command, "--no-color", "-H", f"x-lookback-key: {secret}"])
    finally:
        gateway.stop()
    log = Path(gateway.path).read_text()
    must("panicked" not in log and secret not in log, log)
    passed = re.search(r"(\d+) generated, (\d+) passed", said)
    must(passed and passed[1] == passed[2] and int(passed[1]) > 1000, said)
    return f"{passed[1]} calls to {re.search(r'Tested: (.*)', said)[1]} operations"
