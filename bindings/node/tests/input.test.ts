// Values that JSON cannot hold are refused with their path, and arguments of a wrong type with their name.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { check, DecodeError, fit, Memory, Policy, replay, Session } from 'lookback'

const cyclic: Record<string, unknown> = { role: 'user' }
cyclic.content = [cyclic]
let deep: unknown = 'x'
for (let level = 0; level < 100_000; level++) deep = [deep]

const WRONG: [string, unknown, string][] = [
  ['not a number', { role: 'user', content: 'x', extra: Number.NaN }, 'messages.extra'],
  ['infinite', [{ role: 'user', content: [{ type: 'text', text: 'x', n: Infinity }] }], 'messages[0].content[0].n'],
  ['half of a character', { role: 'user', content: 'a\ud800b' }, 'messages.content'],
  ['half of a character in a name', { role: 'user', content: [{ '\udc00': 1 }] }, 'messages'],
  ['binary', { role: 'user', content: [{ type: 'image', image: new Uint8Array(3) }] }, 'messages.content[0].image'],
  ['a Buffer', { role: 'user', content: Buffer.from('x') }, 'messages.content'],
  ['a bigint', { role: 'user', content: 1n }, 'messages.content'],
  ['a cycle', cyclic, 'messages'],
  ['very deep', { role: 'user', content: deep }, 'messages'],
  ['a number', 7, 'messages'],
  ['a function', () => 1, 'messages'],
  ['another role', { role: 'emperor', content: 'x' }, 'messages[0]'],
  ['no JSON', '{"role":', 'messages'],
  ['a function in a message', { role: 'user', content: () => 1 }, 'messages.content'],
  ['a symbol', { role: 'user', content: Symbol('x') }, 'messages.content'],
  ['a Map', { role: 'user', content: 'x', extra: new Map([[1, 2]]) }, 'messages.extra'],
  ['a Set', [{ role: 'user', content: new Set(['x']) }], 'messages[0].content'],
  ['an invalid date', { role: 'user', content: 'x', extra: [new Date(Number.NaN)] }, 'messages.extra[0]'],
  ['an ArrayBuffer', { role: 'user', content: new ArrayBuffer(4) }, 'messages.content'],
  ['undefined in a list', { role: 'user', content: 'x', extra: [undefined] }, 'messages.extra'],
  ['a Map that another value becomes', { role: 'user', content: { toJSON: () => new Map() } }, 'messages.content'],
  ['half of a character in JSON text', '{"role":"user","content":"\ud800"}', 'messages'],
  ['several messages in one text', '{"role":"user","content":"x"},{"role":"user","content":"y"}', 'messages'],
  ['several messages in one of several texts', ['{"role":"user","content":"x"},{"role":"user","content":"y"}'], 'messages[0]'],
  ['an empty text', '', 'messages'],
]

for (const [name, wrong, place] of WRONG) {
  test(`${name} is refused with its place`, async () => {
    const session = await Session.open('s')
    await assert.rejects(session.push(wrong as object), (error) => {
      assert.ok(error instanceof DecodeError, String(error))
      assert.ok(error.where.startsWith(place), error.where)
      assert.ok(error.message.length < 500)
      return true
    })
    assert.deepEqual(await session.messages(), [])
  })
}

const broken = (): never => {
  throw new RangeError('out of order')
}
const BROKEN = { toJSON: { toJSON: broken }, 'a getter': { get x() { return broken() } } }
for (const [name, given] of Object.entries(BROKEN)) {
  test(`the error of ${name} that throws is told`, async () => {
    const session = await Session.open('s')
    await assert.rejects(session.push({ role: 'user', content: given }), (error) => {
      assert.ok(error instanceof DecodeError, String(error))
      assert.equal(error.where, 'messages.content')
      assert.match(error.message, /RangeError: out of order/)
      return true
    })
  })
}

