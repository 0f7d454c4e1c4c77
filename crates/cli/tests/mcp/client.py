"""Uses `lookback mcp` as its users do: with the official Python client, over both transports and both generations of
the protocol.

    .venv/bin/python crates/cli/tests/mcp/client.py target/debug/lookback

Prints a line for each case, and stops at the first one that fails.
"""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

LOOKBACK = str(Path(sys.argv[1]).resolve())
PROJECT = Path(__file__).resolve().parents[4]
EXAMPLE = PROJECT / "examples" / "session.jsonl"
PAGE = PROJECT / "docs" / "guides" / "mcp.md"
TOKEN = "correct-horse-battery-staple"
MODES = ["auto", "legacy"]
SERVERS = ["mcpServers", "servers", "context_servers", "mcp", "mcp_servers"]


class Lab:
    """A folder with a store that contains the example session."""

    def __init__(self, folder):
        self.folder = folder
        self.store = os.path.join(folder, "memory.db")
        replay = [LOOKBACK, "replay", str(EXAMPLE), "--policy", "none", "--json", "--store", self.store]
        subprocess.run(replay, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def stdio(self, *args, mode="auto"):
        parameters = StdioServerParameters(command=LOOKBACK, args=["mcp", "--store", self.store, *args])
        return Client(parameters, mode=mode)

    @contextlib.contextmanager
    def listening(self, *args):
        """Starts a server and returns its address. The server must end cleanly when it is stopped."""
        command = [LOOKBACK, "mcp", "--store", self.store, "--http", "127.0.0.1:0", *args]
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "SECRET": TOKEN})
        try:
            yield server.stderr.readline().removeprefix("listening on ").strip()
            server.terminate()
            assert server.wait(timeout=120) == 0
            assert server.stderr.read() == ""
        finally:
            server.kill()

    @contextlib.asynccontextmanager
    async def each(self, *args):
        """Returns a client for each transport and generation of the protocol."""
        async with contextlib.AsyncExitStack() as stack:
            url = stack.enter_context(self.listening(*args))
            clients = [self.stdio(*args, mode=mode) for mode in MODES] + [Client(url, mode=mode) for mode in MODES]
            yield [await stack.enter_async_context(client) for client in clients]


async def refusal(awaitable):
    """Returns the protocol error that answers a request."""
    try:
        answer = await awaitable
    except MCPError as error:
        return error.error
    raise AssertionError(f"not refused: {answer}")


async def text_of(client, address):
    [content] = (await client.read_resource(address)).contents
    assert content.uri == address and content.mime_type == "text/plain"
    return content.text


async def the_server_introduces_itself(lab):
    async with lab.each() as clients:
        for client in clients:
            assert client.server_info.name == "lookback"
            assert "remember" in client.instructions
            capabilities = client.server_capabilities
            assert capabilities.tools and capabilities.resources and capabilities.prompts
        assert [client.protocol_version for client in clients] == ["2026-07-28", "2025-11-25"] * 2


async def told(client, tool, **arguments):
    """Returns the text with which a tool answers. Its errors fail the test."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.content[0].text


async def wrong(client, tool, **arguments):
    """Returns the text of a tool's error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result
    return result.content[0].text


async def each_tool_is_listed_and_carried_out(lab):
    async with lab.each() as clients:
        for n, client in enumerate(clients):
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert all("session" not in tool.input_schema["properties"] for tool in tools.values())
            finding = await told(client, "memory_finding", content=f"Service {n} has port 505{n}.", confidence=0.9)
            found = finding.split()[0]
            blocker = (await told(client, "memory_blocker", content=f"Service {n} does not start.")).split()[0]
            assert blocker in await told(client, "memory_blocker", resolves=blocker, **{"with": "A restart."})
            await told(client, "memory_correction", content=f"Port 505{n} is right.", about=f"port {n}")
            await told(client, "memory_preference", content=f"Call service {n} by its name.")
            await told(client, "memory_constraint", content=f"Service {n} stays up.")
            await told(client, "memory_decision", content=f"Service {n} is kept.", about=f"service {n}")
            assert f"505{n}" in await told(client, "memory_search", query=f"service {n} port")
            assert f"505{n}" in await told(client, "memory_get", id=found)
            await told(client, "memory_forget", id=found)
            assert found in await wrong(client, "memory_forget", id=found)
            sheet = await told(client, "memory_get")
            assert f"Service {n} is kept." in sheet and f"has port 505{n}" not in sheet, sheet
            sheet = await text_of(client, "lookback://facts/sessions/mcp")
            assert f"Service {n} is kept." in sheet, sheet
            assert f"Service {n} stays up." in await text_of(client, "lookback://facts/shared")
            # Every tool except one fails without arguments.
            for name in tools.keys() - {"memory_get"}:
                assert await wrong(client, name)
            reads = {name for name, tool in tools.items() if tool.annotations.read_only_hint}
            assert reads == {"memory_get", "memory_search", "recall"}, reads
            assert "no argument" in await wrong(client, "memory_get", session="replay/session")


