// Agents of LangChain with the middleware, against a provider that enforces its rules.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { ChatAnthropic } from '@langchain/anthropic'
import { RemoveMessage } from '@langchain/core/messages'
import { MemorySaver } from '@langchain/langgraph'
import { ChatOpenAI } from '@langchain/openai'
import { AIMessage, type BaseMessage, createAgent, createMiddleware, HumanMessage, tool, ToolMessage } from 'langchain'
import { Session } from 'lookback'
import { lookbackMiddleware } from 'lookback/langchain'
import { z } from 'zod'
import { type StandIn, standIn } from './stand-in.js'

type Middleware = ReturnType<typeof lookbackMiddleware>

const POLICY = {
  limits: { body: 7000 },
  target: { body: 3500 },
  start: 'user_or_tool_pair',
  stages: [{ kind: 'clear_results', keep: 2 }, { kind: 'drop' }],
}
const TASK = { messages: [{ role: 'user', content: 'Run steps 1 to 24.' }] }
const THREAD = { configurable: { thread_id: 't' }, recursionLimit: 200 }

const run = tool(({ command }) => execFileSync('sh', ['-c', command], { encoding: 'utf8' }), {
  name: 'run',
  description: 'Runs a command.',
  schema: z.object({ command: z.string() }),
})

let server: StandIn
beforeEach(async () => { server = await standIn('--window', '12000') })
afterEach(() => server.stop())

const file = (): string => join(mkdtempSync(join(tmpdir(), 'lookback-')), 'memory.db')

function agent(middleware: Middleware[], tools: any[] = [run], checkpointer = new MemorySaver()) {
  const model = new ChatOpenAI({ model: 'gpt-4o', apiKey: 'k', maxRetries: 0, configuration: { baseURL: `${server.base}/v1` } })
  return createAgent({ model, tools, middleware, systemPrompt: 'Be brief.', checkpointer })
}

/** Returns a middleware that records what is sent, if it comes after Lookback's. */
function watch(sent: BaseMessage[][]): Middleware {
  return createMiddleware({
    name: 'Watch',
    wrapModelCall: (request, handler) => {
      sent.push(request.messages)
      return handler(request)
    },
  })
}

const results = (messages: BaseMessage[]): string[] =>
  messages.filter((message) => ToolMessage.isInstance(message)).map(({ text }) => text)

/** Asserts that the state contains every step, as its tool returned it. */
function mustBeWhole(messages: BaseMessage[]): void {
  const all = results(messages)
  assert.deepEqual(all.map((result) => result.split('\n')[0]), Array.from({ length: 24 }, (_, at) => `STEP ${at + 1} OF 24`))
  assert.ok(all.every((result) => result.length > 1000))
}

async function mustBeAccepted(): Promise<void> {
  const { refused, too_long } = await server.report()
  assert.deepEqual({ refused, too_long }, { refused: [], too_long: 0 })
}

test('without it the model refuses', async () => {
  await assert.rejects(agent([]).invoke(TASK, THREAD), /maximum context length/)
})

for (const stored of [false, true]) {
  for (const streamed of [false, true]) {
    const how = `${stored ? 'in a store' : 'in memory'}, ${streamed ? 'streamed' : 'whole'}`
    test(`an agent keeps a window, and its state whole: ${how}`, async () => {
      const store = stored ? file() : undefined
      const saver = new MemorySaver()
      const ask = async (task: typeof TASK): Promise<BaseMessage[]> => {
        const made = agent([lookbackMiddleware({ store, policy: POLICY })], [run], saver)
        if (!streamed) return (await made.invoke(task, THREAD)).messages
        let text = ''
        for await (const [chunk] of await made.stream(task, { ...THREAD, streamMode: 'messages' })) text += chunk.text
        assert.ok(text.length > 0)
        return ((await made.graph.getState(THREAD)).values as { messages: BaseMessage[] }).messages
      }
      const messages = await ask(TASK)
      mustBeWhole(messages)
      assert.equal(messages.at(-1)!.text, 'All steps up to 24 are done.')
      await mustBeAccepted()
      // Another process continues the thread.
      const all = await ask({ messages: [{ role: 'user', content: 'And now?' }] })
      assert.match(all.at(-1)!.text, /^This is answer \d+\.$/)
      await mustBeAccepted()
      if (store) {
        const kept = await (await Session.open('langchain/t', { store, dialect: 'anthropic' })).history()
        const said = kept.filter(({ role }) => role !== 'assistant').map(({ text }) => text)
        assert.deepEqual(said, all.filter((message) => !AIMessage.isInstance(message)).map(({ text }) => text))
      }
    })
  }
}