test('a member without a value, and a date, are what JSON makes of them', async () => {
  const session = await Session.open('s')
  await session.push({ role: 'user', content: 'x', name: undefined, extra: { at: new Date(0), none: {} } })
  assert.deepEqual(await session.messages(), [{ role: 'user', content: 'x', extra: { at: '1970-01-01T00:00:00.000Z', none: {} } }])
})

const any = (value: unknown): any => value
const ARGUMENTS: Record<string, [string, (session: Session, memory: Memory) => unknown][]> = {
  'no text': [
    ['name', () => Session.open(any(5))],
    ['store', () => Session.open('s', { store: any(5) })],
    ['store', () => Session.open('s', { store: any(null) })],
    ['model', () => Session.open('s', { model: any({}) })],
    ['session', () => Memory.open(any(undefined))],
    ['model', () => fit([], { model: any(5) })],
    ['price', () => replay([], { price: any(5) })],
    ['query', (session) => session.search(any(undefined))],
    ['model', (session) => session.usage(any(undefined), 1)],
    ['text', (_, memory) => memory.remember('finding', any(5))],
    ['id', (_, memory) => memory.forget(any(12))],
    ['name', () => Session.open('half of a character: \ud800')],
  ],
  'no whole number': [
    ['inputTokens', (session) => session.usage('gpt-4o', -1)],
    ['inputTokens', (session) => session.usage('gpt-4o', 1.5)],
    ['inputTokens', (session) => session.usage('gpt-4o', 2 ** 33)],
    ['limit', (session) => session.search('x', -1)],
    ['limit', (_, memory) => memory.search('x', any('5'))],
    ['turns', (session) => session.resume({ role: 'user', content: 'x' }, Number.NaN)],
    ['budget', (_, memory) => memory.sheet({ budget: -1 })],
  ],
  'no confidence': [
    ['confidence', (_, memory) => memory.remember('finding', 'x', { confidence: 5 })],
    ['confidence', (_, memory) => memory.remember('finding', 'x', { confidence: Number.NaN })],
  ],
  'no preamble': [
    ['system', (session) => session.preamble({ system: 5 })],
    ['tools', (session) => session.preamble({ tools: 'x' })],
  ],
  'no function': [
    ['summarizer', () => Session.open('s', { summarizer: any('x') })],
    ['onCompactStart', () => Session.open('s', { onCompactStart: any(null) })],
    ['onCompactEnd', () => Session.open('s', { onCompactEnd: any(5) })],
  ],
  'no policy': [
    ['policy', () => new Policy(any(5))],
    ['policy', () => Session.open('s', { policy: any(null) })],
    ['policy', (session) => session.setPolicy(any(undefined))],
  ],
}
for (const [kind, calls] of Object.entries(ARGUMENTS)) {
  test(`an argument that is ${kind} is refused with its name`, async () => {
    const [session, memory] = [await Session.open('s'), await Memory.open('s')]
    for (const [name, call] of calls) {
      await assert.rejects(async () => call(session, memory), (error) => {
        assert.ok(error instanceof DecodeError, `${name}: ${error}`)
        assert.equal(error.where, name)
        return true
      }, `${name}: ${call}`)
    }
  })
}

test('what only looks like half of a character is text', async () => {
  const session = await Session.open('s')
  const message = { role: 'user', content: 'the escape \\ud800 and 😀' }
  await session.push(message)
  assert.deepEqual((await session.window()).messages, [message])
})

test('a request is refused, too', () => {
  assert.throws(() => fit([{ role: 'user', content: Number.NaN }]), DecodeError)
  assert.throws(() => fit('nonsense'), DecodeError)
  assert.throws(() => check({ messages: 7 }), DecodeError)
  assert.throws(() => fit([], { dialect: 'klingon' }), DecodeError)
})

test('a message of 2 MB is a message', async () => {
  const session = await Session.open('s')
  await session.push({ role: 'user', content: 'x'.repeat(2 << 20) })
  assert.equal((await session.messages()).length, 1)
})
