"""Facts that outlive a conversation: a person states them, a model writes them with tools, and the next session reads them."""

import lookback

memory = lookback.Memory("chat-1", store="memory.db")
memory.remember("preference", "Use pnpm, not npm.")
memory.remember("finding", "It listens on port 5050.", about="the port", by={"tool": "read_file"})
# What a model calls, if it has `memory.tools()` among its tools.
print(memory.call("memory_decision", {"content": "We keep the format."})["text"])

other = lookback.Memory("chat-2", store="memory.db")
print(other.sheet()["text"])
