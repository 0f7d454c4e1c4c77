"""Clients of the providers' SDKs with one changed line, in conversations that are longer than a model accepts."""

import asyncio
import json
import logging
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anthropic
import openai
import pytest
from conftest import POLICY, StandIn
from test_mirror import threads_of_sessions

import lookback
from lookback._wrap import _digest

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


async def chat_stream_async(client: Any, history: History) -> bool:
    async with client.chat.completions.stream(model="gpt-4o", messages=history, tools=CHAT) as stream:
        return after_chat(history, (await stream.get_final_completion()).choices[0].message)


async def messages_stream_async(client: Any, history: History) -> bool:
    options: Any = {"model": "claude-sonnet-5", "max_tokens": 99, "tools": MESSAGES}
    async with client.messages.stream(messages=history, **options) as stream:
        return after_message(history, await stream.get_final_message())


def messages_parse(client: Any, history: History) -> bool:
    answer = client.messages.parse(model="claude-sonnet-5", max_tokens=99, messages=history, tools=MESSAGES)
    return after_message(history, answer)


def messages_beta(client: Any, history: History) -> bool:
    answer = client.beta.messages.parse(model="claude-sonnet-5", max_tokens=99, messages=history, tools=MESSAGES)
    return after_message(history, answer)


def messages_raw(client: Any, history: History) -> bool:
    raw = client.messages.with_raw_response
    answer = raw.create(model="claude-sonnet-5", max_tokens=99, messages=history, tools=MESSAGES)
    return after_message(history, answer.parse())


def chat_raw(client: Any, history: History) -> bool:
    raw = client.with_raw_response.chat.completions.create(model="gpt-4o", messages=history, tools=CHAT)
    return after_chat(history, raw.parse().choices[0].message)


def chat_streaming(client: Any, history: History) -> bool:
    streaming = client.chat.completions.with_streaming_response
    with streaming.create(model="gpt-4o", messages=history, tools=CHAT) as answer:
        return after_chat(history, answer.parse().choices[0].message)


def chat_generator(client: Any, history: History) -> bool:
    answer = client.chat.completions.create(model="gpt-4o", messages=(said for said in history), tools=CHAT)
    return after_chat(history, answer.choices[0].message)


async def chat_raw_async(client: Any, history: History) -> bool:
    raw = client.chat.completions.with_raw_response
    answer = await raw.create(model="gpt-4o", messages=history, tools=CHAT)
    return after_chat(history, answer.parse().choices[0].message)


async def chat_streaming_async(client: Any, history: History) -> bool:
    streaming = client.chat.completions.with_streaming_response
    async with streaming.create(model="gpt-4o", messages=history, tools=CHAT) as answer:
        return after_chat(history, (await answer.parse()).choices[0].message)


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
    """Asks a single question."""

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


OTHERS: Any = [
    messages_parse,
    messages_beta,
    messages_raw,
    chat_raw,
    chat_streaming,
    chat_generator,
    chat_raw_async,
    chat_streaming_async,
]


@pytest.mark.parametrize("step", OTHERS)
def test_no_call_with_a_history_is_missed(step: Step, stand_in: StandIn, tmp_path: Path) -> None:
    client = lookback.wrap(client_for(step, stand_in), "task", store=tmp_path / "memory.db", policy=POLICY)
    history = converse(step, client)
    report = stand_in.report()
    assert (report["refused"], report["too_long"]) == ([], 0)
    kept = lookback.Session("task", store=tmp_path / "memory.db", dialect="anthropic" if "mess" in str(step) else None)
    assert kept.sync(history)["new"] == 1


@pytest.mark.parametrize(
    "step",
    [
        chat,
        chat_stream,
        chat_streaming,
        responses,
        messages,
        messages_stream,
        chat_async,
        chat_stream_async,
        chat_streaming_async,
        messages_async,
        messages_stream_async,
    ],
)
def test_a_refused_request_is_sent_again_with_less(step: Step, stand_in: StandIn) -> None:
    converse(step, lookback.wrap(client_for(step, stand_in), "task", policy="none"))
    report = stand_in.report()
    assert report["too_long"] > 0 and report["refused"] == []


