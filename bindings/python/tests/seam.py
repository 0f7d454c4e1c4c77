"""What the vectors of the frameworks' seams share: how `corpus/adapters` is read, and how its steps are carried out."""

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
"""What a provider says of a request that is too long."""

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
    """A conversation, and what of it is to be sent, kept or raised."""

    name: str
    upstream: list[str]
    """The frameworks' own tests that say the same."""
    steps: list[dict[str, Any]]
    policy: str | dict[str, Any] = "none"
    options: dict[str, Any] | None = None
    """What only one framework has."""
    results: dict[str, str] | None = None
    """What the tool returns, by the call: the call itself if it is not here."""
    differs: str = ""
    """Why the framework's tests say something else, if they do."""


def vectors(framework: str) -> list[Any]:
    """The vectors of a framework, as parameters of a test."""
    read = [Vector(**vector) for vector in json.loads((CORPUS / f"{framework}.json").read_text())]
    return [pytest.param(vector, id=vector.name) for vector in read]


def message(short: str) -> Message:
    """A message from its abbreviation."""
    if found := re.fullmatch(r"a\*([^:]*)(?::(.*))?", short):
        return Message("assistant", text(found[2] or ""), calls=tuple(found[1].split("+")))
    if found := re.fullmatch(r"t#([^:]*):(.*)", short):
        return Message("tool", text(found[2]), call=found[1])
    kind, words = short.split(":", 1)
    return Message(ROLES[kind], text(words))


def text(short: str) -> str:
    """A text from its abbreviation: `red*3` is the word three times."""
    found = re.fullmatch(r"(\w+)\*(\d+)", short)
    return " ".join([found[1]] * int(found[2])) if found else short


def openai(said: Message) -> dict[str, Any]:
    """A message in OpenAI's format."""
    if said.role == "tool":
        return {"role": "tool", "tool_call_id": said.call, "content": said.text}
    function = {"name": "look", "arguments": "{}"}
    calls = [{"type": "function", "id": call, "function": function} for call in said.calls]
    return {"role": said.role, "content": said.text} | ({"tool_calls": calls} if calls else {})


class Seam(ABC):
    """A framework with our adapter in it.

    A subclass is short: it makes the framework's own agent, turns its messages into `Message`, and has its model call
    `answer`. The steps of a vector call its methods by their names, with a message for each abbreviation.
    """

    session: ClassVar[str]
    """The name of the session of the conversation."""

    def __init__(self, vector: Vector, folder: Path) -> None:
        self.vector = vector
        self.options = vector.options or {}
        self.store = str(folder / "memory.db")
        self.sent: list[list[Message]] = []
        """What each call of the model in the step was sent."""
        self.answers: list[str] = []
        """What the model is still to answer in the step."""
        # The abbreviations of the texts of the vector.
        self._known = {text(words): words for words in _texts([vector.steps, vector.results or {}, self.options])}
        self.make()

    @abstractmethod
    def make(self) -> None:
        """Makes the adapter and what it is in, as a process that begins does."""

    @abstractmethod
    def run(self, *said: Message) -> None:
        """Has the agent answer, behind what is kept."""

    @abstractmethod
    def refusal(self, words: str) -> Exception:
        """The error that the framework's model raises if the provider refuses a request with these words."""

    @abstractmethod
    def kept(self) -> list[Message]:
        """The conversation as the framework has it."""

    def restart(self) -> None:
        """Begins a new process over the same store."""
        self.make()

    def log(self) -> list[Message]:
        """The conversation as the session has it."""
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
        """What the model answers to what it is sent."""
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
        """The error of a tool that fails, or wants to be called again, with these words."""
        return ValueError(words)

    def short(self, said: Message) -> str:
        """A message as its abbreviation. A text that is none of the vector's is `~`, and what is left of one `x...`."""
        kind = next(kind for kind, role in ROLES.items() if role == said.role)
        words = self._known.get(said.text)
        if words is None:
            begun = (short for whole, short in self._known.items() if len(whole) > 99 and said.text[:9] == whole[:9])
            words = next((f"{short.split('*')[0]}..." for short in begun), "~")
        if said.calls:
            return f"{kind}*{'+'.join(said.calls)}" + (f":{words}" if said.text else "")
        return f"{kind}#{said.call}:{words}" if said.call else f"{kind}:{words}"

    def carry_out(self, step: dict[str, Any]) -> None:
        """Carries out a step, and checks what comes of it."""
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
        # The model was asked as often as it has answers, and each time with what its provider takes.
        must_be(self.answers, [])
        for sent in self.sent:
            must_be(lookback.check({"messages": [openai(message) for message in sent]}, dialect="openai-chat"), [])


def must_be(found: object, expected: object) -> None:
    """Fails if they are not the same."""
    if found != expected:
        pytest.fail(f"expected {json.dumps(expected)}\nfound    {json.dumps(found, default=repr)}", pytrace=False)


def check(seam: Seam) -> None:
    """Carries out the steps of a vector."""
    for step in seam.vector.steps:
        seam.carry_out(step)


def _texts(value: Any) -> list[str]:
    """The words of all abbreviations in a value, and of all other texts in it."""
    if isinstance(value, dict):
        return [words for member in value.values() for words in _texts(member)]
    if isinstance(value, list):
        return [words for member in value for words in _texts(member)]
    if not isinstance(value, str):
        return []
    found = re.fullmatch(r"(?:[suat]|[at][*#][^:]*):(.*)", value)
    return [found[1] if found else value]
