"""The shared part of the seam tests: reads the vectors in `corpus/adapters`, and carries out their steps."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

import lookback

CORPUS = Path(__file__).parents[3] / "corpus" / "adapters"

TOO_LONG = "This model's maximum context length is 12000 tokens. However, your messages resulted in 13000 tokens."
"""A provider's error about a request that is too long."""

ROLES = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}


class Message(NamedTuple):
    """A message of any framework."""

    role: str
    text: str = ""
    calls: tuple[str, ...] = ()
    """The identifiers of its calls, each of the tool `look` with the identifier as the argument `call`."""
    call: str = ""
    """The identifier of the call that a result answers."""


@dataclass(frozen=True)
class Vector:
    """A conversation, and what must be sent, kept or raised."""

    name: str
    upstream: list[str]
    """The frameworks' own tests that assert the same."""
    steps: list[dict[str, Any]]
    policy: str | dict[str, Any] = "none"
    options: dict[str, Any] | None = None
    """Options that only one framework has."""
    results: dict[str, str] | None = None
    """The results of the tool by call. A call that is not listed returns its own identifier."""
    differs: str = ""
    """Why the framework's tests assert something else, if they do."""


def vectors(framework: str) -> list[Any]:
    """Returns the vectors of a framework, as parameters of a test."""
    read = [Vector(**vector) for vector in json.loads((CORPUS / f"{framework}.json").read_text())]
    return [pytest.param(vector, id=vector.name) for vector in read]


def message(short: str) -> Message:
    """Returns the message of an abbreviation."""
    if found := re.fullmatch(r"a\*([^:]*)(?::(.*))?", short):
        return Message("assistant", text(found[2] or ""), calls=tuple(found[1].split("+")))
    if found := re.fullmatch(r"t#([^:]*):(.*)", short):
        return Message("tool", text(found[2]), call=found[1])
    kind, words = short.split(":", 1)
    return Message(ROLES[kind], text(words))


def text(short: str) -> str:
    """Returns the text of an abbreviation: `red*3` is the word three times."""
    found = re.fullmatch(r"(\w+)\*(\d+)", short)
    return " ".join([found[1]] * int(found[2])) if found else short


def openai(said: Message) -> dict[str, Any]:
    """Returns a message in OpenAI's format."""
    if said.role == "tool":
        return {"role": "tool", "tool_call_id": said.call, "content": said.text}
    function = {"name": "look", "arguments": "{}"}
    calls = [{"type": "function", "id": call, "function": function} for call in said.calls]
    return {"role": said.role, "content": said.text} | ({"tool_calls": calls} if calls else {})


class Seam(ABC):
    """A framework with our adapter in it.

    A subclass creates the framework's own agent, converts its messages into `Message`, and has its model call `answer`.
    The steps of a vector call its methods by their names, with a message for each abbreviation.
    """

    session: ClassVar[str]
    """The name of the session of the conversation."""

    def __init__(self, vector: Vector, folder: Path) -> None:
        self.vector = vector
        self.options = vector.options or {}
        self.store = str(folder / "memory.db")
        self.sent: list[list[Message]] = []
        """The messages that each model call of the step was sent."""
        self.answers: list[str] = []
        """The remaining answers of the model in the step."""
        # The abbreviations of the texts of the vector.
        self._known = {text(words): words for words in _texts([vector.steps, vector.results or {}, self.options])}
        self.make()

    @abstractmethod
    def make(self) -> None:
        """Creates the adapter and the agent, like a new process."""

    @abstractmethod
    def run(self, *said: Message) -> None:
        """Has the agent answer messages, after those that it keeps."""

    @abstractmethod
    def refusal(self, words: str) -> Exception:
        """Returns the error that the framework's model raises if the provider refuses a request with these words."""

    @abstractmethod
    def kept(self) -> list[Message]:
        """Returns the framework's copy of the conversation."""

    def restart(self) -> None:
        """Starts over with the same store, like a new process."""
        self.make()

    def log(self) -> list[Message]:
        """Returns the session's copy of the conversation."""
        messages = lookback.Session(self.session, store=self.store).messages()
        return [
            Message(
                said["role"],
                said.get("content") or "",
                tuple(call["id"] for call in said.get("tool_calls", [])),
                said.get("tool_call_id", ""),
            )
            for said in messages
        ]

    def answer(self, sent: list[Message]) -> Message:
        """Returns the model's answer to the messages that it is sent."""
        self.sent.append(sent)
        short = self.answers.pop(0) if self.answers else "a:Done."
        if short.startswith("!"):
            raise self.refusal(TOO_LONG if short == "!too long" else short[1:])
        return message(short)

    def look(self, call: str) -> str:
        """Looks at something. It is the tool of all agents."""
        result = (self.vector.results or {}).get(call, call)
        if result.startswith("!"):
            raise self.again(result[1:])
        return text(result)

    def again(self, words: str) -> Exception:
        """Returns the error, with these words, of a tool that fails or asks for another try."""
        return ValueError(words)

    def short(self, said: Message) -> str:
        """Returns a message's abbreviation. A text that is not in the vector is `~`, and a shortened one `x...`."""
        kind = next(kind for kind, role in ROLES.items() if role == said.role)
        words = self._known.get(said.text)
        if words is None:
            begun = (short for whole, short in self._known.items() if len(whole) > 99 and said.text[:9] == whole[:9])
            words = next((f"{short.split('*')[0]}..." for short in begun), "~")
        if said.calls:
            return f"{kind}*{'+'.join(said.calls)}" + (f":{words}" if said.text else "")
        return f"{kind}#{said.call}:{words}" if said.call else f"{kind}:{words}"

    def carry_out(self, step: dict[str, Any]) -> None:
        """Carries out a step, and checks the results."""
        self.sent, self.answers = [], list(step.get("answers", []))
        given = step.get("with", [])
        said = [message(short) for short in ([given] if isinstance(given, str) else given)]
        call = getattr(self, step["call"])
        if "fails" in step:
            with pytest.raises(Exception, match=re.escape(step["fails"])):
                call(*said)
        else:
            returned = call(*said)
            if "gives" in step:
                gives = [self.short(given) if isinstance(given, Message) else given for given in returned]
                must_be(gives, step["gives"])
        if "sends" in step:
            must_be([[self.short(message) for message in sent] for sent in self.sent], step["sends"])
        # The model was called once for each answer, and each request was valid for its provider.
        must_be(self.answers, [])
        for sent in self.sent:
            must_be(lookback.check({"messages": [openai(message) for message in sent]}, dialect="openai-chat"), [])


def must_be(found: object, expected: object) -> None:
    """Fails if the values differ."""
    if found != expected:
        pytest.fail(f"expected {json.dumps(expected)}\nfound    {json.dumps(found, default=repr)}", pytrace=False)


def check(seam: Seam) -> None:
    """Carries out the steps of a vector."""
    for step in seam.vector.steps:
        seam.carry_out(step)


def _texts(value: Any) -> list[str]:
    """Returns the texts of all abbreviations in a value, and all other texts in it."""
    if isinstance(value, dict):
        return [words for member in value.values() for words in _texts(member)]
    if isinstance(value, list):
        return [words for member in value for words in _texts(member)]
    if not isinstance(value, str):
        return []
    found = re.fullmatch(r"(?:[suat]|[at][*#][^:]*):(.*)", value)
    return [found[1] if found else value]
