// Facts that outlive a conversation: a person states them, a model writes them with tools, and the next session reads them.

import { Memory } from 'lookback'

const memory = await Memory.open('chat-1', { store: 'memory.db' })
await memory.remember('preference', 'Use pnpm, not npm.')
await memory.remember('finding', 'It listens on port 5050.', { about: 'the port', by: { tool: 'read_file' } })
// What a model calls, if it has `await memory.tools()` among its tools.
console.log((await memory.call('memory_decision', { content: 'We keep the format.' })).text)

const other = await Memory.open('chat-2', { store: 'memory.db' })
console.log((await other.sheet()).text)
