"""The Python SDK of OpenAI, with Responses."""

import json
import os

from openai import OpenAI

from shell import FIRST, SCHEMA, SECOND, run

client = OpenAI(base_url=os.environ["URL"], api_key="x")
tools = [{"type": "function", "name": "run", "description": "Runs a command.", "parameters": SCHEMA}]
items = []
for turn, prompt in enumerate([FIRST, SECOND]):
    items.append({"role": "user", "content": prompt})
    while True:
        request = {
            "model": "m1", "instructions": "You help.", "input": items, "tools": tools, "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if turn == 0:
            response = client.responses.create(**request)
        else:
            with client.responses.stream(**request) as stream:
                response = stream.get_final_response()
        items += response.output
        calls = [item for item in response.output if item.type == "function_call"]
        for call in calls:
            output = run(json.loads(call.arguments)["command"])
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
        if not calls:
            break
assert response.output_text == "All steps up to 24 are done.", response