test('between cuts a request extends the one before', async () => {
  const sent: BaseMessage[][] = []
  const { messages } = await agent([lookbackMiddleware({ policy: POLICY }), watch(sent)]).invoke(TASK, THREAD)
  mustBeWhole(messages)
  const extended = sent.slice(1).filter((later, at) => isDeepStrictEqual(later.slice(0, sent[at]!.length), sent[at]))
  assert.ok(sent.length > 15 && extended.length > 0.5 * sent.length, `${extended.length} of ${sent.length}`)
  for (const window of sent) {
    const called = window.flatMap((message) => (AIMessage.isInstance(message) ? message.tool_calls!.map(({ id }) => id) : []))
    const answered = window.flatMap((message) => (ToolMessage.isInstance(message) ? [message.tool_call_id] : []))
    assert.deepEqual(called, answered)
  }
})

for (const inner of [[], [watch([])]]) {
  test(`a refused request is sent again with less, with ${inner.length} other middleware`, async () => {
    const { messages } = await agent([lookbackMiddleware({ policy: 'none' }), ...inner]).invoke(TASK, THREAD)
    mustBeWhole(messages)
    const { refused, too_long } = await server.report()
    assert.ok(too_long > 0)
    assert.deepEqual(refused, [])
  })
}

for (const streaming of [false, true]) {
  test(`no cut comes before thinking that is signed, while its tool loop is open, ${streaming ? 'streamed' : 'whole'}`, async () => {
    const sent: BaseMessage[][] = []
    const model = new ChatAnthropic({
      model: 'claude-opus-5-5',
      apiKey: 'k',
      anthropicApiUrl: server.base,
      thinking: { type: 'adaptive' },
      streaming,
    })
    const middleware = [lookbackMiddleware({ policy: POLICY }), watch(sent)]
    const made = createAgent({ model, tools: [run], middleware, systemPrompt: 'Be brief.', checkpointer: new MemorySaver() })
    let messages: BaseMessage[] = []
    for (const steps of ['1 to 6', '7 to 12', '13 to 18', '19 to 24']) {
      messages = (await made.invoke({ messages: [{ role: 'user', content: `Run steps ${steps}.` }] }, THREAD)).messages
    }
    assert.equal(results(messages).length, 24)
    await mustBeAccepted()
    const signed = sent.map((window) => JSON.stringify(window).split('signature').length - 1)
    assert.ok(signed.some((count, at) => at > 0 && count < signed[at - 1]!), `${signed}`)
  })
}

test('an error of another kind is not answered', async () => {
  await fetch(`${server.base}/stand-in/faults`, { method: 'POST', body: '401' })
  await assert.rejects(agent([lookbackMiddleware()]).invoke(TASK, THREAD), /401/)
  assert.equal((await server.report()).requests, 1)
})

test('a rewritten state is followed', async () => {
  const made = agent([lookbackMiddleware()])
  let messages: BaseMessage[] = []
  for (const content of ['One', 'Two', 'Three']) {
    messages = (await made.invoke({ messages: [{ role: 'user', content }] }, THREAD)).messages
  }
  const removed = messages.slice(0, 4).map(({ id }) => new RemoveMessage({ id: id! }))
  messages = (await made.invoke({ messages: [...removed, new HumanMessage('Four')] }, THREAD)).messages
  const asked = messages.filter((message) => HumanMessage.isInstance(message)).map(({ content }) => content)
  assert.deepEqual(asked, ['Three', 'Four'])
  assert.deepEqual((await server.report()).refused, [])
})

test('agents that are tools have sessions beside that of their thread', async () => {
  const store = file()
  const sent: BaseMessage[][] = []
  const helper = agent([lookbackMiddleware({ store }), watch(sent)], [])
  const answer = async ({ question }: { question: string }): Promise<string> =>
    (await helper.invoke({ messages: [{ role: 'user', content: question }] })).messages.at(-1)!.text
  const schema = z.object({ question: z.string() })
  const ask = tool(answer, { name: 'ask', description: 'Asks a helper.', schema })
  const made = agent([lookbackMiddleware({ store })], [ask])
  const calls = ['One?', 'Two?'].map((question) => `CALL ask ${JSON.stringify({ question })}`)
  const { messages } = await made.invoke({ messages: [{ role: 'user', content: calls.join(' ') }] }, THREAD)
  assert.deepEqual(sent.map((window) => window.map(({ text }) => text)).sort(), [['One?'], ['Two?']])
  const kept = await (await Session.open('langchain/t', { store, dialect: 'anthropic' })).history()
  const said = kept.filter(({ role }) => role !== 'assistant').map(({ text }) => text)
  assert.deepEqual(said, [messages[0]!.text, ...results(messages)])
})

