"""A conversation whose older part is replaced by a summary, which a function of the program writes."""

import lookback


def summarize(ask: lookback.Ask) -> str:
    # A model would get `ask.system` and `ask.prompt` here, and have `ask.budget` tokens for the answer.
    return f"They spoke about {ask.prompt.count('user:')} questions."


session = lookback.Session("chat-1", policy="rolling-summary:window_size=6", summarizer=summarize)
for number in range(1, 11):
    session.push({"role": "user", "content": f"What is {number} times {number}?"})
    session.window()
    session.push({"role": "assistant", "content": f"It is {number * number}."})
    session.wait_for_summary()

for message in session.window().messages:
    print(f"{message['role']}: {message['content']}")
print(len(session.messages()), "messages are kept")