@pytest.mark.parametrize(
    "step",
    [
        chat,
        chat_raw,
        chat_raw_async,
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


class Fake:
    """A client whose model answers nothing. It passes each request to a function."""

    def __init__(self, told: Callable[..., Any]) -> None:
        self.timeout = 60

        @contextmanager
        def stream(**arguments: Any) -> Iterator[Any]:
            yield told(**arguments)

        completions = SimpleNamespace(create=told, stream=stream)
        self.chat = SimpleNamespace(completions=completions)


class AsyncFake:
    """The same client for an event loop."""

    def __init__(self, told: Callable[..., Any]) -> None:
        async def create(**arguments: Any) -> Any:
            await asyncio.sleep(0)
            return told(**arguments)

        class Manager:
            def __init__(self, **arguments: Any) -> None:
                self.arguments = arguments

            async def __aenter__(self) -> Any:
                return await create(**self.arguments)

            async def __aexit__(self, *error: Any) -> None:
                pass

        self.chat = SimpleNamespace(completions=SimpleNamespace(create=create, stream=Manager))

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *error: Any) -> None:
        pass


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def assistant(text: str) -> Any:
    return {"role": "assistant", "content": text}


def lines(history: History) -> set[str]:
    return {message["content"].split(":")[0] for message in history} - {"Hello."}


@pytest.mark.parametrize("stored", [False, True])
def test_calls_at_once_send_each_its_own_history(stored: bool, tmp_path: Path) -> None:
    wrong: list[Any] = []

    def told(*, messages: History, user: str, **rest: Any) -> None:
        if lines(messages) != {user}:
            wrong.append((user, lines(messages)))

    client: Any = lookback.wrap(Fake(told), "s", store=tmp_path / "memory.db" if stored else None)

    def run(name: str) -> None:
        # The two begin with the same message, so they are one conversation.
        history = [user("Hello.")]
        for number in range(40):
            history.append(assistant(f"{name}:{number}"))
            history.append(user(f"{name}:{number}"))
            client.chat.completions.create(messages=history, model=f"gpt-4{'o' * (number % 2)}", user=name)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(run, "ABCD"))
    finally:
        sys.setswitchinterval(before)
    assert wrong == []


@pytest.mark.parametrize("stored", [False, True])
def test_tasks_at_once_send_each_its_own_history(stored: bool, tmp_path: Path) -> None:
    wrong: list[Any] = []

    def told(*, messages: History, user: str, **rest: Any) -> None:
        if lines(messages) != {user}:
            wrong.append((user, lines(messages)))

    client: Any = lookback.wrap(AsyncFake(told), "s", store=tmp_path / "memory.db" if stored else None)

    async def run(place: int, name: str) -> None:
        history = [user("Hello.")] + [assistant(f"{name}:before {number}") for number in range(place)]
        for number in range(20):
            history.append(user(f"{name}:{number}"))
            await client.chat.completions.create(messages=history, model="gpt-4o", user=name)
            history.append(assistant(f"{name}:{number}"))

    async def all_of_them() -> None:
        await asyncio.gather(*(run(place, name) for place, name in enumerate("ABCD")))

    asyncio.run(all_of_them())
    assert wrong == []


def test_what_is_sent_again_is_of_the_same_history() -> None:
    sent: list[tuple[str, set[str]]] = []

    def told(*, messages: History, user: str, **rest: Any) -> None:
        sent.append((user, lines(messages)))
        if user == "A" and len(sent) == 1:
            client.chat.completions.create(messages=history("B"), model="gpt-4o", user="B")
            raise RuntimeError("prompt is too long")

    def history(name: str) -> History:
        said = [made for number in range(9) for made in (assistant(f"{name}:{number}"), user(f"{name}:{number} " * 99))]
        return [user("Hello."), *said]

    client: Any = lookback.wrap(Fake(told), "s", policy="none")
    client.chat.completions.create(messages=history("A"), model="gpt-4o", user="A")
    assert sent == [("A", {"A"}), ("B", {"B"}), ("A", {"A"})]


def test_calls_beside_a_conversation_leave_it_as_it_is(tmp_path: Path) -> None:
    sent: list[History] = []

    def converse_with(name: str, title: bool) -> int:
        def told(*, messages: History, **rest: Any) -> None:
            if messages[-1]["content"].startswith("Question"):
                sent.append(messages)

        sent.clear()
        client: Any = lookback.wrap(Fake(told), "chat", store=f"{tmp_path}/{name}/", policy=POLICY)
        history: History = []
        for number in range(30):
            history.append(user(f"Question {number} " * 90))
            client.chat.completions.create(messages=history, model="gpt-4o")
            history.append(assistant(f"Answer {number}"))
            if title:
                asked = [{"role": "system", "content": "A title."}, user(f"A title for question {number}")]
                client.chat.completions.create(messages=asked, model="gpt-4o")
        kept = lookback.Session("chat", store=f"{tmp_path}/{name}/")
        assert [message["content"] for message in kept.messages()] == [message["content"] for message in history[:-1]]
        return max(found["entry"] for found in kept.search("Question", 100))

    alone = converse_with("alone", title=False)
    before = list(sent)
    assert converse_with("beside", title=True) == alone, "nothing is written again"
    assert sent == before, "every request has the same window"


