// Agents of Mastra with the processor, against a provider that enforces its rules.

import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import { createAnthropic } from '@ai-sdk/anthropic'
import { createAnthropic as createAnthropicV2 } from '@ai-sdk/anthropic-v2'
import { Mastra } from '@mastra/core'
import { Agent } from '@mastra/core/agent'
import type { MastraModelConfig } from '@mastra/core/llm'
import type { ProcessLLMRequestArgs } from '@mastra/core/processors'
import { RequestContext } from '@mastra/core/request-context'
import { InMemoryStore } from '@mastra/core/storage'
import { createTool } from '@mastra/core/tools'
import { Memory } from '@mastra/memory'
import { Session } from 'lookback'
import { LookbackProcessor } from 'lookback/mastra'
import { z } from 'zod'
import { type StandIn, standIn } from './stand-in.js'

type Prompt = ProcessLLMRequestArgs['prompt']

// Mastra would report to its makers which features are used.
process.env.MASTRA_TELEMETRY_DISABLED = '1'

const POLICY = {
  limits: { body: 7000 },
  target: { body: 3500 },
  start: 'user_or_tool_pair',
  stages: [{ kind: 'clear_results', keep: 2 }, { kind: 'drop' }],
}
const TASK = 'Run steps 1 to 24.'

const run = createTool({
  id: 'run',
  description: 'Runs a command.',
  inputSchema: z.object({ command: z.string() }),
  execute: async ({ command }) => execFileSync('sh', ['-c', command], { encoding: 'utf8' }),
})

let server: StandIn
beforeEach(async () => { server = await standIn('--window', '12000') })
afterEach(() => server.stop())

const file = (): string => join(mkdtempSync(join(tmpdir(), 'lookback-')), 'memory.db')

/** An agent's setup apart from the processor: where it stores its threads, what it sends, and its model. */
interface Setup {
  storage?: InMemoryStore
  sent?: Prompt[]
  model?: MastraModelConfig
}

function agent(processor?: LookbackProcessor, { storage = new InMemoryStore(), sent = [], model }: Setup = {}): Agent {
  const watch = {
    id: 'watch',
    processLLMRequest: ({ prompt }: ProcessLLMRequestArgs) => void sent.push(structuredClone(prompt)),
  }
  const processors = processor ? [processor] : []
  const helper = new Agent({
    id: 'helper',
    name: 'helper',
    instructions: ({ requestContext }) => String(requestContext.get('instructions') ?? 'Be brief.'),
    model: model ?? { id: 'openai/gpt-4o', url: `${server.base}/v1`, apiKey: 'k' },
    tools: { run },
    memory: new Memory({ storage, options: { messageHistory: { maxTokens: 1_000_000 } } }),
    inputProcessors: [...processors, watch],
    errorProcessors: processors,
  })
  // Without this, it also logs the model's refusals.
  return new Mastra({ agents: { helper }, logger: false }).getAgent('helper')
}

/** Returns the results of a thread from its storage. */
async function results(made: Agent, thread: string): Promise<string[]> {
  const { messages } = await (await made.getMemory())!.recall({ threadId: thread, perPage: false })
  return messages.flatMap(({ content }) =>
    content.parts.flatMap((part: any) => (part.type === 'tool-invocation' ? [part.toolInvocation.result as string] : [])),
  )
}

async function mustBeWhole(made: Agent, thread: string): Promise<void> {
  const all = await results(made, thread)
  assert.deepEqual(all.map((result) => result.split('\n')[0]), Array.from({ length: 24 }, (_, at) => `STEP ${at + 1} OF 24`))
  assert.ok(all.every((result) => result.length > 1000))
}

async function mustBeAccepted(): Promise<void> {
  const { refused, too_long } = await server.report()
  assert.deepEqual({ refused, too_long }, { refused: [], too_long: 0 })
}

const options = (thread: string) => ({ maxSteps: 60, memory: { thread, resource: 'me' } })

test('without it the model refuses', async () => {
  await assert.rejects(agent().generate(TASK, options('t')), /maximum context length/)
})

