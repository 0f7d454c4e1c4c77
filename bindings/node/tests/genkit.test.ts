// Calls of Genkit with the middleware, against a provider that enforces its rules.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { openAICompatible } from '@genkit-ai/compat-oai'
import { type MessageData, z } from 'genkit'
import { genkit, InMemorySessionStore } from 'genkit/beta'
import type { ModelMiddleware } from 'genkit/model'
import { Session } from 'lookback'
import { lookback } from 'lookback/genkit'
import { type StandIn, standIn } from './stand-in.js'

const POLICY = {
  limits: { body: 7000 },
  target: { body: 3500 },
  start: 'user_or_tool_pair',
  stages: [{ kind: 'clear_results', keep: 2 }, { kind: 'drop' }],
}
const TASK = 'Run steps 1 to 24.'

let server: StandIn
beforeEach(async () => { server = await standIn('--window', '12000') })
afterEach(() => server.stop())

const file = (): string => join(mkdtempSync(join(tmpdir(), 'lookback-')), 'memory.db')

function setUp() {
  const provider = openAICompatible({ name: 'server', apiKey: 'k', baseURL: `${server.base}/v1`, maxRetries: 0 })
  const ai = genkit({ plugins: [provider] })
  const input = z.object({ command: z.string() })
  const about = { name: 'run', description: 'Runs a command.', inputSchema: input, outputSchema: z.string() }
  const run = ai.defineTool(about, async ({ command }) => execFileSync('sh', ['-c', command], { encoding: 'utf8' }))
  const common = { model: 'server/gpt-4o', system: 'Be brief.', tools: [run], maxTurns: 60 }
  return { ai, common }
}

/** Returns a middleware that records what is sent, if it comes after Lookback's. */
function watch(sent: MessageData[][]): ModelMiddleware {
  return (request, next) => {
    sent.push(request.messages)
    return next(request)
  }
}

const results = (messages: MessageData[]): string[] => {
  const responses = messages.flatMap(({ content }) => content.flatMap(({ toolResponse }) => toolResponse ?? []))
  return responses.map(({ output }) => output as string)
}

function mustBeWhole(messages: MessageData[]): void {
  const all = results(messages)
  assert.deepEqual(all.map((result) => result.split('\n')[0]), Array.from({ length: 24 }, (_, at) => `STEP ${at + 1} OF 24`))
  assert.ok(all.every((result) => result.length > 1000))
}

async function mustBeAccepted(): Promise<void> {
  const { refused, too_long } = await server.report()
  assert.deepEqual({ refused, too_long }, { refused: [], too_long: 0 })
}

test('without it the model refuses', async () => {
  const { ai, common } = setUp()
  await assert.rejects(ai.generate({ ...common, prompt: TASK }), /maximum context length/)
})

for (const stored of [false, true]) {
  for (const streamed of [false, true]) {
    const how = `${stored ? 'in a store' : 'in memory'}, ${streamed ? 'streamed' : 'whole'}`
    test(`a model sees a window, and the messages stay whole: ${how}`, async () => {
      const store = stored ? file() : undefined
      const ask = async (prompt: string, messages: MessageData[]): Promise<MessageData[]> => {
        const { ai, common } = setUp()
        const window = lookback({ store, policy: POLICY })
        const options = { ...common, messages, prompt, use: [window({ session: 'chat-1' })] }
        if (!streamed) return (await ai.generate(options)).messages
        const { stream, response } = ai.generateStream(options)
        let text = ''
        for await (const chunk of stream) text += chunk.text
        assert.ok(text.length > 0)
        return (await response).messages
      }
      const messages = await ask(TASK, [])
      mustBeWhole(messages)
      assert.equal(messages.at(-1)!.content[0]!.text, 'All steps up to 24 are done.')
      await mustBeAccepted()
      // Another process continues the conversation.
      const all = await ask('And now?', messages.slice(1))
      assert.match(all.at(-1)!.content[0]!.text!, /^This is answer \d+\.$/)
      await mustBeAccepted()
      if (store) {
        const kept = await (await Session.open('genkit/chat-1', { store })).history()
        const said = kept.filter(({ role }) => role !== 'assistant').map(({ text }) => text)
        assert.deepEqual(said, [TASK, ...results(all), 'And now?'])
      }
    })
  }
}

test('between cuts a request extends the one before', async () => {
  const { ai, common } = setUp()
  const sent: MessageData[][] = []
  const { messages } = await ai.generate({ ...common, prompt: TASK, use: [lookback({ policy: POLICY })(), watch(sent)] })
  mustBeWhole(messages)
  const extended = sent.slice(1).filter((later, at) => isDeepStrictEqual(later.slice(0, sent[at]!.length), sent[at]))
  assert.ok(sent.length > 15 && extended.length > 0.5 * sent.length, `${extended.length} of ${sent.length}`)
  for (const window of sent) {
    const parts = window.flatMap(({ content }) => content)
    const called = parts.flatMap(({ toolRequest }) => (toolRequest ? [toolRequest.ref] : []))
    assert.deepEqual(called, parts.flatMap(({ toolResponse }) => (toolResponse ? [toolResponse.ref] : [])))
  }
})

for (const streamed of [false, true]) {
  test(`a refused request is sent again with less, ${streamed ? 'streamed' : 'whole'}`, async () => {
    const { ai, common } = setUp()
    const options = { ...common, prompt: TASK, use: [lookback({ policy: 'none' })()] }
    const { messages } = await (streamed ? ai.generateStream(options).response : ai.generate(options))
    mustBeWhole(messages)
    const { refused, too_long } = await server.report()
    assert.ok(too_long > 0)
    assert.deepEqual(refused, [])
  })
}

