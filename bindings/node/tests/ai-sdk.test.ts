// Models and agents of the AI SDK with windows, against a provider that enforces its rules.

import assert from 'node:assert/strict'
import { exec } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import type { LanguageModelV4, LanguageModelV4Prompt } from '@ai-sdk/provider'
import {
  APICallError,
  generateText,
  isStepCount,
  jsonSchema,
  type ModelMessage,
  streamText,
  tool,
  wrapLanguageModel,
} from 'ai'
import { MockLanguageModelV4 } from 'ai/test'
import { Session } from 'lookback'
import { lookback, type LookbackOptions } from 'lookback/ai-sdk'
import { type StandIn, standIn } from './stand-in.js'

const POLICY = {
  limits: { body: 7000 },
  target: { body: 3500 },
  start: 'user_or_tool_pair',
  stages: [{ kind: 'clear_results', keep: 2 }, { kind: 'drop' }],
}
const TASK = 'Run steps 1 to 24.'
// The SDK warns at each call of an unknown model.
globalThis.AI_SDK_LOG_WARNINGS = false
const KINDS = ['chat', 'responses', 'anthropic'] as const

const file = (): string => join(mkdtempSync(join(tmpdir(), 'lookback-')), 'memory.db')
const user = (content: string): ModelMessage => ({ role: 'user', content })
const shell = promisify(exec)
const run = tool({
  description: 'Runs a command.',
  inputSchema: jsonSchema<{ command: string }>({
    type: 'object',
    properties: { command: { type: 'string' } },
    required: ['command'],
  }),
  execute: async ({ command }) => (await shell(command)).stdout,
})

/** A provider whose models accept 12,000 tokens, and the bodies of the requests that it has received. */
interface Provider extends StandIn {
  model(kind?: (typeof KINDS)[number], name?: string): Model
  sent: { messages?: Body[]; input?: Body[] }[]
}

type Model = Parameters<typeof wrapLanguageModel>[0]['model']
type Body = Record<string, any>

async function provider(context: TestContext): Promise<Provider> {
  const server = await standIn('--window', '12000')
  context.after(() => server.stop())
  const sent: Provider['sent'] = []
  const options = {
    baseURL: `${server.base}/v1`,
    apiKey: 'k',
    fetch: (url: any, init?: RequestInit) => {
      sent.push(JSON.parse(String(init?.body)))
      return fetch(url, init)
    },
  }
  const models = {
    chat: createOpenAICompatible({ name: 'stand-in', ...options }),
    responses: createOpenAI(options).responses,
    anthropic: createAnthropic(options),
  }
  return { ...server, sent, model: (kind = 'chat', name = 'gpt-4o') => models[kind](name) }
}

interface Asked {
  model: Parameters<typeof generateText>[0]['model']
  streamed?: boolean
  [setting: string]: unknown
}

/** Asks a model, which runs its tools, and returns all of its messages. */
async function ask(messages: ModelMessage[], { streamed, ...settings }: Asked): Promise<ModelMessage[]> {
  const options = {
    instructions: 'Be brief.',
    messages,
    tools: { run },
    stopWhen: isStepCount(40),
    maxRetries: 0,
    providerOptions: { openai: { store: false, include: ['reasoning.encrypted_content'] } },
    ...settings,
  }
  if (!streamed) return [...messages, ...(await generateText(options)).responseMessages]
  const result = streamText({ ...options, onError: () => undefined })
  return [...messages, ...(await result.responseMessages)]
}

/** Returns the outputs of the tools in messages. */
function outputs(messages: ModelMessage[]): string[] {
  const parts = messages.flatMap((message) => (message.role === 'tool' ? message.content : []))
  return parts.flatMap((part) => (part.type === 'tool-result' && part.output.type === 'text' ? [part.output.value] : []))
}

/** Asserts that the messages contain every step, as its tool returned it. */
function mustBeWhole(messages: ModelMessage[], last = 24): void {
  const found = outputs(messages).map((output) => Number(output.split(' ')[1]))
  assert.deepEqual(found.sort((a, b) => a - b), Array.from({ length: last }, (_, index) => index + 1))
  assert.ok(outputs(messages).every((output) => output.length > 1000))
}

/** Returns how many requests begin with the whole previous request. */
function extended(sent: Provider['sent']): number {
  const lists = sent.map(({ messages, input }) => (messages ?? input)!.map((message) => JSON.stringify(message)))
  return lists.filter((list, at) => at > 0 && lists[at - 1]!.every((message, index) => message === list[index])).length
}

/** Asserts that no request was refused. */
async function mustBeAccepted(server: StandIn): Promise<void> {
  const { refused, too_long } = await server.report()
  assert.deepEqual([refused, too_long], [[], 0])
}

const wrapped = (model: Model, options?: LookbackOptions) => wrapLanguageModel({ model, middleware: lookback(options) })

test('without it the model refuses', async (context) => {
  const server = await provider(context)
  await assert.rejects(ask([user(TASK)], { model: server.model() }), APICallError)
})

