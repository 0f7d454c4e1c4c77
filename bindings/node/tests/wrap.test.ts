// Clients of the providers' SDKs with one changed line, in conversations that are longer than a model accepts.

import assert from 'node:assert/strict'
import { execSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { DecodeError, PolicyError, Session, windowed, wrap, type WrapOptions } from 'lookback'
import OpenAI from 'openai'
import { type StandIn, standIn } from './stand-in.js'

const policy = {
  limits: { body: 7000 },
  target: { body: 3500 },
  start: 'user_or_tool_pair',
  stages: [{ kind: 'clear_results', keep: 2 }, { kind: 'drop' }],
}
const task = { role: 'user' as const, content: 'Run steps 1 to 24.' }
const schema = { type: 'object' as const, properties: { command: { type: 'string' } }, required: ['command'] }
const chatTools: any = [{ type: 'function', function: { name: 'run', description: 'Runs it.', parameters: schema } }]
const responseTools: any = [{ type: 'function', name: 'run', description: 'Runs it.', parameters: schema }]
const messageTools: any = [{ name: 'run', description: 'Runs it.', input_schema: schema }]

let server: StandIn
before(async () => {
  server = await standIn('--window', '12000')
})
after(() => server.stop())

const run = (args: any): string => execSync((typeof args === 'string' ? JSON.parse(args) : args).command, { encoding: 'utf8' })

/** Makes a call, appends its answer and the results of its tools, and returns whether there were any. */
type Step = (client: any, history: any[]) => Promise<boolean>

function afterChat(history: any[], message: any): boolean {
  history.push(message)
  for (const call of message.tool_calls ?? []) {
    history.push({ role: 'tool', tool_call_id: call.id, content: run(call.function.arguments) })
  }
  return Boolean(message.tool_calls?.length)
}

function afterMessage(history: any[], message: any): boolean {
  history.push({ role: 'assistant', content: message.content })
  const calls = message.content.filter((block: any) => block.type === 'tool_use')
  const content = calls.map((call: any) => ({ type: 'tool_result', tool_use_id: call.id, content: run(call.input) }))
  if (content.length > 0) history.push({ role: 'user', content })
  return content.length > 0
}

const OPENAI: Record<string, Step> = {
  chat: async (client: OpenAI, history) => {
    const answer = await client.chat.completions.create({ model: 'gpt-4o', messages: history, tools: chatTools })
    return afterChat(history, answer.choices[0]!.message)
  },
  'chat.stream': async (client: OpenAI, history) => {
    const stream = client.chat.completions.stream({ model: 'gpt-4o', messages: history, tools: chatTools })
    return afterChat(history, await stream.finalMessage())
  },
  responses: async (client: OpenAI, history) => {
    const answer = await client.responses.create({ model: 'gpt-4o', input: history, tools: responseTools, store: false })
    history.push(...answer.output)
    const calls: any[] = answer.output.filter((item) => item.type === 'function_call')
    for (const call of calls) {
      history.push({ type: 'function_call_output', call_id: call.call_id, output: run(call.arguments) })
    }
    return calls.length > 0
  },
}
const ANTHROPIC: Record<string, Step> = {
  messages: async (client: Anthropic, history) => {
    const options = { model: 'claude-sonnet-5', max_tokens: 99, system: 'Be brief.', tools: messageTools }
    return afterMessage(history, await client.messages.create({ ...options, messages: history }))
  },
  'messages.stream': async (client: Anthropic, history) => {
    const options = { model: 'claude-sonnet-5', max_tokens: 99, tools: messageTools }
    return afterMessage(history, await client.messages.stream({ ...options, messages: history }).finalMessage())
  },
}

const openai = (): OpenAI => new OpenAI({ baseURL: `${server.base}/v1`, apiKey: 'k', maxRetries: 0 })
const anthropic = (): Anthropic => new Anthropic({ baseURL: server.base, apiKey: 'k', maxRetries: 0 })

async function converse(step: Step, client: any): Promise<any[]> {
  const history: any[] = [task]
  for (let calls = 0; await step(client, history); calls++) assert.ok(calls < 60)
  return history
}

const steps = Object.entries(OPENAI).map(([name, step]) => [name, step, openai] as const)
const others = Object.entries(ANTHROPIC).map(([name, step]) => [name, step, anthropic] as const)

for (const [name, step, client] of [...steps, ...others]) {
  test(`without it, the model refuses: ${name}`, async () => {
    await assert.rejects(converse(step, client()))
  })

  test(`a client keeps a window, also after a restart: ${name}`, async () => {
    const store = join(mkdtempSync(join(tmpdir(), 'lookback-')), 'memory.db')
    const before = await server.report()
    const history = await converse(step, wrap<any>(client(), 'task', { store, policy }))
    history.push({ role: 'user', content: 'And now?' })
    await step(wrap<any>(client(), 'task', { store, policy }), history)
    const report = await server.report()
    assert.deepEqual(report.refused.slice(before.refused.length), [])
    assert.equal(report.too_long, before.too_long)
    const dialect = name.startsWith('messages') ? 'anthropic' : name === 'responses' ? 'openai-responses' : 'openai-chat'
    const kept = JSON.stringify(await (await Session.open('task', { store, dialect })).messages())
    for (let number = 1; number <= 24; number++) assert.ok(kept.includes(`STEP ${number} OF 24`), `step ${number}`)
  })

  test(`a refused request is sent again with less: ${name}`, async () => {
    const before = await server.report()
    await converse(step, wrap<any>(client(), 'task', { policy: 'none' }))
    const report = await server.report()
    assert.ok(report.too_long > before.too_long)
    assert.deepEqual(report.refused.slice(before.refused.length), [])
  })
}

test('the whole of a response is still to be had', async () => {
  const { data, response } = await wrap(openai(), 's')
    .chat.completions.create({ model: 'gpt-4o', messages: [task], tools: chatTools })
    .withResponse()
  assert.equal(response.status, 200)
  assert.ok(data.choices[0]?.message)
})

test('what sends no history passes as it is, and so does what the provider has', async (t) => {
  const bodies: string[] = []
  const echo = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', () => {
      bodies.push(body)
      response.setHeader('content-type', 'application/json').end('{"id":"r","output":[],"data":[]}')
    })
  }).listen(0, '127.0.0.1')
  t.after(() => echo.close())
  await new Promise((listening) => echo.once('listening', listening))
  const baseURL = `http://127.0.0.1:${(echo.address() as AddressInfo).port}`
  const client = wrap(new OpenAI({ baseURL, apiKey: 'k', maxRetries: 0 }), 's', { policy: 'messages:max_messages=1' })
  await client.models.list()
  const input = [task, task]
  await client.responses.create({ model: 'gpt-4o', input, previous_response_id: 'resp_1' })
  assert.deepEqual(JSON.parse(bodies[1]!).input, input)
  await client.responses.create({ model: 'gpt-4o', input: 'Just a text.' })
  assert.equal(JSON.parse(bodies[2]!).input, 'Just a text.')
})

