"""The Python SDK of OpenAI, with Chat Completions."""

import json
import os

from openai import OpenAI

from shell import FIRST, SCHEMA, SECOND, run

client = OpenAI(base_url=os.environ["URL"], api_key="x")
tools = [{"type": "function", "function": {"name": "run", "description": "Runs a command.", "parameters": SCHEMA}}]
messages = [{"role": "system", "content": "You help."}]
for turn, prompt in enumerate([FIRST, SECOND]):
    messages.append({"role": "user", "content": prompt})
    while True:
        if turn == 0:
            message = client.chat.completions.create(model="m1", messages=messages, tools=tools).choices[0].message
        else:
            with client.chat.completions.stream(model="m1", messages=messages, tools=tools) as stream:
                message = stream.get_final_completion().choices[0].message
        messages.append(message)
        for call in message.tool_calls or []:
            output = run(json.loads(call.function.arguments)["command"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
        if not message.tool_calls:
            break
assert message.content == "All steps up to 24 are done.", message
