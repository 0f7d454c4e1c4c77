"""Kills the gateway repeatedly under load: each answer that a client received completely is in its session.

The test kills it 20 times. `KILLS=500 .venv/bin/python crates/cli/tests/clients/run.py kill` kills it 500 times.
"""

import json
import os
import random
import signal
import threading
import urllib.request
from http.client import HTTPException
from pathlib import Path

from lab import LOOKBACK, Program, must

CLIENTS = 8
TURNS = 30
# A gateway is killed after at most this number of events.
EVENTS = 120


class Load:
    """The events at a gateway: requests sent, complete answers, and clients that gave up."""

    def __init__(self):
        self.changed = threading.Condition()
        self.events, self.answers, self.talking = 0, 0, CLIENTS

    def tell(self, answers=0, gone=0):
        with self.changed:
            self.events += 1
            self.answers += answers
            self.talking -= gone
            self.changed.notify_all()

    def wait(self, events):
        """Waits until there were this many events, including an answer. Returns whether all clients still talk."""
        with self.changed:
            self.changed.wait_for(lambda: (self.answers and self.events >= events) or not self.talking)
            return self.talking == CLIENTS


class Client:
    """A conversation that alternates streamed and complete answers, and continues after each restart of the gateway."""

    def __init__(self, number):
        self.number = number
        self.talks = 0
        self.answered = {}
        self.begin()

    def begin(self):
        self.talks += 1
        self.session = f"kills/{self.number}/{self.talks}"
        self.messages = []
        self.answered[self.session] = []

    def talk(self, base, load, over):
        """Talks until the gateway is gone."""
        while not over.is_set():
            if len(self.messages) >= 2 * TURNS:
                self.begin()
            said = f"Question {len(self.messages)} of {self.session}"
            asked = [*self.messages, {"role": "user", "content": said}]
            stream = len(self.messages) % 4 == 0
            load.tell()
            try:
                answer = self.ask(base, asked, stream)
            except (OSError, ValueError, HTTPException):
                load.tell(gone=1)
                return
            # From here on, the client has the answer.
            self.answered[self.session].append((said, answer))
            self.messages = [*asked, {"role": "assistant", "content": answer}]
            load.tell(answers=1)

    def ask(self, base, messages, stream):
        body = json.dumps({"model": "gpt-5", "messages": messages, "stream": stream}).encode()
        headers = {"content-type": "application/json", "x-lookback-session": self.session}
        request = urllib.request.Request(f"{base}/v1/chat/completions", body, headers)
        with urllib.request.urlopen(request, timeout=300) as answer:
            text = answer.read().decode()
        if not stream:
            return json.loads(text)["choices"][0]["message"]["content"]
        events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        if not events or events[-1] != "[DONE]":
            raise ValueError("the stream has no end")
        chunks = [json.loads(event) for event in events[:-1]]
        return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


def use(lab):
    kills = int(os.environ.get("KILLS", "20"))
    chance = random.Random(1)
    lab.gateway.stop()
    clients = [Client(number) for number in range(CLIENTS)]
    command = [LOOKBACK, "serve", "--upstream", lab.stand_in.base, "--listen", "127.0.0.1:0", "--store", lab.store]
    command += ["--log", "failures", "--policy", str(lab.folder / "policy.toml")]
    for number in range(kills):
        gateway = Program(command, str(lab.folder / f"kill-{number}.log"))
        load, over = Load(), threading.Event()
        threads = [threading.Thread(target=client.talk, args=(gateway.base, load, over)) for client in clients]
        for thread in threads:
            thread.start()
        talked = load.wait(chance.randint(1, EVENTS))
        gateway.process.send_signal(signal.SIGKILL)
        gateway.process.wait()
        over.set()
        for thread in threads:
            thread.join()
        gateway.log.close()
        log = Path(gateway.path).read_text()
        must(talked, f"the clients gave up before the gateway was killed: {log}")
        must("panicked" not in log, log)
        must("warning" not in log, log)
    count = 0
    for client in clients:
        for session, answered in client.answered.items():
            if not answered:
                continue
            # An answer that no client received is on a branch that its client has left.
            export = lab.lookback("sessions", "export", session, "--current")
            messages = [json.loads(line) for line in export.splitlines()]
            texts = [(message["role"], message["content"]) for message in messages]
            for said, answer in answered:
                must(("user", said) in texts, f"{session} has not: {said}")
                after = texts[texts.index(("user", said)) + 1 :]
                must(after[:1] == [("assistant", answer)], f"{session}: {said!r} is answered by {after[:1]}, not {answer!r}")
            count += len(answered)
    must(count >= kills, f"only {count} answers")
    return f"{kills} kills, {count} answers, none missing"
