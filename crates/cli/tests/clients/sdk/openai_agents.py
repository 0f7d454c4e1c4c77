"""OpenAI's Agents SDK for Python, with its own session."""

import asyncio
import os

from agents import Agent, OpenAIResponsesModel, Runner, SQLiteSession, function_tool
from openai import AsyncOpenAI

from shell import FIRST, SECOND
from shell import run as run_command


@function_tool(name_override="run")
def run(command: str) -> str:
    """Runs a command."""
    return run_command(command)


async def main():
    client = AsyncOpenAI(base_url=os.environ["URL"], api_key="x")
    model = OpenAIResponsesModel(model="m1", openai_client=client)
    agent = Agent(name="worker", instructions="You help.", model=model, tools=[run])
    session = SQLiteSession("conv-42", "agents.db")
    await Runner.run(agent, FIRST, session=session, max_turns=40)
    streamed = Runner.run_streamed(agent, SECOND, session=session, max_turns=40)
    async for _ in streamed.stream_events():
        pass
    assert streamed.final_output == "All steps up to 24 are done.", streamed.final_output


asyncio.run(main())
