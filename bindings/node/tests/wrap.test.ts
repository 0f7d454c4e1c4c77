// Clients of the providers' SDKs, unmodified but for one line, in conversations that are longer than a model takes.

import assert from 'node:assert/strict'
import { execSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import { Session, wrap } from 'lookback'
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

test('if Lookback fails, the request is sent as it is, and the process is warned', async (t) => {
  const warned: string[] = []
  t.mock.method(process, 'emitWarning', (warning: string) => warned.push(warning))
  const client = wrap(openai(), 's', { store: '/proc/none/memory.db' })
  const answer = await client.chat.completions.create({ model: 'gpt-4o', messages: [task], tools: chatTools })
  assert.ok(answer.choices.length > 0)
  assert.match(warned.join('\n'), /the request is sent as it is/)
})
