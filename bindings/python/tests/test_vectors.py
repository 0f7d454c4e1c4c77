"""The vectors of the project, which every implementation can run."""

import json
from pathlib import Path
from typing import Any

import pytest

import lookback

CORPUS = Path(__file__).parents[3] / "corpus"


def vectors(folder: str) -> list[Any]:
    return [
        pytest.param(file.stem, vector, id=f"{file.stem}: {vector['name']}")
        for file in sorted((CORPUS / folder).glob("*.json"))
        for vector in json.loads(file.read_text())
    ]


def skip_half_characters(vector: dict[str, Any]) -> None:
    if "\ufffd" in str(vector.get("repaired")):
        pytest.skip("a string of Python with half of a character is refused as it comes in")


@pytest.mark.parametrize(("dialect", "vector"), vectors("rules"))
def test_a_check_finds_what_a_provider_refuses(dialect: str, vector: dict[str, Any]) -> None:
    skip_half_characters(vector)
    if "previous" in vector:
        pytest.skip("a check of this package looks at one request alone")
    found = lookback.check(vector["request"], dialect=dialect, path=vector.get("path"))
    assert [
        {"rule": finding["rule"], "path": finding["path"], "kind": finding["problem"]["kind"]}
        | ({"warns": True} if finding["severity"] == "degraded" else {})
        for finding in found
    ] == vector["findings"]


@pytest.mark.parametrize(("dialect", "vector"), vectors("rules"))
def test_a_session_sends_the_repaired_messages(dialect: str, vector: dict[str, Any]) -> None:
    skip_half_characters(vector)
    request: dict[str, Any] = vector["request"]
    request = {"messages": request} if isinstance(request, list) else request
    messages = next((request[name] for name in ("messages", "input", "contents") if name in request), None)
    if not isinstance(messages, list) or "previous_response_id" in request or "conversation" in request:
        pytest.skip("a session takes messages: not a text alone, nor what goes on with a history of the provider")
    if "path" in vector or request.get("store") is False:
        pytest.skip("a session does not know the path of a request, or whether the provider stores it")
    session = lookback.Session("s", dialect=dialect, model=request.get("model"), policy="none")
    systems = [request[name] for name in ("system", "instructions", "systemInstruction") if name in request]
    session.preamble(system=systems[0] if systems else None, tools=request.get("tools"))
    session.push(messages)
    sent = session.window().messages
    if "repaired" in vector:
        assert sent == vector["repaired"]
    elif not vector["findings"]:
        assert sent == messages


@pytest.mark.parametrize(("dialect", "vector"), vectors("errors"))
def test_an_error_is_understood(dialect: str, vector: dict[str, Any]) -> None:
    class Response:
        text = vector["body"]

    class Refused(Exception):
        status_code = vector["status"]
        response = Response

    session = lookback.Session("s", dialect=dialect)
    refused = Refused(vector["body"])
    if isinstance(vector["error"], dict) and "too_long" in vector["error"]:
        # Before the first call, there is nothing to leave out.
        with pytest.raises(lookback.LookbackError):
            session.overflow(refused)
    else:
        with pytest.raises(Refused):
            session.overflow(refused)


@pytest.mark.parametrize("vector", json.loads((CORPUS / "memory/tools.json").read_text()), ids=lambda vector: vector["name"])
def test_the_tools_of_a_memory_answer(vector: dict[str, Any]) -> None:
    memory = lookback.Memory("s")
    for fact in vector.get("facts", []):
        by: Any = {"tool": {"tool": "grep"}}.get(fact.get("by"), fact.get("by", "model"))
        options = {name: fact[name] for name in ("about", "confidence", "trust", "supersedes") if name in fact}
        memory.remember(fact["kind"], fact["text"], by=by, shared=fact.get("scope") == "shared", **options)
    for call in vector["calls"]:
        given = call["with"] if isinstance(call["with"], str) else json.dumps(call["with"])
        reply = memory.call(call["tool"], given)
        expected = {"text": call["fails"], "error": True} if "fails" in call else {"text": call["gives"], "error": False}
        assert reply == expected