async def messages_are_kept_and_recalled(lab):
    async with lab.each() as clients:
        for n, client in enumerate(clients):
            said = [
                {"role": "user", "text": f"Which port has service {n}?"},
                {"role": "assistant", "text": f"Service {n} has port 505{n}."},
            ]
            first = 2 * n
            kept = await told(client, "remember_messages", messages=said)
            assert kept == f"2 messages are kept as #{first} to #{first + 1}; recall finds them.", kept
            assert "already kept" in await told(client, "remember_messages", messages=said)
            found = await told(client, "recall", query=f"port 505{n}")
            assert found.startswith(f"#{first + 1} assistant:"), found
            assert "Which port" in await told(client, "recall", entry=first)
            assert "`role`" in await wrong(client, "remember_messages", messages=[{"role": "system", "text": "x"}])
    async with lab.stdio() as client:
        assert "505" in await told(client, "recall", query="service 3 port")


async def a_prompt_loads_the_facts(lab):
    async with lab.each() as clients:
        for n, client in enumerate(clients):
            await told(client, "memory_finding", content=f"Service {n} has port 505{n}.", confidence=0.9)
            await told(client, "memory_constraint", content=f"Service {n} stays up.")
            prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
            assert prompts == ["facts", "shared_facts"], prompts
            [own] = (await client.get_prompt("facts")).messages
            assert own.role == "user"
            assert f"505{n}" in own.content.text and f"Service {n} stays up." in own.content.text
            [shared] = (await client.get_prompt("shared_facts")).messages
            assert f"505{n}" not in shared.content.text and f"Service {n} stays up." in shared.content.text
            assert (await refusal(client.get_prompt("nonesuch"))).code == -32602


async def a_fact_that_is_close_to_another_is_told(lab):
    async with lab.each() as clients:
        for client in clients:
            one = (await told(client, "memory_decision", content="Deploys go out on Fridays.")).split()[0]
            close = await told(client, "memory_decision", content="A deploy goes out on Friday.")
            assert f"Does it replace {one}?" in close, close
            over = await told(client, "memory_decision", content="A deploy goes out on Friday.", supersedes=[one])
            assert f"It replaces {one}" in over, over
            await told(client, "memory_forget", id=over.split()[0])


async def a_fact_outlives_the_server(lab):
    for n, mode in enumerate(MODES):
        with lab.listening() as url:
            async with Client(url, mode=mode) as client:
                await told(client, "memory_decision", content=f"It is kept as number {n}.", about=f"number {n}")
        with lab.listening() as url:
            async with Client(url, mode=mode) as client:
                assert f"number {n}" in await told(client, "memory_get")
        async with lab.stdio(mode=mode) as client:
            assert f"number {n}" in await told(client, "memory_get")


async def clients_at_the_same_time_lose_nothing(lab):
    async with lab.each() as clients, asyncio.TaskGroup() as group:
        for n in range(40):
            client = clients[n % len(clients)]
            group.create_task(told(client, "memory_decision", content=f"Number {n} is {n}.", about=f"number {n}"))
    async with lab.stdio() as client:
        sheet = await told(client, "memory_get")
        assert all(f"Number {n} is {n}." in sheet for n in range(40)), sheet


async def another_session_can_be_named_where_that_is_allowed(lab):
    async with lab.each("--any-session") as clients:
        for n, client in enumerate(clients):
            tools = (await client.list_tools()).tools
            assert all("session" in tool.input_schema["properties"] for tool in tools)
            await told(client, "memory_decision", content=f"Number {n} is elsewhere.", session=f"team/{n}")
            assert f"Number {n}" in await told(client, "memory_get", session=f"team/{n}")
            assert f"Number {n}" not in await told(client, "memory_get")
            assert "name" in await wrong(client, "memory_get", session="../x")


