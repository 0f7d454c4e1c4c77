"""The Python SDK of Google."""

import os

from google import genai
from google.genai import types

from shell import FIRST, SCHEMA, SECOND, run

client = genai.Client(api_key="x", http_options={"base_url": os.environ["URL"]})
declared = {"name": "run", "description": "Runs a command.", "parameters_json_schema": SCHEMA}
config = types.GenerateContentConfig(system_instruction="You help.", tools=[{"function_declarations": [declared]}])
contents = []
for turn, prompt in enumerate([FIRST, SECOND]):
    contents.append(types.Content(role="user", parts=[types.Part(text=prompt)]))
    while True:
        request = {"model": "gemini-3-pro", "contents": contents, "config": config}
        if turn == 0:
            parts = client.models.generate_content(**request).candidates[0].content.parts
        else:
            chunks = client.models.generate_content_stream(**request)
            parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or []]
        contents.append(types.Content(role="model", parts=parts))
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            break
        answers = [
            types.FunctionResponse(id=call.id, name=call.name, response={"output": run(call.args["command"])})
            for call in calls
        ]
        contents.append(types.Content(role="user", parts=[types.Part(function_response=answer) for answer in answers]))
text = "".join(part.text or "" for part in parts)
assert text == "All steps up to 24 are done.", parts