for (const kind of KINDS) {
  for (const streamed of [false, true]) {
    test(`a model keeps a window, ${kind}, ${streamed ? 'streamed' : 'at once'}`, async (context) => {
      const server = await provider(context)
      const store = streamed ? file() : undefined
      const settings = (): Asked => ({
        model: wrapped(server.model(kind), { session: 'task', store, policy: POLICY }),
        streamed,
      })
      const messages = await ask([user(TASK)], settings())
      mustBeWhole(messages)
      // Another process continues the conversation.
      const more = await ask([...messages, user('And now?')], settings())
      mustBeWhole(more)
      assert.ok(more.length > messages.length + 1)
      await mustBeAccepted(server)
      if (!store) return
      const kept = await Session.open('ai-sdk/task', { store, dialect: 'anthropic' })
      const said = (await kept.messages()).flatMap(({ content }) => content).filter(({ type }) => type === 'tool_result')
      assert.deepEqual(said.map(({ content }) => content), outputs(more))
    })
  }
}

test('between cuts a request extends the one before', async (context) => {
  const server = await provider(context)
  const model = wrapped(server.model(), { policy: POLICY })
  const messages = await ask([user('Run steps 1 to 12.')], { model })
  mustBeWhole(await ask([...messages, user('Run steps 13 to 24.')], { model }))
  assert.ok(server.sent.length > 15 && extended(server.sent) > 0.7 * server.sent.length, `${extended(server.sent)}`)
  for (const { messages } of server.sent) {
    const calls = messages!.flatMap(({ tool_calls }) => tool_calls ?? []).map(({ id }: Body) => id)
    const results = messages!.flatMap(({ tool_call_id }) => tool_call_id ?? [])
    assert.deepEqual(calls, results)
  }
})

for (const streamed of [false, true]) {
  test(`a refused request is sent again with less, ${streamed ? 'streamed' : 'at once'}`, async (context) => {
    const server = await provider(context)
    mustBeWhole(await ask([user(TASK)], { model: wrapped(server.model(), { policy: 'none' }), streamed }))
    const { refused, too_long } = await server.report()
    assert.ok(too_long > 0)
    assert.deepEqual(refused, [])
  })
}

test('what is no overflow, or cannot become smaller, is thrown as it is', async (context) => {
  const server = await provider(context)
  const model = wrapped(server.model())
  await assert.rejects(ask([user('A long question. '.repeat(20_000))], { model }), (error) => {
    return APICallError.isInstance(error) && error.statusCode === 400
  })
  await fetch(`${server.base}/stand-in/faults`, { method: 'POST', body: '500' })
  await assert.rejects(ask([user('Hello.')], { model }), (error) => APICallError.isInstance(error) && error.statusCode === 500)
})

test('a history that is rewritten is followed', async (context) => {
  const server = await provider(context)
  const model = wrapped(server.model(), { policy: POLICY })
  const messages = await ask([user('Run steps 1 to 4.')], { model })
  await ask([...messages, user('And now?')], { model, instructions: 'Be long.' })
  const longer = server.sent.at(-1)!.messages!
  assert.deepEqual(longer[0], { role: 'system', content: 'Be long.' })
  assert.deepEqual(longer.slice(1, 4), server.sent[1]!.messages!.slice(1, 4))
  const calls = server.sent.length
  await ask([messages[0]!, user('And then?')], { model })
  assert.deepEqual(server.sent[calls]!.messages, [...server.sent[0]!.messages!, { role: 'user', content: 'And then?' }])
  await mustBeAccepted(server)
})

test('no cut comes before reasoning that is signed, while its tool loop is open', async (context) => {
  const server = await provider(context)
  const model = wrapped(server.model('anthropic', 'claude-opus-5-5'), { policy: POLICY })
  const providerOptions = { anthropic: { thinking: { type: 'adaptive' } } }
  let messages: ModelMessage[] = []
  for (const steps of ['1 to 6', '7 to 12', '13 to 18', '19 to 24']) {
    messages = await ask([...messages, user(`Run steps ${steps}.`)], { model, providerOptions })
  }
  mustBeWhole(messages)
  await mustBeAccepted(server)
  const signed = server.sent.map(({ messages }) => JSON.stringify(messages).split('signature').length - 1)
  assert.ok(signed.some((count, at) => at > 0 && count < signed[at - 1]!), `${signed}`)
})

for (const store of [undefined, 'file']) {
  test(`agents that are tools have conversations of their own, ${store ? 'in a store' : 'in memory'}`, async (context) => {
    const server = await provider(context)
    const place = store && file()
    const model = wrapped(server.model(), { session: 'task', store: place, policy: POLICY })
    const asking = (): any => tool({
      description: 'Asks.',
      inputSchema: jsonSchema<{ input: string }>({ type: 'object', properties: { input: { type: 'string' } } }),
      execute: async ({ input }) => {
        return (await generateText({ model, prompt: input, tools: { run }, stopWhen: isStepCount(40) })).text
      },
    })
    const words = 'CALL ask {"input": "Run steps 1 to 12."} CALL consult {"input": "Run steps 1 to 10."}'
    const messages = await ask([user(words)], { model, tools: { ask: asking(), consult: asking() } })
    assert.deepEqual(outputs(messages).sort(), ['All steps up to 10 are done.', 'All steps up to 12 are done.'])
    await mustBeAccepted(server)
    if (!place) return
    const kept = await Session.open('ai-sdk/task', { store: place, dialect: 'anthropic' })
    assert.equal((await kept.history()).length, 3)
  })
}