def test_a_program_that_begins_with_another_call_finds_its_conversation(tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    history = [user("Hello."), assistant("Hi."), user("And now?")]
    for title in (False, True):
        # In the second program, another call comes first.
        client: Any = lookback.wrap(Fake(lambda **arguments: None), "chat", store=store)
        if title:
            client.chat.completions.create(messages=[user("A title for this")], model="gpt-4o")
        client.chat.completions.create(messages=history, model="gpt-4o")
    kept = lookback.Session("chat", store=store)
    assert kept.messages() == history
    assert kept.search("title") == [] and len(kept.history()) == 3


def test_a_system_prompt_that_changes_begins_no_other_conversation(tmp_path: Path) -> None:
    client: Any = lookback.wrap(Fake(lambda **arguments: None), "chat", store=f"{tmp_path}/")
    for number in range(3):
        said = [{"role": "system", "content": f"It is {number} o'clock."}, user("Hello.")]
        client.chat.completions.create(messages=said, model="gpt-4o")
    assert len(list(tmp_path.rglob("turns.jsonl"))) == 1


@pytest.mark.parametrize("stored", [False, True])
def test_create_and_stream_are_of_one_conversation(stored: bool, tmp_path: Path) -> None:
    sent: list[History] = []

    def told(*, messages: History, **rest: Any) -> None:
        sent.append(messages)

    def requests(name: str, streams: bool) -> list[History]:
        store = tmp_path / f"{name}.db" if stored else None
        completions = lookback.wrap(AsyncFake(told), "s", store=store, policy=POLICY).chat.completions

        async def run() -> None:
            history: History = []
            for number in range(30):
                history.append(user(f"Question {number} " * 90))
                if streams and number % 2:
                    async with completions.stream(model="gpt-4o", messages=history):
                        pass
                else:
                    await completions.create(model="gpt-4o", messages=history)
                history.append(assistant(f"Answer {number}"))

        sent.clear()
        asyncio.run(run())
        return list(sent)

    assert requests("both", True) == requests("create", False)


def test_a_store_holds_the_loop_up_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads = threads_of_sessions(monkeypatch, "lookback._wrap")
    completions = lookback.wrap(AsyncFake(lambda **arguments: None), "s", store=tmp_path / "memory.db").chat.completions

    async def run() -> None:
        await completions.create(model="gpt-4o", messages=[user("Hello.")])
        async with completions.stream(model="gpt-4o", messages=[user("Hello."), user("And now?")]):
            pass

    asyncio.run(run())
    assert threads and threading.main_thread() not in threads


def test_a_wrapped_client_is_what_it_was(stand_in: StandIn) -> None:
    plain = client_for(chat, stand_in)
    client = lookback.wrap(plain, "task")
    assert isinstance(client, openai.OpenAI) and isinstance(client.chat.completions, type(plain.chat.completions))
    assert set(dir(plain)) == set(dir(client))
    client.timeout = 5
    assert plain.timeout == 5
    assert client.chat.completions.create.__name__ == "create"
    # A client that is wrapped twice still does not count as one for an event loop.
    assert chat(lookback.wrap(client, "again"), [user("Hello.")]) is False


def test_a_mistake_in_the_policy_is_told_at_once() -> None:
    with pytest.raises(lookback.PolicyError, match="mesages"):
        lookback.wrap(Fake(lambda **arguments: None), "s", policy="messages:max_mesages=4")


class Broken:
    """An object that cannot be read."""

    def model_dump(self, **options: Any) -> Any:
        raise RuntimeError("broken")


@pytest.mark.parametrize("content", [Broken(), 10**5000, "\ud800", object()], ids=["broken", "long", "half", "object"])
def test_whatever_fails_the_request_is_sent(content: Any, caplog: pytest.LogCaptureFixture) -> None:
    sent: list[Any] = []
    history = [user("Hello."), {"role": "user", "content": content}]
    for said in (history, history[1:]):
        client: Any = lookback.wrap(Fake(lambda **arguments: sent.append(arguments["messages"])), "s")
        with caplog.at_level(logging.WARNING, "lookback"):
            client.chat.completions.create(model="gpt-4o", messages=said)
        assert sent.pop() is said
    assert caplog.text.count("the request is sent as it is") == 2


HELLO: dict[str, Any] = {"role": "user", "content": "Hello."}
PART: dict[str, Any] = {"type": "text", "text": "Hello."}


@pytest.mark.parametrize(
    "again",
    [
        {"role": "user", "content": [PART]},
        {"role": "user", "content": [PART | {"cache_control": {"type": "ephemeral"}}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}]},
    ],
)
def test_a_message_that_is_sent_again_in_another_form_begins_no_other_conversation(again: dict[str, Any]) -> None:
    assert _digest([again]) == _digest([HELLO]) != _digest([{"role": "user", "content": "Hello!"}])


def test_a_conversation_that_the_format_cannot_express_does_not_stop_windows(stand_in: StandIn, tmp_path: Path) -> None:
    store = tmp_path / "memory.db"
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    lookback.Session("s", store=store, dialect="anthropic").push([HELLO, {"role": "assistant", "content": [search]}])
    policy = "messages:max_messages=8,target_messages=4"
    client = lookback.wrap(client_for(chat, stand_in), "s", store=store, policy=policy)
    sent: list[Any] = []
    client._target.chat.completions.create = lambda **arguments: sent.append(arguments["messages"])
    client.chat.completions.create(model="gpt-4o", messages=[HELLO | {"content": str(number)} for number in range(20)])
    assert len(sent[0]) == 4
