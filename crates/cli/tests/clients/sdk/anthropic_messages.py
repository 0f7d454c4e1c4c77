"""The Python SDK of Anthropic."""

import os
import sys

from anthropic import Anthropic, AnthropicBedrockMantle, AnthropicVertex

from shell import FIRST, SCHEMA, SECOND, run

if sys.argv[1:] == ["vertex"]:
    client = AnthropicVertex(base_url=os.environ["URL"], access_token="x", project_id="p", region="global")
elif sys.argv[1:] == ["bedrock"]:
    client = AnthropicBedrockMantle(base_url=os.environ["URL"], api_key="x", aws_region="us-east-1")
else:
    client = Anthropic(base_url=os.environ["URL"], api_key="x")
tools = [{"name": "run", "description": "Runs a command.", "input_schema": SCHEMA}]
messages = []
for turn, prompt in enumerate([FIRST, SECOND]):
    messages.append({"role": "user", "content": prompt})
    while True:
        request = {"model": "claude-opus-4-6", "max_tokens": 4096, "system": "You help.", "messages": messages, "tools": tools}
        if turn == 0:
            answer = client.messages.create(**request, thinking={"type": "enabled", "budget_tokens": 1024})
        else:
            with client.messages.stream(**request) as stream:
                answer = stream.get_final_message()
        messages.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            break
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": run(call.input["command"])} for call in calls
        ]
        messages.append({"role": "user", "content": results})
assert answer.content[-1].text == "All steps up to 24 are done.", answer
