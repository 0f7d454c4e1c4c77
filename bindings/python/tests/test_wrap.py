"""Clients of the providers' SDKs, unmodified but for one line, in conversations that are longer than a model takes."""

import asyncio
import json
import logging
import re
import subprocess
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from conftest import POLICY, StandIn

import lookback

TASK: dict[str, Any] = {"role": "user", "content": "Run steps 1 to 24."}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
CHAT: Any = [{"type": "function", "function": {"name": "run", "description": "Runs it.", "parameters": SCHEMA}}]
RESPONSES: Any = [{"type": "function", "name": "run", "description": "Runs it.", "parameters": SCHEMA}]
MESSAGES: Any = [{"name": "run", "description": "Runs it.", "input_schema": SCHEMA}]

History = list[Any]
Step = Callable[[Any, History], Any]
"""Makes a call, appends its answer and the results of its tools, and returns whether there were any."""


def run(arguments: Any) -> str:
    command = (json.loads(arguments) if isinstance(arguments, str) else arguments)["command"]
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def after_chat(history: History, message: Any) -> bool:
    history.append(message)
    for call in message.tool_calls or []:
        history.append({"role": "tool", "tool_call_id": call.id, "content": run(call.function.arguments)})
    return bool(message.tool_calls)


def after_responses(history: History, output: list[Any]) -> bool:
    history.extend(output)
    calls = [item for item in output if item.type == "function_call"]
    for call in calls:
        history.append({"type": "function_call_output", "call_id": call.call_id, "output": run(call.arguments)})
    return bool(calls)


def after_message(history: History, message: Any) -> bool:
    history.append({"role": "assistant", "content": message.content})
    calls = [block for block in message.content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": run(call.input)} for call in calls]
    if results:
        history.append({"role": "user", "content": results})
    return bool(results)


def chat(client: Any, history: History) -> bool:
    answer = client.chat.completions.create(model="gpt-4o", messages=history, tools=CHAT)
    return after_chat(history, answer.choices[0].message)


def chat_stream(client: Any, history: History) -> bool:
    with client.chat.completions.stream(model="gpt-4o", messages=history, tools=CHAT) as stream:
        return after_chat(history, stream.get_final_completion().choices[0].message)


def responses(client: Any, history: History) -> bool:
    answer = client.responses.create(model="gpt-4o", input=history, tools=RESPONSES, instructions="Be brief.")
    return after_responses(history, answer.output)


def messages(client: Any, history: History) -> bool:
    answer = client.messages.create(model="claude-sonnet-5", max_tokens=99, messages=history, tools=MESSAGES)
    return after_message(history, answer)


def messages_stream(client: Any, history: History) -> bool:
    options: Any = {"model": "claude-sonnet-5", "max_tokens": 99, "system": "Be brief.", "tools": MESSAGES}
    with client.messages.stream(messages=history, **options) as stream:
        return after_message(history, stream.get_final_message())


def chat_events(client: Any, history: History) -> bool:
    for _ in client.chat.completions.create(model="gpt-4o", messages=history, stream=True):
        pass
    return False


def chat_left(client: Any, history: History) -> bool:
    with client.chat.completions.stream(model="gpt-4o", messages=history) as stream:
        assert [event.type for event in stream if event.type == "content.done"]
    return False


def responses_events(client: Any, history: History) -> bool:
    with client.responses.stream(model="gpt-4o", input=history) as stream:
        assert stream.get_final_response().output
    return False


def messages_text(client: Any, history: History) -> bool:
    with client.messages.stream(model="claude-sonnet-5", max_tokens=99, messages=history) as stream:
        assert "".join(stream.text_stream)
    return False


async def chat_events_async(client: Any, history: History) -> bool:
    stream = await client.chat.completions.create(model="gpt-4o", messages=history, stream=True)
    assert [event async for event in stream]
    return False


async def messages_text_async(client: Any, history: History) -> bool:
    async with client.messages.stream(model="claude-sonnet-5", max_tokens=99, messages=history) as stream:
        assert "".join([text async for text in stream.text_stream])
    return False


async def responses_events_async(client: Any, history: History) -> bool:
    async with client.responses.stream(model="gpt-4o", input=history) as stream:
        async for _ in stream:
            pass
        assert (await stream.get_final_response()).output
    return False


async def chat_async(client: Any, history: History) -> bool:
    answer = await client.chat.completions.create(model="gpt-4o", messages=history, tools=CHAT)
    return after_chat(history, answer.choices[0].message)


async def messages_async(client: Any, history: History) -> bool:
    answer = await client.messages.create(model="claude-sonnet-5", max_tokens=99, messages=history, tools=MESSAGES)
    return after_message(history, answer)


async def messages_stream_async(client: Any, history: History) -> bool:
    options: Any = {"model": "claude-sonnet-5", "max_tokens": 99, "tools": MESSAGES}
    async with client.messages.stream(messages=history, **options) as stream:
        return after_message(history, await stream.get_final_message())


def client_for(step: Step, stand_in: StandIn) -> Any:
    is_async, is_openai = step.__name__.endswith("_async"), not step.__name__.startswith("messages")
    made: Any
    if is_openai:
        made = openai.AsyncOpenAI if is_async else openai.OpenAI
        return made(base_url=f"{stand_in.base}/v1", api_key="k", max_retries=0)
    made = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    return made(base_url=stand_in.base, api_key="k", max_retries=0)


def converse(step: Step, client: Any) -> History:
    """Has a model do the whole task."""

    async def go() -> History:
        history: History = [TASK]
        while True:
            goes_on = step(client, history)
            if not (await goes_on if isinstance(goes_on, Awaitable) else goes_on):
                return history

    return asyncio.run(go())


def converse_once(step: Step, client: Any) -> None:
    """Asks one question."""

    async def go() -> None:
        asked = step(client, [{"role": "user", "content": "Hello."}])
        if isinstance(asked, Awaitable):
            await asked

    asyncio.run(go())


@pytest.mark.parametrize(
    "step",
    [chat, chat_stream, responses, messages, messages_stream, chat_async, messages_async, messages_stream_async],
)
def test_a_wrapped_client_keeps_a_window(step: Step, stand_in: StandIn, tmp_path: Path) -> None:
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)):
        converse(step, client_for(step, stand_in))
    before = stand_in.report()["too_long"]
    assert before > 0, "the task is longer than the model takes"
    client = lookback.wrap(client_for(step, stand_in), "task", store=tmp_path / "memory.db", policy=POLICY)
    history = converse(step, client)
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], before)
    dialect = "openai-responses" if step is responses else "anthropic" if "messages" in step.__name__ else None
    kept = lookback.Session("task", store=tmp_path / "memory.db", dialect=dialect)
    synced = kept.sync(history)
    assert (synced["left"], synced["new"]) == (0, 1), "all but the last answer is in the session"