for (const stored of [false, true]) {
  for (const streamed of [false, true]) {
    const how = `${stored ? 'in a store' : 'in memory'}, ${streamed ? 'streamed' : 'whole'}`
    test(`an agent keeps a window, and its thread whole: ${how}`, async () => {
      const store = stored ? file() : undefined
      const storage = new InMemoryStore()
      const ask = async (task: string): Promise<[Agent, string]> => {
        const made = agent(new LookbackProcessor({ store, policy: POLICY }), { storage })
        if (!streamed) return [made, (await made.generate(task, options('t'))).text]
        return [made, await (await made.stream(task, options('t'))).text]
      }
      const [made, text] = await ask(TASK)
      assert.ok(text.endsWith('All steps up to 24 are done.'), text)
      await mustBeWhole(made, 't')
      await mustBeAccepted()
      // Another process continues the thread.
      const [, again] = await ask('And now?')
      assert.match(again, /^This is answer \d+\.$/)
      await mustBeAccepted()
      if (store) {
        const kept = await (await Session.open('mastra/t', { store, dialect: 'anthropic' })).history()
        // The results of one step are one message.
        const said = kept.filter(({ role }) => role !== 'assistant').map(({ text }) => text).join('\n')
        assert.equal(said, [TASK, ...(await results(made, 't')), 'And now?'].join('\n'))
      }
    })
  }
}

test('between cuts a request extends the one before', async () => {
  const sent: Prompt[] = []
  const made = agent(new LookbackProcessor({ policy: POLICY }), { sent })
  await made.generate(TASK, options('t'))
  await mustBeWhole(made, 't')
  const extended = sent.slice(1).filter((later, at) => isDeepStrictEqual(later.slice(0, sent[at]!.length), sent[at]))
  assert.ok(sent.length > 15 && extended.length > 0.5 * sent.length, `${extended.length} of ${sent.length}`)
  for (const prompt of sent) {
    const ids = (type: string) => prompt.flatMap(({ content }) =>
      typeof content === 'string' ? [] : content.flatMap((part) => (part.type === type ? [(part as any).toolCallId] : [])),
    )
    assert.deepEqual(ids('tool-call'), ids('tool-result'))
  }
})

for (const streamed of [false, true]) {
  test(`a refused request is sent again with less, ${streamed ? 'streamed' : 'whole'}`, async () => {
    const made = agent(new LookbackProcessor({ policy: 'none' }))
    const text = streamed ? await (await made.stream(TASK, options('t'))).text : (await made.generate(TASK, options('t'))).text
    assert.ok(text.endsWith('All steps up to 24 are done.'), text)
    await mustBeWhole(made, 't')
    const { refused, too_long } = await server.report()
    assert.ok(too_long > 0)
    assert.deepEqual(refused, [])
  })
}

test('an error of another kind is not answered', async () => {
  await fetch(`${server.base}/stand-in/faults`, { method: 'POST', body: '401' })
  const made = agent(new LookbackProcessor())
  await assert.rejects(made.generate('Hello.', options('t')), (error: any) => error.statusCode === 401)
  assert.equal((await server.report()).requests, 1)
})

test('each thread has a session, and a run without one has its own', async () => {
  const store = file()
  const made = agent(new LookbackProcessor({ store }))
  await Promise.all([made.generate('One.', options('a')), made.generate('Two.', options('b')), made.generate('Three.')])
  for (const [thread, task] of [['a', 'One.'], ['b', 'Two.']]) {
    const kept = await (await Session.open(`mastra/${thread}`, { store, dialect: 'anthropic' })).history()
    assert.deepEqual(kept.map(({ text }) => text), [task])
  }
  const stored = Buffer.concat(readdirSync(dirname(store)).map((name) => readFileSync(join(dirname(store), name))))
  assert.deepEqual(['One.', 'Two.', 'Three.'].map((task) => stored.includes(task)), [true, true, false])
})

test('other instructions leave the window as it is', async () => {
  const sent: Prompt[] = []
  const made = agent(new LookbackProcessor({ policy: 'messages:max_messages=3' }), { sent })
  for (const [at, task] of ['One.', 'Two.', 'Three.', 'Four.'].entries()) {
    const requestContext = new RequestContext([['instructions', `Be brief, ${at}.`]])
    await made.generate(task, { ...options('t'), requestContext })
  }
  assert.deepEqual(sent.map(([system]) => system!.content), ['0', '1', '2', '3'].map((at) => `Be brief, ${at}.`))
  assert.deepEqual(sent.map((prompt) => prompt.length - 1), [1, 3, 3, 3])
  await mustBeAccepted()
})