test('a call can name its conversation', async (context) => {
  const server = await provider(context)
  const store = file()
  const model = wrapped(server.model(), { store })
  await ask([user('Hello.')], { model, providerOptions: { lookback: { session: 'one' } } })
  await ask([user('Hello.')], { model, providerOptions: { lookback: { session: 'two' } } })
  await ask([user('Hello.')], { model })
  for (const name of ['one', 'two']) {
    const kept = await Session.open(`ai-sdk/${name}`, { store, dialect: 'anthropic' })
    assert.deepEqual(await kept.messages(), [{ role: 'user', content: [{ type: 'text', text: 'Hello.' }] }])
  }
})

/** Returns a model that answers nothing, and the prompts that it has received. */
function silent(): { model: LanguageModelV4; prompts: LanguageModelV4Prompt[] } {
  const prompts: LanguageModelV4Prompt[] = []
  const model = new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      prompts.push(prompt)
      const usage = {
        inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 1, text: 1, reasoning: 0 },
      }
      return { content: [{ type: 'text', text: 'Yes.' }], finishReason: { unified: 'stop', raw: 'stop' }, usage, warnings: [] }
    },
  })
  return { model, prompts }
}

const said = (text: string): LanguageModelV4Prompt[number] => ({ role: 'user', content: [{ type: 'text', text }] })
const call = (toolCallId: string, input: unknown = {}) => ({ type: 'tool-call' as const, toolCallId, toolName: 'run', input })
const result = (toolCallId: string, value: string) => ({
  type: 'tool-result' as const,
  toolCallId,
  toolName: 'run',
  output: { type: 'text' as const, value },
})

test('what a window has unchanged is of the prompt, with what only the SDK knows', async () => {
  const { model, prompts } = silent()
  const options = { some: { cacheControl: { type: 'ephemeral' } } }
  const data = { type: 'data' as const, data: new Uint8Array([137, 80, 78, 71]) }
  const picture = { type: 'file' as const, mediaType: 'image/png', data }
  const url = { type: 'url' as const, url: new URL('https://example.org/notes.pdf') }
  const long = 'word '.repeat(3000)
  const prompt: LanguageModelV4Prompt = [
    { role: 'system', content: 'Be brief.', providerOptions: options },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Look at these.', providerOptions: options },
        { type: 'file', mediaType: 'image', data },
        { type: 'file', mediaType: 'application/pdf', data: url, filename: 'notes.pdf' },
        { type: 'file', mediaType: 'text/plain', data: { type: 'text', text: 'Buy milk.' } },
        { type: 'file', mediaType: 'application/pdf', data: { type: 'reference', reference: { some: 'file-1' } } },
      ],
      providerOptions: options,
    },
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'Hm.', providerOptions: { some: { itemId: 'rs_1' } } },
        { type: 'text', text: 'I shall look.' },
        { ...call('own'), providerExecuted: true },
        { ...result('own', 'x'.repeat(1_000_000)) },
        picture,
        { type: 'custom', kind: 'some.thing' },
        { ...call('1', { command: 'ls' }), providerOptions: options },
        call('2'),
        call('3'),
      ],
    },
    {
      role: 'tool',
      content: [
        { ...result('1', long), providerOptions: options },
        result('2', 'short'),
        { ...result('3', ''), output: { type: 'content', value: [{ type: 'text', text: long }, picture] } },
      ],
      providerOptions: options,
    },
    { role: 'assistant', content: [{ type: 'text', text: 'Here they are.' }] },
    said('And?'),
    said('Well?'),
  ]
  const whole = lookback({ policy: 'none' })
  await wrapLanguageModel({ model, middleware: whole }).doGenerate({ prompt })
  assert.equal(prompts[0]!.length, prompt.length)
  prompts[0]!.forEach((message, at) => assert.equal(message, prompt[at]))
  const policy = { limits: { tokens: 3000 }, target: { tokens: 3000 }, stages: [{ kind: 'clear_results', keep: 0 }] }
  await wrapLanguageModel({ model, middleware: lookback({ policy }) }).doGenerate({ prompt })
  const [system, words, answer, results, ...rest] = prompts[1]!
  assert.ok([system, words, answer, ...rest].every((message, at) => message === prompt[at + Number(at > 2)]))
  const [first, second, third] = prompt[3]!.content as object[]
  const cleared = { type: 'text', value: '[tool result cleared: 15000 characters]' }
  const all = [{ type: 'text', text: '[tool result cleared: 15000 characters and 1 other items]' }]
  assert.deepEqual(results, {
    ...prompt[3],
    content: [{ ...first, output: cleared }, second, { ...third, output: { type: 'content', value: all } }],
  })
})
