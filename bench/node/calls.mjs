// Measures the time of calls in Node: Lookback compared with the AI SDK, in one run.
//
// Build the packages as they are published (docs/start/packages.md), and install them with the AI SDK, which needs
// Node 22:
//
//     npm install --install-links target/npm/native-* target/npm/lookback ai@7.0.173
//     node calls.mjs EXAMPLES    # the folder `examples` of the project

import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fit, Session } from 'lookback'

const recorded = readFileSync(join(process.argv[2], 'session.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line))

/** Returns the median time of the runs, in microseconds. */
async function median(work, runs = 30) {
  const times = []
  for (let run = 0; run < runs; run++) {
    const begun = performance.now()
    await work()
    times.push((performance.now() - begun) * 1e3)
  }
  return times.sort((a, b) => a - b)[runs >> 1]
}

async function told(name, work, runs) {
  console.log(`  ${name.padEnd(52)} ${(await median(work, runs)).toFixed(1).padStart(12)} µs`)
}

const messages = recorded.slice(0, 200)
console.log(`${messages.length} messages of a recorded session, ${JSON.stringify(messages).length} bytes`)
const session = await Session.open('s', { model: 'gpt-4o', policy: 'none' })
await session.push(messages)
const fresh = { role: 'user', content: 'And now?' }
await told('push one, window, sources', async () => {
  await session.push(fresh)
  return (await session.window()).sources.length
})
const known = await Session.open('k', { model: 'gpt-4o', policy: 'none' })
await known.sync(messages)
await told('sync all, which are known', () => known.sync(messages))
const texts = messages.map((message) => JSON.stringify(message))
await told('sync all, which are known, as text', () => known.sync(texts))
await told('window.messages', async () => (await known.window()).messages)
await told('fit', () => fit(messages, { model: 'gpt-4o' }), 5)

const { pruneMessages } = await import('ai')
/** Returns a conversation with short messages. Every fourth message is a tool result. */
function conversation(length, call, result) {
  return Array.from({ length }, (_, number) => {
    const turn = number - (number % 4)
    if (number % 4 === 0) return { role: 'user', content: `Question ${turn}: what is in the file?` }
    if (number % 4 === 1) return call(`c${turn}`)
    if (number % 4 === 2) return result(`c${turn}`, `The file has line ${turn}. `.repeat(8))
    return { role: 'assistant', content: `It has line ${turn}.` }
  })
}

for (const length of [100, 1_000, 10_000, 100_000]) {
  console.log(`${length} messages, the newest 40 are sent`)
  const ours = await Session.open('s', { policy: 'messages:max_messages=40,target_messages=20' })
  const call = (id) => ({ role: 'assistant', content: '', tool_calls: [{ type: 'function', id, function: { name: 'read', arguments: '{}' } }] })
  await ours.push(conversation(length, call, (id, text) => ({ role: 'tool', tool_call_id: id, content: text })))
  let number = 0
  await told('Lookback: push, window, messages', async () => {
    await ours.push({ role: 'user', content: `New ${number++}` })
    return (await ours.window()).messages
  })
  const parts = (type, more) => [{ type, toolName: 'read', ...more }]
  const theirs = conversation(
    length,
    (toolCallId) => ({ role: 'assistant', content: parts('tool-call', { toolCallId, input: {} }) }),
    (toolCallId, value) => ({ role: 'tool', content: parts('tool-result', { toolCallId, output: { type: 'text', value } }) }),
  )
  await told('AI SDK: pruneMessages', () => pruneMessages({ messages: theirs, toolCalls: 'before-last-40-messages' }), 10)
}

const before = process.memoryUsage().rss
const open = []
for (let number = 0; number < 1_000; number++) {
  const one = await Session.open(`s${number}`)
  await one.push(conversation(40, () => ({ role: 'assistant', content: 'I look.' }), () => ({ role: 'user', content: 'It is empty.' })))
  open.push(one)
}
console.log(`memory of an open session with 40 messages${' '.repeat(14)} ${((process.memoryUsage().rss - before) / open.length / 1024).toFixed(1)} KiB`)

for (const name of ['lookback', 'ai']) {
  const times = Array.from({ length: 5 }, () => Number(execFileSync(process.execPath, ['--input-type=module', '-e', `const b = performance.now(); await import('${name}'); console.log(performance.now() - b)`])))
  console.log(`import ${name.padEnd(47)} ${times.sort((a, b) => a - b)[2].toFixed(1).padStart(12)} ms`)
}
