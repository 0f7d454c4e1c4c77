// What has no form in JSON is refused, with its place.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { check, DecodeError, fit, Session } from 'lookback'

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
