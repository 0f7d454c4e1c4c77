"""Agents of CrewAI with the model, against a provider that enforces its rules."""

import asyncio
import os
import subprocess
import threading
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar
from urllib.parse import unquote

import pytest
from conftest import POLICY, StandIn, examples, run_example

# CrewAI reads these when it is imported. They turn its telemetry off, and keep its files out of the home folder.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}
os.environ["XDG_DATA_HOME"] = mkdtemp()

from crewai import LLM, Agent, Crew, Task
from crewai.hooks import register_before_llm_call_hook, unregister_before_llm_call_hook
from crewai.llms.base_llm import BaseLLM, call_stop_override
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.tools import tool
from crewai.utilities.exceptions.context_window_exceeding_exception import LLMContextLengthExceededError
from test_mirror import threads_of_sessions

import lookback
from lookback.crewai import LookbackLLM

TASK = "Run steps 1 to 24."


@tool
def run(command: str) -> str:
    """Runs a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout


def model(stand_in: StandIn) -> BaseLLM:
    made: Any = LLM(model="gpt-4o", base_url=f"{stand_in.base}/v1", api_key="k")
    return made  # type: ignore[no-any-return]


def agent(llm: BaseLLM, role: str = "Runner") -> Agent:
    return Agent(role=role, goal="Run steps", backstory="Be brief.", llm=llm, tools=[run], max_iter=100)


def task(made: Agent, text: str = TASK, **more: Any) -> Task:
    return Task(description=text, expected_output="All steps", agent=made, **more)


def ask(made: Agent, messages: Any, awaited: bool = False) -> list[Any]:
    """Has the agent answer, and returns its messages."""
    output: Any = asyncio.run(made.kickoff_async(messages)) if awaited else made.kickoff(messages)
    return [message for message in output.messages if message["role"] != "system"]


def results(messages: Any) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "tool"]


def must_be_whole(messages: Any) -> None:
    """Asserts that the messages contain every step, as its tool returned it."""
    assert sorted(int(result.split()[1]) for result in results(messages)) == list(range(1, 25))
    assert all(len(result) > 1000 for result in results(messages))


def must_be_valid(messages: list[Any]) -> None:
    """Asserts that each call has its result, and each result its call."""
    calls = [call["id"] for message in messages for call in message.get("tool_calls") or []]
    assert sorted(calls) == sorted(message["tool_call_id"] for message in messages if message["role"] == "tool")


def sessions(folder: Path) -> list[str]:
    return [unquote(path.name) for path in (folder / "memory" / "memory").iterdir()]


def nothing_was_refused(stand_in: StandIn) -> bool:
    report = stand_in.report()
    return (report["refused"], report["too_long"]) == ([], 0)


def test_without_it_the_model_refuses(stand_in: StandIn) -> None:
    with pytest.raises(LLMContextLengthExceededError):
        ask(agent(model(stand_in)), TASK)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("awaited", [False, True])
def test_an_agent_keeps_a_window_and_its_messages_whole(
    stand_in: StandIn, tmp_path: Path, stored: bool, awaited: bool
) -> None:
    store = f"{tmp_path}/memory/" if stored else None
    messages = ask(agent(LookbackLLM(model(stand_in), store=store, policy=POLICY)), TASK, awaited)
    must_be_whole(messages)
    # Another process continues the conversation.
    messages.append({"role": "user", "content": "And now?"})
    messages = ask(agent(LookbackLLM(model(stand_in), store=store, policy=POLICY)), messages, awaited)
    must_be_whole(messages)
    assert nothing_was_refused(stand_in)
    if store is not None:
        [name] = sessions(tmp_path)
        kept = lookback.Session(name, store=store).messages()
        # The last answer follows the last call of the model.
        assert [message["content"] for message in kept[1:]] == [message["content"] for message in messages[:-1]]


class Watched(OpenAICompletion):
    """A model that records the messages that it sends."""

    sent: ClassVar[list[list[Any]]] = []

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        self.sent.append(list(messages))
        return super().call(messages, *args, **kwargs)


def test_between_cuts_a_request_extends_the_one_before(stand_in: StandIn) -> None:
    sent = Watched.sent
    sent.clear()
    llm = LookbackLLM(Watched(model="gpt-4o", base_url=f"{stand_in.base}/v1", api_key="k"), policy=POLICY)
    must_be_whole(ask(agent(llm), TASK))
    extended = sum(later[: len(before)] == before for before, later in zip(sent, sent[1:]))
    assert len(sent) > 15 and extended > 0.5 * len(sent), extended
    for messages in sent:
        must_be_valid(messages)
    assert nothing_was_refused(stand_in)


def test_a_refused_request_is_sent_again_with_less(stand_in: StandIn) -> None:
    must_be_whole(ask(agent(LookbackLLM(model(stand_in), policy="none")), TASK))
    report = stand_in.report()
    assert report["too_long"] > 0 and report["refused"] == []


def test_what_cannot_become_smaller_raises_an_error(stand_in: StandIn) -> None:
    with pytest.raises(LLMContextLengthExceededError):
        ask(agent(LookbackLLM(model(stand_in))), "A long question. " * 20_000)


def test_each_task_of_a_crew_has_a_session(stand_in: StandIn, tmp_path: Path) -> None:
    llm = LookbackLLM(model(stand_in), store=f"{tmp_path}/memory/", policy=POLICY)
    tasks = [task(agent(llm, role), async_execution=role != "C") for role in "ABC"]
    made = Crew(agents=[each.agent for each in tasks if each.agent], tasks=tasks)
    output: Any = made.kickoff()
    assert llm.get_token_usage_summary().successful_requests == stand_in.report()["answered"]
    for done in output.tasks_output:
        must_be_whole(done.messages)
    assert nothing_was_refused(stand_in)
    assert {name.split("/")[1] for name in sessions(tmp_path)} == {str(each.id) for each in tasks}


def test_what_is_asked_once_has_no_session(stand_in: StandIn, tmp_path: Path) -> None:
    llm = LookbackLLM(model(stand_in), store=f"{tmp_path}/memory/")
    assert llm.call("Hello") and asyncio.run(llm.acall([{"role": "user", "content": "Hello"}]))
    assert not (tmp_path / "memory").exists()
    asked: Any = [{"role": "user", "content": text} for text in ("One", "Two")]
    asked.insert(1, {"role": "assistant", "content": "Yes"})
    assert asyncio.run(llm.acall(asked)) and len(sessions(tmp_path)) == 1


def test_a_hook_sees_all_messages_and_may_change_them(stand_in: StandIn) -> None:
    seen: list[int] = []

    def hook(context: Any) -> None:
        seen.append(len(context.messages))
        if len(seen) == 10:
            # Removes the first two steps.
            context.messages[2:5] = []

    register_before_llm_call_hook(hook)
    try:
        messages = ask(agent(LookbackLLM(model(stand_in), policy=POLICY)), TASK)
    finally:
        unregister_before_llm_call_hook(hook)
    # The system prompt is not among the messages, but the last answer is.
    assert max(seen) == len(messages)
    assert len(results(messages)) == 22 and nothing_was_refused(stand_in)


def test_the_model_is_asked_as_crewai_wants_it() -> None:
    class Model(BaseLLM):
        def call(self, *args: Any, **kwargs: Any) -> Any:
            return self.stop_sequences, self._effective_stream()

    llm = LookbackLLM(Model(model="m", stop=["A"], temperature=0.5))
    assert (llm.model, llm.temperature, llm.stop) == ("m", 0.5, ["A"])
    assert llm.call("Hello") == (["A"], False)
    llm.stream = True
    with call_stop_override(llm, ["B"]):
        assert llm.call("Hello") == (["B"], True)


def test_what_only_crewai_knows_stays_with_a_message() -> None:
    llm = LookbackLLM(LLM(model="gpt-4o", api_key="k"), policy=POLICY)
    call = {"id": "1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    messages: Any = [
        {"role": "user", "content": "Look", "files": {"a": object()}, "cache_breakpoint": True},
        {"role": "assistant", "content": None, "tool_calls": [call], "raw_tool_call_parts": [object()]},
        {"role": "tool", "tool_call_id": "1", "name": "run", "content": "long " * 50_000},
    ]
    shown: Any = llm._mirror(messages, None).window(messages)
    assert shown[0] is messages[0] and shown[1] is messages[1]
    cleared: Any = llm._mirror(messages, None).smaller(RuntimeError("prompt is too long"), messages)
    assert cleared[-1]["name"] == "run" and len(cleared[-1]["content"]) < len(messages[-1]["content"])


def test_the_example_of_the_page_runs(stand_in: StandIn, tmp_path: Path) -> None:
    assert run_example(examples("guides/adapters.md")["CrewAI"], tmp_path, stand_in).strip()
    assert (tmp_path / "memory.db").exists()


def test_a_store_holds_the_loop_up_nowhere(
    stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = threads_of_sessions(monkeypatch)
    said: Any = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi"}]
    llm = LookbackLLM(model(stand_in), store=tmp_path / "memory.db")
    assert asyncio.run(llm.acall([*said, {"role": "user", "content": "And now?"}]))
    assert threads and threading.main_thread() not in threads
