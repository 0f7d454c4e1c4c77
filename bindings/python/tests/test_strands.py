"""Agents of Strands with the manager, against a provider that enforces its rules."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import POLICY, StandIn
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models.openai import OpenAIModel
from strands.session.file_session_manager import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException

import lookback
from lookback.strands import LookbackManager

TASK = "Run steps 1 to 24."


@tool
def run(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def agent(stand_in: StandIn, manager: Any, messages: Any = None, **more: Any) -> Agent:
    client = {"base_url": f"{stand_in.base}/v1", "api_key": "k", "max_retries": 0}
    model = OpenAIModel(client_args=client, model_id="gpt-4o")
    options: Any = {"system_prompt": "Be brief.", "conversation_manager": manager, "callback_handler": None}
    return Agent(model, messages, [run], **options, **more)


def results(messages: Any) -> list[str]:
    blocks = [block for message in messages for block in message["content"]]
    return [block["toolResult"]["content"][0]["text"] for block in blocks if "toolResult" in block]


def must_be_whole(messages: Any) -> None:
    """Asserts that the agent's messages contain every step, as its tool returned it."""
    found = sorted(int(result.split()[1]) for result in results(messages))
    assert found == list(range(1, 25))
    assert all(len(result) > 1000 for result in results(messages))


def test_without_it_the_model_refuses(stand_in: StandIn) -> None:
    with pytest.raises(ContextWindowOverflowException):
        agent(stand_in, NullConversationManager())(TASK)


@pytest.mark.parametrize("stored", [False, True])
def test_an_agent_keeps_a_window_and_its_messages_whole(stand_in: StandIn, tmp_path: Path, stored: bool) -> None:
    store = tmp_path / "memory.db" if stored else None
    first = agent(stand_in, LookbackManager("task", store=store, policy=POLICY))
    first(TASK)
    must_be_whole(first.messages)
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    # Another process continues the conversation.
    again = agent(stand_in, LookbackManager("task", store=store, policy=POLICY), first.messages)
    again("And now?")
    must_be_whole(again.messages)
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    if store is not None:
        kept = lookback.Session("task", store=store, dialect="bedrock")
        assert len(kept.history()) == len(again.messages) - 1


def test_a_refused_request_is_sent_again_with_less(stand_in: StandIn) -> None:
    made = agent(stand_in, LookbackManager("task", policy="none"))
    made(TASK)
    must_be_whole(made.messages)
    report = stand_in.report()
    assert report["too_long"] > 0 and report["refused"] == []


def test_a_session_manager_of_strands_works_beside_it(stand_in: StandIn, tmp_path: Path) -> None:
    def made() -> Agent:
        sessions = FileSessionManager("s", storage_dir=str(tmp_path / "strands"))
        manager = LookbackManager("task", store=tmp_path / "memory.db", policy=POLICY)
        return agent(stand_in, manager, session_manager=sessions)

    first = made()
    first(TASK)
    again = made()
    assert again.messages == first.messages
    again("And now?")
    must_be_whole(again.messages)
    kept = lookback.Session("task", store=tmp_path / "memory.db", dialect="bedrock")
    assert len(kept.history()) == len(again.messages) - 1
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)


def test_pictures_stay_bytes(stand_in: StandIn) -> None:
    picture: Any = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\r\n\x1a\n" + bytes(100)}}}
    mirror = LookbackManager("task")._mirror
    message: Any = {"role": "user", "content": [{"text": "What is this?"}, picture], "metadata": {"mine": 1}}
    assert mirror.window([message])[0] is message
    merged = mirror.window([message, {"role": "user", "content": [{"text": "Well?"}]}])
    assert [block for shown in merged for block in shown["content"]] == [*message["content"], {"text": "Well?"}]


def test_what_cannot_become_smaller_raises_the_agents_own_error(stand_in: StandIn) -> None:
    made = agent(stand_in, LookbackManager("task"))
    with pytest.raises(ContextWindowOverflowException):
        made("A long question. " * 20_000)