const user = (content: any, more: object = {}): any => ({ role: 'user', content, ...more })
const assistant = (content: string): any => ({ role: 'assistant', content })

/** Returns a function that makes a call, and returns the body that was sent. */
function caller(options: WrapOptions = {}, path = 'chat/completions'): (messages: any[], more?: object) => Promise<any> {
  const sent = new Map<string, any>()
  const fetch = windowed(async (_, init) => {
    const body = JSON.parse(init.body)
    sent.set(body.user, body)
    return new Response('{}')
  }, 's', options)
  let calls = 0
  return async (messages, more = {}) => {
    const id = String(calls++)
    await fetch(`http://localhost/v1/${path}`, { body: JSON.stringify({ model: 'gpt-4o', user: id, messages, ...more }) })
    return sent.get(id)
  }
}

/** The digest in the session name that Python's `wrap` gives a conversation that begins with "Hello.". */
const digest = '665be1f64a5ef637'

const file = (): string => join(mkdtempSync(join(tmpdir(), 'lookback-')), 'memory.db')

for (const place of ['in memory', 'in a store']) {
  for (const kind of ['conversations', 'branches of one conversation']) {
    test(`${kind} at the same time each send their own, ${place}`, async () => {
      const store = place === 'in a store' ? file() : undefined
      const call = caller({ store, policy: 'messages:max_messages=8,target_messages=4' })
      const speakers = ['A', 'B', 'C', 'D'].map((tag) => {
        const history = [user(kind === 'conversations' ? `${tag} begins.` : 'It begins.')]
        return { tag, history, more: tag === 'D' ? { model: 'gpt-4.1' } : {} }
      })
      for (let turn = 0; turn < 12; turn++) {
        const sent = await Promise.all(speakers.map(({ history, more }) => call(history, more)))
        for (const [index, { tag, history }] of speakers.entries()) {
          const { messages } = sent[index]
          assert.deepEqual(messages.at(-1), history.at(-1))
          for (const message of messages) assert.ok(history.some(({ content }) => content === message.content), message.content)
          history.push(assistant(`${tag} answers ${turn}.`), user(`${tag} asks ${turn}.`))
        }
      }
    })
  }
}

test('a call beside a conversation has a session beside it, and its cached beginning stays', async () => {
  const store = file()
  const policy = 'messages:max_messages=12,target_messages=6'
  const alone = caller({ policy })
  const call = caller({ store, policy })
  const history: any[] = [{ role: 'system', content: 'Be brief.' }]
  for (let turn = 0; turn < 20; turn++) {
    history.push(user(`Question ${turn}`))
    assert.deepEqual((await call(history)).messages, (await alone(history)).messages)
    await call([{ role: 'system', content: 'Find a title.' }, user(`Find a title: ${turn}`)])
    history.push(assistant(`Answer ${turn}`))
  }
  // No message is written twice: the position of the newest one counts only the other messages and the cuts.
  const kept = await (await Session.open('s', { store })).history()
  assert.equal(kept.length, 40)
  assert.ok(kept.at(-1)!.position < 50)
})

