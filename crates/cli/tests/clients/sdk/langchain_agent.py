"""LangChain's agent, with a model of OpenAI or Anthropic."""

import os
import sys

from langchain.agents import create_agent
from langchain_core.tools import tool

from shell import FIRST, SECOND
from shell import run as run_command


@tool
def run(command: str) -> str:
    """Runs a command."""
    return run_command(command)


if sys.argv[1] == "openai":
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="m1", base_url=os.environ["URL"], api_key="x")
else:
    from langchain_anthropic import ChatAnthropic

    model = ChatAnthropic(model="claude-opus-4-6", base_url=os.environ["URL"], api_key="x", max_tokens=4096)
agent = create_agent(model, [run], system_prompt="You help.")
messages = []
for prompt in [FIRST, SECOND]:
    messages.append({"role": "user", "content": prompt})
    messages = agent.invoke({"messages": messages}, {"recursion_limit": 100})["messages"]
text = messages[-1].text
assert text == "All steps up to 24 are done.", messages[-1]
