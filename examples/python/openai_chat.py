"""A chat over OpenAI's API that goes on after a restart: each line of standard input is a question."""

import sys

import lookback
import openai

client = openai.OpenAI()
session = lookback.Session("chat-1", store="memory.db", model="gpt-4o")

for question in sys.stdin:
    session.push({"role": "user", "content": question})
    answer = client.chat.completions.create(model="gpt-4o", messages=session.window().messages)
    session.answered(answer)
    print(answer.choices[0].message.content)