test('a conversation is known again without its cache marker, and under another system prompt', async () => {
  const store = file()
  const call = caller({ store }, 'messages')
  const marked = (text: string, more: object = {}): any => user([{ type: 'text', text, ...more }])
  await call([marked('One.', { cache_control: { type: 'ephemeral' } })], { system: 'It is Monday.' })
  await call([user('One.'), assistant('Two.'), marked('Three.')], { system: 'It is Tuesday.' })
  assert.equal((await (await Session.open('s', { store, dialect: 'anthropic' })).messages()).length, 3)
})

test('a restart that begins with another call does not take the name from the conversation', async () => {
  const store = file()
  const history = [{ role: 'system', content: 'Be brief.' }, user('Hello.'), assistant('Hi.'), user('And now?')]
  await caller({ store })(history)
  history.push(assistant('Fine.'), user('Go on.'))
  const call = caller({ store })
  await call([user('Find a title.')])
  await call(history)
  const kept = await Session.open('s', { store })
  assert.deepEqual(await kept.messages(), history)
  const positions = history.map((_, position) => position)
  assert.deepEqual(await kept.sync(history), { known: 6, new: 0, left: 0, positions })
})

test('a program that goes on in another format keeps the name', async () => {
  const store = file()
  const history = [user('Hello.'), assistant('Hi.'), user('And now?')]
  await caller({ store })(history)
  await caller({ store }, 'responses')([], { input: history })
  await caller({ store }, 'messages')([user([{ type: 'text', text: 'Hello.' }]), ...history.slice(1)])
  assert.equal((await (await Session.open('s', { store })).history()).length, 3)
  assert.deepEqual(await (await Session.open(`s/${digest}`, { store })).messages(), [])
})

test('a conversation that another format cannot express does not stop its windows', async (t) => {
  const warned: string[] = []
  t.mock.method(process, 'emitWarning', (warning: string) => warned.push(warning))
  const store = file()
  const search = { type: 'server_tool_use', id: 'srvtoolu_1', name: 'web_search', input: {} }
  const history = [user('Search it.'), { role: 'assistant', content: [search] }, user('And now?')]
  await caller({ store }, 'messages')(history)
  await caller({ store })([user('Hello.')])
  assert.deepEqual(warned, [])
  assert.deepEqual(await (await Session.open('s', { store, dialect: 'anthropic' })).messages(), history)
  assert.deepEqual(await (await Session.open(`s/${digest}`, { store })).messages(), [user('Hello.')])
})

test('a session beside a conversation has the same name as in Python', async () => {
  const store = file()
  const call = caller({ store })
  await call([user('Hello.')])
  const titles = {
    '1a493b4aaa602eba': user('Find a title.'),
    'ba0375095b3a8837': user('Größe: 5\u007f "€"\n😀', { name: 'me' }),
    '99ec8520204f19d0': user([{ type: 'text', text: 'One' }, { type: 'text', text: 'Two', more: [1, true, null, 0.5] }]),
  }
  for (const [name, title] of Object.entries(titles)) {
    await call([title])
    assert.deepEqual(await (await Session.open(`s/${name}`, { store })).messages(), [title])
  }
})

test('a history that is sent in another order is not taken for the whole', async () => {
  const tool_calls = [{ id: 'a', type: 'function', function: { name: 'run', arguments: '{}' } }]
  const asked = { role: 'assistant', content: null, tool_calls }
  const result = { role: 'tool', tool_call_id: 'a', content: 'Done.' }
  const { messages } = await caller()([user('Run it.'), asked, user('Wait.'), result])
  assert.deepEqual(messages, [user('Run it.'), asked, result, user('Wait.')])
})

test('a mistake in the options is told at once', () => {
  assert.throws(() => wrap(openai(), 's', { policy: 'messages:max_mesages=4' }), PolicyError)
  assert.throws(() => wrap(openai(), 5 as any), DecodeError)
  assert.throws(() => wrap(openai(), 's', { store: 5 as any }), DecodeError)
})

test('a message that is none is sent as it is, and the process is warned', async (t) => {
  const warned: string[] = []
  t.mock.method(process, 'emitWarning', (warning: string) => warned.push(warning))
  assert.deepEqual((await caller()([null])).messages, [null])
  assert.match(warned.join('\n'), /the request is sent as it is/)
})

test('if Lookback fails, the request is sent as it is, and the process is warned', async (t) => {
  const warned: string[] = []
  t.mock.method(process, 'emitWarning', (warning: string) => warned.push(warning))
  const client = wrap(openai(), 's', { store: '/proc/none/memory.db' })
  const answer = await client.chat.completions.create({ model: 'gpt-4o', messages: [task], tools: chatTools })
  assert.ok(answer.choices.length > 0)
  assert.match(warned.join('\n'), /the request is sent as it is/)
})