test('a run without a thread is kept in memory', async () => {
  const store = file()
  const model = new ChatOpenAI({ model: 'gpt-4o', apiKey: 'k', configuration: { baseURL: `${server.base}/v1` } })
  const made = createAgent({ model, tools: [run], middleware: [lookbackMiddleware({ store, policy: POLICY })] })
  mustBeWhole((await made.invoke(TASK, { recursionLimit: 200 })).messages)
  await mustBeAccepted()
  assert.equal(existsSync(store), false)
})

/** Returns the middleware's window of messages. */
async function windowOf(middleware: Middleware, messages: BaseMessage[]): Promise<BaseMessage[]> {
  let window: BaseMessage[] = []
  const request: any = { messages, tools: [{ type: 'web_search_20250305', name: 'web_search' }], runtime: {} }
  await middleware.wrapModelCall!(request, async ({ messages }) => {
    window = messages
    return new AIMessage('Yes.')
  })
  return window
}

test('files and what only a provider knows are kept, and old pictures are cleared', async () => {
  const policy = { stages: [{ kind: 'clear_results', keep: 1 }], limits: { body: 300 }, target: { body: 100 } }
  const picture = { type: 'image', source_type: 'base64', mime_type: 'image/png', data: 'a picture '.repeat(20) }
  const shot = (id: string): BaseMessage[] => [
    new AIMessage({
      content: [{ type: 'reasoning', reasoning: 'I look.' }, { type: 'tool_use', id, name: 'shoot', input: {} }],
      tool_calls: [{ type: 'tool_call', id, name: 'shoot', args: {} }],
    }),
    new ToolMessage({
      id: `result-${id}`,
      tool_call_id: id,
      name: 'shoot',
      content: [picture, { type: 'text', text: 'line '.repeat(99) }],
      artifact: { id },
    }),
  ]
  const paper = { type: 'file', data: new Uint8Array([1, 2, 3]), mimeType: 'application/pdf' }
  const photo = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } }
  const history = [
    new HumanMessage({ content: [paper, photo, { type: 'text', text: 'Compare.' }] }),
    ...shot('a'),
    ...shot('b'),
    ...shot('c'),
  ]
  const window = await windowOf(lookbackMiddleware({ policy }), history)
  assert.deepEqual(window.map((message, at) => message === history[at]), [true, true, false, true, false, true, true])
  const cleared = window[2] as ToolMessage
  assert.deepEqual(cleared.content, [{ type: 'text', text: '[tool result cleared: 495 characters and 1 other items]' }])
  assert.deepEqual([cleared.id, cleared.tool_call_id, cleared.name, cleared.artifact], ['result-a', 'a', 'shoot', undefined])
})

test('a call without a result is answered', async () => {
  const call = { type: 'tool_call' as const, id: 'a', name: 'run', args: { command: 'ls' } }
  const messages = [new HumanMessage('Run it.'), new AIMessage({ content: '', tool_calls: [call] }), new HumanMessage('Stop.')]
  const answer = (await windowOf(lookbackMiddleware(), messages))[2] as ToolMessage
  assert.ok(ToolMessage.isInstance(answer))
  assert.deepEqual([answer.tool_call_id, answer.content], ['a', '[No result: the tool call was interrupted.]'])
})

test('calls that have the same identifier are given others, in the content, too', async () => {
  const call = (command: string) => ({ type: 'tool_call' as const, id: 'a', name: 'run', args: { command } })
  const use = (command: string) => ({ type: 'tool_use', id: 'a', name: 'run', input: { command } })
  const results = ['1', '2'].map((content) => new ToolMessage({ tool_call_id: 'a', content }))
  for (const content of ['', [{ type: 'text', text: 'Both.' }, use('ls'), use('pwd')]]) {
    const said = new AIMessage({ content, tool_calls: [call('ls'), call('pwd')] })
    const window = await windowOf(lookbackMiddleware(), [new HumanMessage('Run it.'), said, ...results])
    const [, { content: shown, tool_calls }, ...answers] = window as [HumanMessage, AIMessage, ...ToolMessage[]]
    const ids = tool_calls!.map(({ id }) => id)
    assert.equal(new Set(ids).size, 2)
    assert.deepEqual(tool_calls!.map(({ args }) => args['command']), ['ls', 'pwd'])
    assert.deepEqual(answers.map(({ tool_call_id, content }) => [tool_call_id, content]), [[ids[0], '1'], [ids[1], '2']])
    if (content) assert.deepEqual(shown, [content[0], ...[use('ls'), use('pwd')].map((each, at) => ({ ...each, id: ids[at] }))])
  }
})
