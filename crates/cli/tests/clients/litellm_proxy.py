"""The proxy LiteLLM, which asks the gateway for the window of each request, and sends it itself."""

import http.server
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from lab import LONGEST, PROJECT, NotInstalled, Wrong, must

LITELLM = PROJECT / ".litellm" / "bin" / "litellm"
SDK = Path(__file__).resolve().parent / "sdk"

CONFIG = """
model_list:
  - model_name: m1
    litellm_params: {{model: openai/m1, api_base: "{relay}/v1", api_key: k}}
  - model_name: claude-opus-4-6
    litellm_params: {{model: anthropic/claude-opus-4-6, api_base: "{relay}", api_key: k}}
guardrails:
  - guardrail_name: lookback
    litellm_params:
      guardrail: generic_guardrail_api
      mode: pre_call
      api_base: {base}/lookback/v1
      default_on: true
      fail_on_error: false
"""


class Relay(http.server.ThreadingHTTPServer):
    """Passes requests on to the stand-in, and notes their lengths in bytes."""

    def __init__(self, upstream):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream, self.lengths = upstream, []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.lengths.append(len(body))
        kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "accept-encoding")}
        request = urllib.request.Request(self.server.upstream + self.path, body, kept)
        try:
            answer = urllib.request.urlopen(request, timeout=LONGEST)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            data = answer.read()
        self.send_response(answer.status)
        self.send_header("content-type", answer.headers["content-type"])
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def free_port():
    with http.server.HTTPServer(("127.0.0.1", 0), None) as server:
        return server.server_port


def started(lab, relay):
    """Starts the proxy, and returns it with its address."""
    config = lab.folder / "litellm.yaml"
    config.write_text(CONFIG.format(relay=f"http://127.0.0.1:{relay.server_port}", base=lab.base))
    port, log = free_port(), lab.folder / "litellm.log"
    # Its table of prices comes with the package. It would fetch a newer one.
    env = {"PATH": f"{LITELLM.parent}:/usr/bin:/bin", "HOME": str(lab.home), "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true", "NO_PROXY": "*"}
    command = [str(LITELLM), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
    process = subprocess.Popen(command, env=env, cwd=lab.work, stdout=log.open("w"), stderr=subprocess.STDOUT)
    base = f"http://127.0.0.1:{port}"
    end = time.monotonic() + 2 * LONGEST
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(f"{base}/health/liveliness", timeout=5).close()
            return process, base
        except OSError:
            time.sleep(0.2)
    process.kill()
    raise Wrong(f"LiteLLM does not listen: {log.read_text()[-3000:]}")


def proxied(script, path):
    """A client of the proxy."""

    def use(lab):
        if not LITELLM.exists():
            raise NotInstalled(LITELLM)
        relay = Relay(lab.stand_in.base)
        process, base = started(lab, relay)
        try:
            lab.run([sys.executable, str(SDK / script)], {"URL": base + path})
        except Wrong as wrong:
            raise Wrong(f"{wrong}: {(lab.folder / 'litellm.log').read_text()[-3000:]}") from None
        finally:
            process.kill()
            process.wait()
        report = lab.report()
        must(not report["refused"], f"requests broke rules: {report['refused']}")
        lab.must_have_run(24, report)
        lengths = relay.lengths
        cuts = sum(1 for before, after in zip(lengths, lengths[1:]) if after < before)
        must(cuts >= 1, f"the window was cut {cuts} times: {lengths}")
        must(not lab.lookback("sessions", "list", "--json"), "requests of LiteLLM were recorded")
        return f"{len(lengths)} calls, {cuts} cuts"

    return use