@pytest.mark.parametrize("step", [chat, responses, messages, chat_async, messages_async])
def test_a_refused_request_is_sent_again_with_less(step: Step, stand_in: StandIn) -> None:
    converse(step, lookback.wrap(client_for(step, stand_in), "task", policy="none"))
    report = stand_in.report()
    assert report["too_long"] > 0 and report["refused"] == []


@pytest.mark.parametrize(
    "step",
    [
        chat,
        chat_events,
        chat_left,
        responses_events,
        messages_text,
        messages_async,
        chat_events_async,
        messages_text_async,
        responses_events_async,
    ],
)
def test_the_tokens_that_the_provider_reports_are_recorded(step: Step, stand_in: StandIn, tmp_path: Path) -> None:
    converse_once(step, lookback.wrap(client_for(step, stand_in), "task", store=f"{tmp_path}/"))
    log = "".join(path.read_text() for path in tmp_path.rglob("*.jsonl"))
    assert re.findall(r'"reported":(\d+)', log) == [str(stand_in.report()["input"])]


def test_what_fits_is_sent_as_it_is(stand_in: StandIn) -> None:
    client = lookback.wrap(client_for(chat, stand_in), "task")
    sent: list[Any] = []
    client._target.chat.completions.create = lambda **arguments: sent.append(arguments)
    history = [{"role": "user", "content": "Hi"}]
    client.chat.completions.create(model="gpt-4o", messages=history, temperature=0)
    assert sent[0]["messages"] is history and sent[0]["temperature"] == 0


def test_the_rest_of_a_client_is_as_it_was(stand_in: StandIn) -> None:
    plain = client_for(chat, stand_in)
    with lookback.wrap(plain, "task").with_options(timeout=5) as client:
        assert [model.id for model in client.models.list()] == ["m1"]
        assert client.base_url == plain.base_url
        assert client.chat.completions.create(model="gpt-4o", messages=[TASK]).choices[0].message.content
        assert client.responses.create(model="gpt-4o", input="Hi").output_text
    with pytest.raises(AttributeError):
        client.nothing


def test_an_error_of_the_provider_is_the_sdks_own(stand_in: StandIn) -> None:
    client = lookback.wrap(client_for(messages, stand_in), "task")
    urllib.request.urlopen(urllib.request.Request(f"{stand_in.base}/stand-in/faults", data=b"429"))
    with pytest.raises(anthropic.RateLimitError):
        messages(client, [TASK])


def test_if_lookback_fails_the_request_is_sent(
    stand_in: StandIn, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "text.db").write_text("not a database, and long enough to be seen as none" * 20)
    client = lookback.wrap(client_for(chat, stand_in), "task", store=tmp_path / "text.db")
    with caplog.at_level(logging.WARNING, "lookback"):
        assert chat(client, [{"role": "user", "content": "Hi"}]) is False
    assert "the request is sent as it is" in caplog.text and "text.db" in caplog.text
