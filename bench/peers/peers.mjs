// The windows of the Vercel AI SDK, made by its own code, as a program for `bench peers` (see `bench/src/peers.rs`).
//
//     node peers.mjs --list
//     node peers.mjs NAME

import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'
import { pruneMessages } from 'ai'

const require = createRequire(import.meta.url)
const { version } = JSON.parse(readFileSync(require.resolve('ai/package.json'), 'utf8'))

// As the documentation prunes the messages before each step.
const PEERS = {
  'vercel-prune-messages': messages =>
    pruneMessages({ messages, reasoning: 'all', toolCalls: 'before-last-10-messages', emptyMessages: 'remove' })
}

const textOf = message =>
  typeof message.content === 'string'
    ? message.content
    : (message.content ?? []).map(part => part.text ?? '').join('\n')

/** A message in the form of the SDK. Its parts say which message of the history they are from. */
function model(message, at, names) {
  if (message.role === 'tool') {
    const output = { type: 'text', value: textOf(message) }
    const toolName = names.get(message.tool_call_id) ?? 'unknown'
    return { role: 'tool', content: [{ type: 'tool-result', toolCallId: message.tool_call_id, toolName, output }], at }
  }
  if (message.role !== 'assistant') {
    return { role: message.role === 'developer' ? 'system' : message.role, content: textOf(message), at }
  }
  const content = textOf(message) === '' ? [] : [{ type: 'text', text: textOf(message) }]
  for (const call of message.tool_calls ?? []) {
    names.set(call.id, call.function.name)
    content.push({ type: 'tool-call', toolCallId: call.id, toolName: call.function.name, input: call.function.arguments })
  }
  return { role: 'assistant', content, at }
}

/** What is sent: the index of a message, or a message of which parts are gone. */
function sent(message, whole) {
  if (message.role !== 'assistant' || message.content.length === whole.content.length) return message.at
  const text = message.content.filter(part => part.type === 'text').map(part => part.text)
  const calls = message.content.filter(part => part.type === 'tool-call')
  const chat = { role: 'assistant', content: text.join('\n') }
  if (calls.length > 0) {
    chat.tool_calls = calls.map(call => ({
      id: call.toolCallId,
      type: 'function',
      function: { name: call.toolName, arguments: call.input }
    }))
  }
  return { from: null, as: chat }
}

function replay(prune, { messages, calls }) {
  const [names, table, known] = [new Map(), [], new Map()]
  const history = messages.map((message, at) => model(message, at, names))
  const [windows, micros] = [[], []]
  for (const call of calls) {
    const start = performance.now()
    const window = prune(history.slice(0, call))
    micros.push((performance.now() - start) * 1e3)
    windows.push(
      window.map(message => {
        const element = sent(message, history[message.at])
        const key = JSON.stringify(element)
        if (!known.has(key)) known.set(key, table.push(element) - 1)
        return known.get(key)
      })
    )
  }
  return { dialect: 'openai-chat', table, windows, micros, version: `ai ${version}` }
}

const [name] = process.argv.slice(2)
if (name === '--list') {
  console.log(Object.keys(PEERS).join('\n'))
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(replay(PEERS[name], JSON.parse(line))))
  }
}