/** Returns the processor's window of a prompt. */
async function windowOf(processor: LookbackProcessor, prompt: Prompt): Promise<Prompt> {
  return (await processor.processLLMRequest({ prompt, state: {} } as unknown as ProcessLLMRequestArgs)).prompt
}

test('files and what only a provider knows are kept, and old pictures are cleared', async () => {
  const policy = { stages: [{ kind: 'clear_results', keep: 1 }], limits: { body: 300 }, target: { body: 100 } }
  const data = Buffer.from('a picture '.repeat(20))
  const picture = { type: 'media' as const, data: data.toString('base64'), mediaType: 'image/png' }
  const shot = (id: string): Prompt => [
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'I look.', providerOptions: { openai: { itemId: 'x' } } },
        { type: 'tool-call', toolCallId: id, toolName: 'shoot', input: {} },
        { type: 'tool-call', toolCallId: `${id}-text`, toolName: 'read', input: { path: 'a' } },
      ],
    },
    {
      role: 'tool',
      content: [
        {
          type: 'tool-result',
          toolCallId: id,
          toolName: 'shoot',
          output: { type: 'content', value: [picture, { type: 'text', text: 'line '.repeat(99) }] },
        },
        { type: 'tool-result', toolCallId: `${id}-text`, toolName: 'read', output: { type: 'json', value: { line: 'x' } } },
      ],
    },
  ]
  const prompt: Prompt = [
    {
      role: 'user',
      content: [
        { type: 'file', data: new Uint8Array(data), mediaType: 'image/png' },
        { type: 'file', data: new URL('https://example.com/a.pdf'), mediaType: 'application/pdf' },
        { type: 'text', text: 'Compare.', providerOptions: { anthropic: { cacheControl: { type: 'ephemeral' } } } },
      ],
    },
    ...shot('a'),
    ...shot('b'),
    ...shot('c'),
  ]
  const window = await windowOf(new LookbackProcessor({ policy }), prompt)
  assert.deepEqual(window.map((message, at) => message === prompt[at]), [true, true, false, true, false, true, true])
  const [cleared, same] = window[2]!.content as any[]
  const value = [{ type: 'text', text: '[tool result cleared: 495 characters and 1 other items]' }]
  assert.deepEqual(cleared, { ...(prompt[2]!.content[0] as object), output: { type: 'content', value } })
  assert.deepEqual(same, prompt[2]!.content[1])
})

test('a call without a result is answered', async () => {
  const prompt: Prompt = [
    { role: 'user', content: [{ type: 'text', text: 'Run it.' }] },
    { role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'a', toolName: 'run', input: { command: 'ls' } }] },
    { role: 'user', content: [{ type: 'text', text: 'Stop.' }] },
  ]
  const [, , answer] = await windowOf(new LookbackProcessor(), prompt)
  const output = { type: 'error-text', value: '[No result: the tool call was interrupted.]' }
  assert.deepEqual(answer, { role: 'tool', content: [{ type: 'tool-result', toolCallId: 'a', toolName: 'run', output }] })
})

for (const [version, makeProvider] of Object.entries({ v2: createAnthropicV2, v4: createAnthropic })) {
  test(`no cut comes before reasoning that is signed, while its tool loop is open: ${version}`, async () => {
    const anthropic = makeProvider({ apiKey: 'k', baseURL: `${server.base}/v1` })
    const sent: Prompt[] = []
    const model = anthropic('claude-opus-5-5') as MastraModelConfig
    const made = agent(new LookbackProcessor({ policy: POLICY }), { sent, model })
    for (const steps of ['1 to 6', '7 to 12', '13 to 18', '19 to 24']) {
      const thinking = { type: 'enabled' as const, budgetTokens: 2000 }
      await made.generate(`Run steps ${steps}.`, { ...options('t'), providerOptions: { anthropic: { thinking } } })
    }
    assert.equal((await results(made, 't')).length, 24)
    await mustBeAccepted()
    const signed = sent.map((prompt) => JSON.stringify(prompt).split('signature').length - 1)
    assert.ok(signed.some((count, at) => at > 0 && count < signed[at - 1]!), `${signed}`)
  })
}