test('an error of another kind is not answered', async () => {
  const { ai, common } = setUp()
  await fetch(`${server.base}/stand-in/faults`, { method: 'POST', body: '401' })
  await assert.rejects(ai.generate({ ...common, prompt: TASK, use: [lookback()()] }), /401/)
  assert.equal((await server.report()).requests, 1)
})

test('an agent has the window of its session, and what its tools generate has another', async () => {
  const store = file()
  const { ai, common } = setUp()
  const window = lookback({ store, policy: POLICY })
  const sent: MessageData[][] = []
  const about = { name: 'ask', description: 'Asks.', inputSchema: z.object({ question: z.string() }), outputSchema: z.string() }
  const ask = ai.defineTool(about, async ({ question }) => {
    const { text } = await ai.generate({ model: common.model, prompt: question, use: [window(), watch(sent)] })
    return `${question} ${text}`
  })
  const sessions = new InMemorySessionStore()
  const tools = [...common.tools, ask]
  const helper = ai.defineAgent({ ...common, tools, name: 'helper', use: [window()], store: sessions })
  const chat = helper.chat()
  await chat.send(TASK)
  await chat.send('CALL ask {"question":"One?"} CALL ask {"question":"Two?"}')
  await mustBeAccepted()
  assert.deepEqual(sent.map((messages) => messages.map(({ content }) => content[0]!.text)).sort(), [['One?'], ['Two?']])
  const messages = (await sessions.getSnapshot({ sessionId: chat.sessionId! }))!.state!.messages!
  mustBeWhole(messages.slice(0, -4))
  const kept = await (await Session.open(`genkit/${chat.sessionId}`, { store })).history()
  const said = kept.filter(({ role }) => role === 'tool').map(({ text }) => text)
  assert.deepEqual(said, results(messages))
})

test('a conversation that was changed is followed', async () => {
  const { ai, common } = setUp()
  const use = [lookback({ policy: 'messages:max_messages=3' })({ session: 's' })]
  let messages: MessageData[] = []
  for (const prompt of ['One', 'Two', 'Three']) {
    messages = (await ai.generate({ ...common, system: undefined, messages, prompt, use })).messages
  }
  messages = (await ai.generate({ ...common, messages: messages.slice(4), prompt: 'Four', use })).messages
  assert.deepEqual(messages.flatMap(({ role, content }) => (role === 'user' ? [content[0]!.text] : [])), ['Three', 'Four'])
  assert.deepEqual((await server.report()).refused, [])
})

test('calls without identifiers, files and what only a provider knows are kept, and old pictures are cleared', async () => {
  const policy = { stages: [{ kind: 'clear_results', keep: 1 }], limits: { body: 400 }, target: { body: 100 } }
  const picture = { media: { url: `data:image/png;base64,${'abcd'.repeat(50)}` } }
  const shot = (at: number): MessageData[] => [
    {
      role: 'model',
      content: [
        { reasoning: 'I look.', metadata: { thoughtSignature: `x${at}` } },
        { toolRequest: { name: 'shoot', input: `window ${at}` } },
        { toolRequest: { name: 'read', input: { path: 'a' } } },
        { toolRequest: { name: 'read', input: { path: 'b' } } },
      ],
    },
    {
      role: 'tool',
      content: [
        { toolResponse: { name: 'read', output: { lines: 'line '.repeat(50) } } },
        { toolResponse: { name: 'shoot', output: 'Done.', content: [picture] } },
        { toolResponse: { name: 'read', output: 'x' } },
      ],
    },
  ]
  const paper = { media: { url: 'https://example.com/a.pdf', contentType: 'application/pdf' } }
  const history: MessageData[] = [
    { role: 'user', content: [{ text: 'Compare.' }, paper] },
    ...[0, 1, 2].flatMap(shot),
  ]
  const { ai } = setUp()
  const model = ai.defineModel({ name: 'mine' }, async () => ({ message: { role: 'model', content: [{ text: 'Yes.' }] } }))
  const sent: MessageData[][] = []
  await ai.generate({ model, messages: history, use: [lookback({ policy })(), watch(sent)] })
  const [window] = sent as [MessageData[]]
  const isSame = window.map((message, at) => isDeepStrictEqual(message, history[at]))
  assert.deepEqual(isSame, [true, true, false, true, false, true, true])
  assert.deepEqual(window[2]!.content, [
    { toolResponse: { name: 'read', output: '[tool result cleared: 262 characters]' } },
    { toolResponse: { name: 'shoot', output: '[tool result cleared: 5 characters and 1 other items]' } },
    { toolResponse: { name: 'read', output: 'x' } },
  ])
})

test('a call without a result is answered', async () => {
  const { ai } = setUp()
  const model = ai.defineModel({ name: 'mine' }, async () => ({ message: { role: 'model', content: [{ text: 'Yes.' }] } }))
  const messages: MessageData[] = [
    { role: 'user', content: [{ text: 'Run it.' }] },
    { role: 'model', content: [{ toolRequest: { name: 'run', ref: 'a', input: { command: 'ls' } } }] },
  ]
  const sent: MessageData[][] = []
  await ai.generate({ model, messages, prompt: 'Stop.', use: [lookback()(), watch(sent)] })
  const output = '[No result: the tool call was interrupted.]'
  assert.deepEqual(sent[0]![2], { role: 'tool', content: [{ toolResponse: { name: 'run', ref: 'a', output } }] })
})
