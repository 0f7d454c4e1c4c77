// Agents of OpenAI's Agents SDK with windows and a session, against a provider that enforces its rules.

import assert from 'node:assert/strict'
import { exec } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { promisify } from 'node:util'
import {
  Agent,
  type AgentInputItem,
  handoff,
  MemorySession,
  type Model,
  type ModelRequest,
  OpenAIChatCompletionsModel,
  OpenAIResponsesModel,
  run as runAgent,
  Runner,
  type Session as AgentsSession,
  setTracingDisabled,
  tool,
  Usage,
} from '@openai/agents'
import { removeAllTools } from '@openai/agents-core/extensions'
import { Session } from 'lookback'
import { LookbackModels, LookbackSession } from 'lookback/openai-agents'
import OpenAI, { BadRequestError, InternalServerError } from 'openai'
import { type StandIn, standIn } from './stand-in.js'

setTracingDisabled(true)

const POLICY = {
  limits: { body: 7000 },
  target: { body: 3500 },
  start: 'user_or_tool_pair',
  stages: [{ kind: 'clear_results', keep: 2 }, { kind: 'drop' }],
}
const TASK = 'Run steps 1 to 24.'
const WAYS = [['responses', false], ['responses', true], ['chat', false], ['chat', true]] as const
type Items = AgentInputItem[]

const file = (): string => join(mkdtempSync(join(tmpdir(), 'lookback-')), 'memory.db')
const user = (content: string): AgentInputItem => ({ role: 'user', content })
const shell = promisify(exec)
const run = tool({
  name: 'run',
  description: 'Runs a command.',
  parameters: {
    type: 'object',
    properties: { command: { type: 'string' } },
    required: ['command'],
    additionalProperties: false,
  } as const,
  execute: async (input) => (await shell((input as { command: string }).command)).stdout,
})

async function provider(context: TestContext): Promise<StandIn> {
  const server = await standIn('--window', '12000')
  context.after(() => server.stop())
  return server
}

type Kind = 'responses' | 'chat'

function model(server: StandIn, kind: Kind = 'responses'): Model {
  const client = new OpenAI({ baseURL: `${server.base}/v1`, apiKey: 'k', maxRetries: 0 })
  return kind === 'chat' ? new OpenAIChatCompletionsModel(client, 'gpt-4o') : new OpenAIResponsesModel(client, 'gpt-4o')
}

function agent(model: Model | string, more: object = {}): Agent<any, any> {
  return new Agent({ name: 'worker', instructions: 'Be brief.', tools: [run], model, ...more })
}

/** Returns a model that records the items that it is sent, and these items. */
function watched(model: Model): { model: Model; sent: Items[] } {
  const sent: Items[] = []
  const note = (request: ModelRequest): ModelRequest => {
    sent.push(request.input as Items)
    return request
  }
  const watching: Model = {
    getResponse: (request) => model.getResponse(note(request)),
    getStreamedResponse: (request) => model.getStreamedResponse(note(request)),
  }
  return { model: watching, sent }
}

interface Talk {
  streamed?: boolean
  session?: AgentsSession
  runner?: Runner
  [option: string]: unknown
}

async function talk(made: Agent<any, any>, words: string | Items, { streamed, runner, ...more }: Talk = {}) {
  const options = { maxTurns: 40, ...more }
  const start: Runner['run'] = runner ? runner.run.bind(runner) : runAgent
  if (!streamed) return start(made, words, options)
  const result = await start(made, words, { ...options, stream: true })
  await result.completed
  return result
}

/** Returns the outputs of the tools in items. */
function outputs(items: Items): string[] {
  const results = items.filter((item) => item.type === 'function_call_result')
  return results.map(({ output }: any) => (typeof output === 'string' ? output : output.text))
}

/** Asserts that the items contain every step, as its tool returned it. */
function mustBeWhole(items: Items): void {
  const found = outputs(items).map((output) => Number(output.split(' ')[1]))
  assert.deepEqual(found.sort((a, b) => a - b), Array.from({ length: 24 }, (_, index) => index + 1))
  assert.ok(outputs(items).every((output) => output.length > 1000))
}

