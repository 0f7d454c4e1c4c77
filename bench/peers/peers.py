"""The windows of other libraries, made by their own code, as programs for `bench peers` (see `bench/src/peers.rs`).

    python peers.py --list
    python peers.py NAME

Each peer manages the history as its documentation shows, with limits near Lookback's `messages` and `tokens` where it has
none of its own. Where a library asks a model for a summary, a stand-in answers: the first line of each message, up to
4,000 characters.
"""

import asyncio
import importlib.metadata
import json
import sys
import time
import types


def text_of(message):
    """The text of a message in OpenAI's Chat format."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [] if isinstance(part, dict))


def arguments_of(call):
    try:
        arguments = json.loads(call["function"]["arguments"])
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"input": call["function"]["arguments"]}


def extract(texts):
    """The summary of the stand-in."""
    lines = (text.strip().partition("\n")[0] for text in texts)
    return "\n".join(line for line in lines if line)[:4_000]


class Table:
    """The messages that a peer sends, each once."""

    def __init__(self):
        self.elements, self.known = [], {}

    def add(self, element):
        key = json.dumps(element)
        if key not in self.known:
            self.known[key] = len(self.elements)
            self.elements.append(element)
        return self.known[key]


class LangChain:
    """The messages of LangChain. Each is the history's message, unless a middleware has made or changed it."""

    package = "langchain-core"

    def __init__(self):
        from langchain_core.messages import convert_to_messages, convert_to_openai_messages

        self.read, self.write, self.state, self.own = convert_to_messages, convert_to_openai_messages, [], {}

    def push(self, index, message):
        [read] = self.read([message])
        read.id = str(index)
        self.own[read.id] = read.content
        self.state.append(read)

    def sent(self, messages):
        for message in messages:
            if self.own.get(message.id) == message.content:
                yield int(message.id)
            else:
                yield {"from": None, "as": self.write([message])[0]}


class Trim(LangChain):
    """`trim_messages`, as the documentation trims the history before each call of a model."""

    def window(self):
        from langchain_core.messages import trim_messages
        from langchain_core.messages.utils import count_tokens_approximately

        return trim_messages(
            self.state,
            strategy="last",
            token_counter=count_tokens_approximately,
            max_tokens=32_000,
            start_on="human",
            end_on=("human", "tool"),
            include_system=True,
        )


class Summarize(LangChain):
    """`SummarizationMiddleware`, which changes the history in the state."""

    package = "langchain"

    def __init__(self):
        super().__init__()
        from langchain.agents.middleware import SummarizationMiddleware
        from langchain_core.language_models.fake_chat_models import FakeListChatModel

        def summarizer(messages):
            return extract(str(message.content) for message in messages)

        self.middleware = SummarizationMiddleware(
            FakeListChatModel(responses=[""]), trigger=("tokens", 32_000), keep=("messages", 20), summarizer=summarizer
        )

    def window(self):
        from langchain_core.messages import RemoveMessage

        change = self.middleware.before_model({"messages": self.state}, None)
        if change is not None:
            self.state = [message for message in change["messages"] if not isinstance(message, RemoveMessage)]
        return self.state


class Strands:
    """A conversation manager of Strands, which is called after each turn, or before each call of the model."""

    package = "strands-agents"
    per_turn = False

    def __init__(self):
        from strands.agent.conversation_manager import SlidingWindowConversationManager

        self.manager = SlidingWindowConversationManager(window_size=40, per_turn=self.per_turn)
        self.agent = types.SimpleNamespace(messages=[])
        self.system, self.own, self.spent = [], {}, 0.0

    def push(self, index, message):
        messages, role = self.agent.messages, message["role"]
        if role in ("system", "developer"):
            self.system.append(index)
        elif role == "tool":
            result = {"toolUseId": message["tool_call_id"], "content": [{"text": text_of(message)}], "status": "success"}
            block = {"toolResult": result}
            # The results of one answer are one message.
            if messages and messages[-1]["role"] == "user" and "toolResult" in messages[-1]["content"][-1]:
                messages[-1]["content"].append(block)
                self.own[id(messages[-1])][1].append(index)
            else:
                self.add("user", [block], index)
        else:
            if role == "user" and messages:
                start = time.perf_counter()
                self.manager.apply_management(self.agent)
                self.spent += time.perf_counter() - start
            calls = message.get("tool_calls") or []
            content = [{"text": text_of(message)}] if text_of(message) else []
            content += [
                {"toolUse": {"toolUseId": call["id"], "name": call["function"]["name"], "input": arguments_of(call)}}
                for call in calls
            ]
            self.add(role, content, index)

    def add(self, role, content, index):
        message = {"role": role, "content": content}
        self.agent.messages.append(message)
        # The list keeps the message alive, so that its identity is not used again.
        self.own[id(message)] = (message, [index])

    def window(self):
        if self.per_turn:
            self.manager.apply_management(self.agent)
        return self.agent.messages

    def sent(self, messages):
        yield from self.system
        for message in messages:
            yield from self.own[id(message)][1]


class StrandsPerCall(Strands):
    per_turn = True


class Everything:
    """The history as it is, for comparison: some recordings are broken themselves."""

    package = None

    def __init__(self):
        self.state = []

    def push(self, index, message):
        self.state.append(index)

    def window(self):
        return self.state

    def sent(self, indices):
        return indices