async def a_session_is_listed_and_read(lab):
    async with lab.each("--session", "replay/session") as clients:
        for client in clients:
            listed = [resource.uri for resource in (await client.list_resources()).resources]
            assert "lookback://sessions/replay%2Fsession" in listed, listed
            newest = await text_of(client, "lookback://sessions/replay%2Fsession")
            assert newest.startswith("Session replay/session: 216 messages, of which the newest 40 follow")
            before = newest.splitlines()[0].rsplit(" ", 1)[1]
            assert "newest 40 follow" in await text_of(client, before)
            found = await told(client, "recall", query="window", limit=1)
            entry = int(found.split(" ", 1)[0].removeprefix("#"))
            assert f"#{entry} " in await told(client, "recall", entry=entry)
            assert "#0 " in await told(client, "recall", **{"from": 0, "to": 3})
            first = await text_of(client, "lookback://sessions/replay%2Fsession/messages/0-3")
            assert "\n[0] " in first, first
            [template] = (await client.list_resource_templates()).resource_templates
            filled = template.uri_template.replace("{from}", "0").replace("{to}", "3")
            assert await text_of(client, filled) == first


async def other_sessions_are_hidden(lab):
    async with lab.each() as clients:
        for client in clients:
            listed = [resource.uri for resource in (await client.list_resources()).resources]
            assert not any("replay" in uri for uri in listed), listed
            hidden = await refusal(client.read_resource("lookback://sessions/replay%2Fsession"))
            missing = await refusal(client.read_resource("lookback://sessions/nonesuch"))
            assert (hidden.code, hidden.message) == (missing.code, missing.message)
    async with lab.each("--any-session") as clients:
        for client in clients:
            assert "216 messages" in await text_of(client, "lookback://sessions/replay%2Fsession")


async def what_there_is_not_is_refused(lab):
    async with lab.each() as clients:
        for client in clients:
            assert (await refusal(client.call_tool("nonesuch", {}))).code == -32602
            assert (await refusal(client.read_resource("lookback://sessions/.."))).code in (-32002, -32602)
            assert (await refusal(client.read_resource("file:///etc/passwd"))).code in (-32002, -32602)


def configured(page):
    """Returns the server's configuration from the page's JSON and TOML blocks, whose members differ by client."""
    for language, read in [("json", json.loads), ("toml", tomllib.loads)]:
        for block in page.split(f"```{language}\n")[1:]:
            settings = read(block.split("```")[0])
            [servers] = [settings[key] for key in settings if key in SERVERS]
            yield servers["lookback"]


async def the_page_says_how_to_configure_a_client(lab):
    page = PAGE.read_text()
    own = [server for server in configured(page) if "url" not in server]
    assert len(own) == page.count("```json") + page.count("```toml") - 1
    # If a client names no store, the server uses the user's.
    home = {"HOME": lab.folder, "XDG_DATA_HOME": os.path.join(lab.folder, "data")}
    for server in own:
        command = server["command"]
        command, args = (command[0], command[1:]) if isinstance(command, list) else (command, server["args"])
        assert command == "lookback"
        async with Client(StdioServerParameters(command=LOOKBACK, args=args, env=home)) as client:
            assert client.server_info.name == "lookback"
    assert os.path.exists(os.path.join(lab.folder, "data", "lookback", "lookback.db"))
    [running] = [server for server in configured(page) if "url" in server]
    with lab.listening() as url:
        assert url.split(":")[-1].split("/")[1] == running["url"].split(":")[-1].split("/")[1]
        async with httpx2.AsyncClient(headers=running["headers"]) as http:
            async with Client(streamable_http_client(url, http_client=http)) as client:
                assert client.server_info.name == "lookback"


async def a_token_is_wanted_and_taken(lab):
    with lab.listening("--token-env", "SECRET") as url:
        for mode in MODES:
            for headers, status in [({}, 401), ({"Authorization": "Bearer wrong"}, 401)]:
                async with httpx2.AsyncClient(headers=headers) as http:
                    assert (await http.post(url, json={})).status_code == status
            async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
                async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                    assert (await client.list_resources()).resources is not None


async def a_web_page_is_refused(lab):
    with lab.listening() as url:
        async with httpx2.AsyncClient() as http:
            for headers in [{"Host": "evil.example"}, {"Origin": "https://evil.example"}]:
                assert (await http.post(url, json={}, headers=headers)).status_code == 403


CASES = [
    the_server_introduces_itself,
    each_tool_is_listed_and_carried_out,
    messages_are_kept_and_recalled,
    a_prompt_loads_the_facts,
    a_fact_that_is_close_to_another_is_told,
    a_fact_outlives_the_server,
    clients_at_the_same_time_lose_nothing,
    another_session_can_be_named_where_that_is_allowed,
    a_session_is_listed_and_read,
    other_sessions_are_hidden,
    what_there_is_not_is_refused,
    the_page_says_how_to_configure_a_client,
    a_token_is_wanted_and_taken,
    a_web_page_is_refused,
]


def main():
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(asyncio.wait_for(case(Lab(folder)), timeout=600))
        print("ok:", case.__name__.replace("_", " "))


main()