/** Asserts that no request was refused. */
async function mustBeAccepted(server: StandIn): Promise<void> {
  const { refused, too_long } = await server.report()
  assert.deepEqual([refused, too_long], [[], 0])
}

test('without it the model refuses', async (context) => {
  const server = await provider(context)
  await assert.rejects(talk(agent(model(server)), TASK), BadRequestError)
})

for (const [kind, streamed] of WAYS) {
  test(`an agent keeps a window and its items whole, ${kind}, ${streamed ? 'streamed' : 'at once'}`, async (context) => {
    const server = await provider(context)
    const store = streamed === (kind === 'responses') ? file() : undefined
    const opened = (): Agent => agent(new LookbackModels('task', { store, policy: POLICY }).model(model(server, kind)))
    const { history } = await talk(opened(), TASK, { streamed })
    mustBeWhole(history)
    // Another process continues the conversation.
    const more = await talk(opened(), [...history, user('And now?')], { streamed })
    mustBeWhole(more.history)
    assert.ok(more.finalOutput)
    await mustBeAccepted(server)
    if (!store) return
    const kept = await Session.open('openai-agents/task', { store, dialect: 'openai-responses' })
    const said = (await kept.history()).filter(({ role }) => role === 'tool')
    assert.deepEqual(said.map(({ text }) => text), outputs(more.history))
  })
}

test('between cuts a request extends the one before', async (context) => {
  const server = await provider(context)
  const { model: watching, sent } = watched(model(server))
  const worker = agent(new LookbackModels('task', { policy: POLICY }).model(watching))
  const session = new MemorySession()
  for (const steps of ['1 to 12', '13 to 24']) await talk(worker, `Run steps ${steps}.`, { session })
  mustBeWhole(await session.getItems())
  const lists = sent.map((items) => items.map((item) => JSON.stringify(item)))
  const extended = lists.filter((list, at) => at > 0 && lists[at - 1]!.every((item, index) => item === list[index])).length
  assert.ok(sent.length > 15 && extended > 0.7 * sent.length, `${extended}`)
  for (const items of sent) {
    const ids = (kind: string): string[] => items.filter(({ type }) => type === kind).map(({ callId }: any) => callId)
    assert.deepEqual(ids('function_call'), ids('function_call_result'))
  }
})

for (const [kind, streamed] of WAYS) {
  test(`a refused request is sent again with less, ${kind}, ${streamed ? 'streamed' : 'at once'}`, async (context) => {
    const server = await provider(context)
    const worker = agent(new LookbackModels('task', { policy: 'none' }).model(model(server, kind)))
    mustBeWhole((await talk(worker, TASK, { streamed })).history)
    const { refused, too_long } = await server.report()
    assert.ok(too_long > 0)
    assert.deepEqual(refused, [])
  })
}

for (const streamed of [false, true]) {
  const how = streamed ? 'streamed' : 'at once'
  test(`what is no overflow, or cannot become smaller, is thrown as it is, ${how}`, async (context) => {
    const server = await provider(context)
    const worker = agent(new LookbackModels('task').model(model(server)))
    await assert.rejects(talk(worker, 'A long question. '.repeat(20_000), { streamed }), BadRequestError)
    await fetch(`${server.base}/stand-in/faults`, { method: 'POST', body: '500' })
    await assert.rejects(talk(worker, 'Hello.', { streamed }), InternalServerError)
  })
}

test('a stream that is left is closed', async () => {
  let closed = 0
  const events = async function* () {
    try {
      for (;;) yield { type: 'response_started' }
    } finally {
      closed += 1
    }
  }
  const endless = { getStreamedResponse: events } as unknown as Model
  const request = { input: 'Hello.', tools: [], handoffs: [] } as unknown as ModelRequest
  for await (const event of new LookbackModels('task').model(endless).getStreamedResponse(request)) {
    assert.equal(event.type, 'response_started')
    break
  }
  assert.equal(closed, 1)
})