class Agents:
    """A session of OpenAI Agents with a limit. It is read at the beginning of a run, and the run adds its own items."""

    package = "openai-agents"
    dialect = "openai-responses"

    def __init__(self):
        from agents import SQLiteSession
        from agents.memory import SessionSettings

        self.session = SQLiteSession("peer", session_settings=SessionSettings(limit=40))
        self.loop = asyncio.new_event_loop()
        self.system, self.read, self.run, self.spent = [], [], [], 0.0

    def push(self, index, message):
        role, text = message["role"], text_of(message)
        if role in ("system", "developer"):
            # Instructions are no items of a session.
            self.system.append({"role": role, "content": text, "at": index})
        elif role == "user":
            self.begin({"role": role, "content": text, "at": index})
        elif role == "tool":
            call = message["tool_call_id"]
            self.run.append({"type": "function_call_output", "call_id": call, "output": text, "at": index})
        else:
            if text or not message.get("tool_calls"):
                self.run.append({"role": role, "content": text, "at": index})
            for call in message.get("tool_calls") or []:
                function = call["function"]
                item = {"type": "function_call", "call_id": call["id"], "at": index}
                self.run.append({**item, "name": function["name"], "arguments": function["arguments"]})

    def begin(self, asked):
        """Begins a run, as the runner does."""
        from agents.run_internal.session_persistence import prepare_input_with_session

        self.loop.run_until_complete(self.session.add_items(self.run))
        start = time.perf_counter()
        prepared = self.loop.run_until_complete(prepare_input_with_session([asked], self.session, None))
        self.spent += time.perf_counter() - start
        self.read, self.run = prepared[0], []
        self.loop.run_until_complete(self.session.add_items([asked]))

    def window(self):
        return self.system + self.read + self.run

    def sent(self, items):
        for item in items:
            item = dict(item)
            yield {"from": item.pop("at"), "as": item}


class Framework:
    """Microsoft Agent Framework's compaction of a context window."""

    package = "agent-framework-core"

    def __init__(self):
        from agent_framework import CharacterEstimatorTokenizer, ContextWindowCompactionStrategy

        self.tokenizer = CharacterEstimatorTokenizer()
        self.strategy = ContextWindowCompactionStrategy(
            max_context_window_tokens=64_000, max_output_tokens=8_000, tokenizer=self.tokenizer
        )
        self.loop = asyncio.new_event_loop()
        self.state, self.own = [], {}

    def push(self, index, message):
        from agent_framework import Content, Message

        contents = [Content.from_text(text_of(message))] if text_of(message) else []
        if message["role"] == "tool":
            contents = [Content.from_function_result(message["tool_call_id"], result=text_of(message))]
        for call in message.get("tool_calls") or []:
            function = call["function"]
            contents.append(
                Content.from_function_call(call["id"], function["name"], arguments=function["arguments"])
            )
        made = Message(message["role"], contents, message_id=str(index))
        self.own[id(made)] = index
        self.state.append(made)

    def window(self):
        from agent_framework import apply_compaction

        made = apply_compaction(self.state, strategy=self.strategy, tokenizer=self.tokenizer)
        return self.loop.run_until_complete(made)

    def sent(self, messages):
        for message in messages:
            if id(message) in self.own:
                yield self.own[id(message)]
            else:
                yield {"from": None, "as": {"role": str(message.role), "content": message.text}}


class Headroom:
    """`headroom`'s compression of the messages of a request."""

    package = "headroom-ai"

    def __init__(self):
        self.state = []

    def push(self, index, message):
        self.state.append(message)

    def window(self):
        from headroom import compress

        return compress(self.state).messages

    def sent(self, messages):
        known = {json.dumps(message, sort_keys=True): index for index, message in enumerate(self.state)}
        for message in messages:
            index = known.get(json.dumps(message, sort_keys=True))
            yield {"from": None, "as": message} if index is None else index


PEERS = {
    "everything": Everything,
    "langchain-trim-messages": Trim,
    "langchain-summarization": Summarize,
    "strands-sliding-window": Strands,
    "strands-sliding-window-per-turn": StrandsPerCall,
    "openai-agents-session-limit": Agents,
    "agent-framework-context-window": Framework,
    "headroom": Headroom,
}


def replay(kind, messages, calls):
    peer, table, windows, micros, known = kind(), Table(), [], [], 0
    for call in calls:
        for index in range(known, call):
            peer.push(index, messages[index])
        known = call
        start = time.perf_counter()
        window = peer.window()
        # A peer that works between calls says how long that took.
        seconds, peer.spent = time.perf_counter() - start + getattr(peer, "spent", 0.0), 0.0
        micros.append(seconds * 1e6)
        windows.append([table.add(element) for element in peer.sent(window)])
    dialect = getattr(kind, "dialect", "openai-chat")
    return {"dialect": dialect, "table": table.elements, "windows": windows, "micros": micros}


def main():
    if sys.argv[1:] == ["--list"]:
        return print("\n".join(PEERS))
    kind = PEERS[sys.argv[1]]
    version = f"{kind.package} {importlib.metadata.version(kind.package)}" if kind.package else "-"
    for line in sys.stdin:
        asked = json.loads(line)
        answer = replay(kind, asked["messages"], asked["calls"])
        print(json.dumps({**answer, "version": version}), flush=True)


if __name__ == "__main__":
    main()
