"""A chat over Anthropic's API that goes on after a restart: each line of standard input is a question."""

import sys

import anthropic
import lookback

client = anthropic.Anthropic()
session = lookback.Session("chat-1", store="memory.db", model="claude-sonnet-5")

for question in sys.stdin:
    session.push({"role": "user", "content": question})
    messages = session.window().messages
    answer = client.messages.create(model="claude-sonnet-5", max_tokens=1024, messages=messages)
    session.answered(answer)
    print(answer.content[0].text)