for (const stored of [false, true]) {
  test(`agents that are tools have conversations of their own, ${stored ? 'in a store' : 'in memory'}`, async (context) => {
    const server = await provider(context)
    const store = stored ? file() : undefined
    const { model: watching, sent } = watched(model(server))
    // The tools use the model provider of the run that calls them.
    const runner = new Runner({
      modelProvider: new LookbackModels('task', { store, policy: POLICY }).provider({ getModel: () => watching }),
    })
    const tools = ['ask', 'consult'].map((toolName) => agent('gpt-4o').asTool({ toolName, runOptions: { maxTurns: 40 } }))
    // Both tools begin with the same words at the same time.
    const words = 'CALL ask {"input": "Run steps 1 to 12."} CALL consult {"input": "Run steps 1 to 12."}'
    const { history } = await talk(agent('gpt-4o', { tools }), words, { runner })
    assert.deepEqual(outputs(history), Array(2).fill('All steps up to 12 are done.'))
    assert.deepEqual(outputs(sent.at(-1)!), outputs(history))
    await mustBeAccepted(server)
    if (!store) return
    const kept = await Session.open('openai-agents/task', { store, dialect: 'openai-responses' })
    // The model's parallel calls are one message.
    assert.equal((await kept.history()).length, sent.at(-1)!.length - 2)
  })
}

/** Returns a model that gives these answers. */
function scripted(...answers: AgentInputItem[]): Model {
  const getResponse = async () => ({ usage: new Usage(), output: [answers.shift() ?? said('Done.')], responseId: 'resp' })
  return { getResponse } as unknown as Model
}

const said = (text: string): AgentInputItem => ({
  type: 'message',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text }],
})
const call = (callId: string, name = 'run'): AgentInputItem => ({
  type: 'function_call',
  callId,
  name,
  arguments: '{"command":"echo 1"}',
  status: 'completed',
})

test('what the provider keeps is left alone', async () => {
  for (const options of [{ conversationId: 'c' }, { previousResponseId: 'r' }]) {
    const { model, sent } = watched(scripted(call('1')))
    const result = await talk(agent(new LookbackModels('task').model(model)), 'Go.', options)
    assert.equal(result.finalOutput, 'Done.')
    assert.deepEqual(sent[0]!.map((item: any) => item.content), ['Go.'])
    assert.deepEqual([sent[1]!.length, outputs(sent[1]!)], [1, ['1\n']])
  }
})

test('a rewritten history is followed', async (context) => {
  const server = await provider(context)
  const { model: watching, sent } = watched(model(server))
  const models = new LookbackModels('task', { policy: POLICY })
  const clerk = agent(models.model(watching), { name: 'clerk', handoffDescription: 'Answers.' })
  const worker = agent(models.model(watching), { handoffs: [handoff(clerk, { inputFilter: removeAllTools })] })
  const { history } = await talk(worker, 'Run steps 1 to 4.')
  const result = await talk(worker, [...history, user('CALL transfer_to_clerk {}')])
  assert.equal(result.lastAgent, clerk)
  assert.deepEqual(sent.slice(-2).map((items) => outputs(items).length), [4, 0])
  // The caller sends only the beginning of the history.
  const words = [history[0]!, user('And now?')]
  const calls = sent.length
  await talk(worker, words)
  assert.deepEqual(sent[calls], words)
  assert.deepEqual((await server.report()).refused, [])
})

const PICTURE = `data:image/png;base64,${'iVBORw0K'.repeat(2000)}`
const LONG = 'word '.repeat(3000)
const CLEARED = '[tool result cleared: 15000 characters]'

/** Items of every kind: each call with its result, and whether a window that clears results shows part of it. */
const ODD: AgentInputItem[] = [
  { role: 'system', content: 'Be brief.' },
  {
    role: 'user',
    content: [
      { type: 'input_text', text: 'Look.' },
      { type: 'input_image', image: PICTURE, detail: 'low' },
      { type: 'input_file', file: { id: 'file-1' }, filename: 'notes.pdf' },
      { type: 'audio', audio: 'UklGRg=='.repeat(5000), transcript: 'Hi.' },
    ],
  },
  { type: 'reasoning', id: 'rs_1', content: [], providerData: { encrypted_content: 'c2VjcmV0' } },
  call('1'),
  { type: 'function_call_result', callId: '1', name: 'run', status: 'completed', output: { type: 'text', text: LONG } },
  call('2'),
  {
    type: 'function_call_result',
    callId: '2',
    name: 'run',
    status: 'completed',
    output: [{ type: 'input_text', text: 'short' }, { type: 'input_image', image: PICTURE, detail: 'low' }],
  },
  { type: 'shell_call', callId: '3', status: 'completed', action: { commands: ['ls'] } },
  {
    type: 'shell_call_output',
    callId: '3',
    output: [{ stdout: LONG, stderr: '', outcome: { type: 'exit', exitCode: 2 } }],
  },
  { type: 'computer_call', callId: '4', status: 'completed', action: { type: 'screenshot' } },
  { type: 'computer_call_result', callId: '4', output: { type: 'computer_screenshot', data: PICTURE } },
  { type: 'apply_patch_call', callId: '5', status: 'completed', operation: { type: 'delete_file', path: 'a' } },
  { type: 'apply_patch_call_output', callId: '5', status: 'completed', output: LONG },
  { type: 'program', id: 'p', callId: '6', code: 'run()', fingerprint: 'f' } as AgentInputItem,
  { type: 'program_output', id: 'q', callId: '6', output: 'done', status: 'completed' } as AgentInputItem,
  { type: 'tool_search_call', callId: '7', arguments: {}, execution: 'client' },
  { type: 'tool_search_output', callId: '7', tools: [], execution: 'client' },
  {
    type: 'hosted_tool_call',
    id: 'a',
    name: 'mcp_approval_request',
    providerData: { type: 'mcp_approval_request', id: 'a', name: 'x', arguments: '{}', server_label: 's' },
  },
  {
    type: 'hosted_tool_call',
    name: 'mcp_approval_response',
    providerData: { type: 'mcp_approval_response', approval_request_id: 'a', approve: true },
  },
  { type: 'hosted_tool_call', id: 'g', name: 'image_generation_call', output: PICTURE, status: 'completed' },
  { type: 'unknown', id: 'u', providerData: { type: 'new_thing', id: 'u' } },
  said('There it is.'),
  user('And?'),
  user('Well?'),
]

test('what a window has unchanged is as the SDK has it, and what it changes is of its kind', async () => {
  const shown = async (policy: string | Record<string, unknown>): Promise<any[]> => {
    const { model, sent } = watched(scripted())
    await talk(agent(new LookbackModels('task', { policy }).model(model)), ODD)
    return sent[0]!
  }
  assert.deepEqual(await shown('none'), ODD)
  const stages = [{ kind: 'clear_media', keep: 0 }, { kind: 'clear_results', keep: 0 }]
  const cleared = await shown({ limits: { tokens: 100 }, target: { tokens: 100 }, stages })
  assert.deepEqual(cleared.map(({ type, callId }) => [type, callId]), ODD.map(({ type, callId }: any) => [type, callId]))
  const changed = cleared.filter((item, at) => JSON.stringify(item) !== JSON.stringify(ODD[at]))
  const of = (id: string): any => changed.find(({ callId }) => callId === id)
  assert.deepEqual(changed.map(({ callId }) => callId), ['1', '2', '3', '4', '5'])
  assert.equal(of('1').output, CLEARED)
  assert.equal(of('2').output[0].text, 'short')
  assert.equal(of('2').output[1].type, 'input_text')
  assert.deepEqual(of('3').output, [{ stdout: CLEARED, stderr: '', outcome: { type: 'exit', exitCode: 2 } }])
  assert.match(of('4').output.data, /^data:image\/png;base64,.{50,200}$/)
  assert.equal(of('5').output, CLEARED)
})

test('a call without a result gets one', async () => {
  const { model, sent } = watched(scripted())
  const program = { type: 'program', id: 'p', callId: '3', code: '', fingerprint: '' }
  const items = [user('Go.'), call('1'), { type: 'computer_call', callId: '2', status: 'completed' }, program, user('And?')]
  await talk(agent(new LookbackModels('task').model(model)), items as Items)
  const [, , , , result, screen, done, ...rest] = sent[0]! as any[]
  assert.deepEqual([result.type, result.callId, result.name], ['function_call_result', '1', 'run'])
  assert.deepEqual([screen.type, screen.callId, screen.output.type], ['computer_call_result', '2', 'computer_screenshot'])
  assert.deepEqual([done.type, done.callId, typeof done.output], ['program_output', '3', 'string'])
  assert.deepEqual(rest, [user('And?')])
})

for (const [stored, streamed] of [[false, false], [true, true]] as const) {
  test(`a session keeps what runs say, ${stored ? 'in a store, streamed' : 'in memory, at once'}`, async (context) => {
    const kept = async (sessions: AgentsSession[]): Promise<Items> => {
      const server = await provider(context)
      const worker = agent(new LookbackModels('task', { store, policy: POLICY }).model(model(server)))
      await talk(worker, TASK, { streamed, session: sessions[0]! })
      await talk(worker, 'And now?', { streamed, session: sessions.at(-1)! })
      await mustBeAccepted(server)
      return sessions[0]!.getItems()
    }
    const store = stored ? file() : undefined
    const items = await kept(stored ? [1, 2].map(() => new LookbackSession('task', { store })) : [new LookbackSession('task')])
    mustBeWhole(items)
    assert.deepEqual(items, await kept([new MemorySession()]))
  })
}

for (const stored of [false, true]) {
  test(`items of a session come back as they are, ${stored ? 'in a store' : 'in memory'}`, async () => {
    const session: AgentsSession = new LookbackSession('s', { store: stored ? file() : undefined })
    const answer: AgentInputItem = {
      type: 'function_call_result',
      callId: '1',
      name: 'run',
      status: 'completed',
      output: { type: 'text', text: 'Grüße, \u0000 and 𝄞' },
    }
    // Adds the same answer again, an answer to no call, and an empty message.
    const items = [...ODD, answer, answer, { ...answer, callId: '8' }, user(''), ODD[0]!]
    assert.equal(await session.getSessionId(), 's')
    assert.deepEqual([await session.getItems(), await session.popItem()], [[], undefined])
    await session.addItems([])
    await session.addItems(items)
    assert.deepEqual(await session.getItems(), items)
    assert.deepEqual(await session.getItems(2), items.slice(-2))
    assert.deepEqual([await session.getItems(0), await session.getItems(99)], [[], items])
    // Removes items down into the model's parallel calls, and adds items again.
    for (let length = items.length - 1; length > 2; length--) {
      assert.deepEqual(await session.popItem(), items[length])
      assert.deepEqual(await session.getItems(), items.slice(0, length))
    }
    await session.addItems(items.slice(3))
    assert.deepEqual(await session.getItems(), items)
    await session.clearSession()
    assert.deepEqual(await session.getItems(), [])
    await session.addItems(items.slice(0, 1))
    assert.deepEqual(await session.getItems(), items.slice(0, 1))
  })
}

test('sessions of one name see each other’s items', async () => {
  const store = file()
  const [one, other] = [new LookbackSession('s', { store }), new LookbackSession('s', { store })]
  const items = ['0', '1', '2', '3'].map(user)
  await one.addItems(items.slice(0, 1))
  await other.addItems(items.slice(1))
  assert.deepEqual(await one.getItems(), items)
  assert.deepEqual([await one.popItem(), await other.popItem(), await one.popItem()], items.slice(1).reverse())
  assert.deepEqual([await one.getItems(), await other.getItems()], [items.slice(0, 1), items.slice(0, 1)])
  assert.deepEqual(await new LookbackSession('t', { store }).getItems(), [])
})
