// Sessions and windows.

import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type Anthropic from '@anthropic-ai/sdk'
import { DecodeError, HardLimitExceeded, Irreducible, LookbackError, Policy, Session, StoreError } from 'lookback'
import { type Format, Mirror } from 'lookback/adapter'
import type OpenAI from 'openai'

type Chat = OpenAI.Chat.ChatCompletionMessageParam

const user = (content: string): Chat => ({ role: 'user', content })
const assistant = (content: string): Chat => ({ role: 'assistant', content })
const file = (): string => join(mkdtempSync(join(tmpdir(), 'lookback-')), 'memory.db')

for (const store of [undefined, 'file']) {
  test(`a conversation is kept, ${store ? 'in a store' : 'in memory'}`, async () => {
    const place = store && file()
    const session = await Session.open<Chat>('chat-1', { store: place, model: 'gpt-4o' })
    assert.equal(session.dialect, 'openai-chat')
    assert.deepEqual(await session.push(user('What is in notes.txt?')), [0])
    const window = await session.window()
    assert.deepEqual(window.messages, [user('What is in notes.txt?')])
    assert.deepEqual(window.sources, [{ kind: 'unchanged', positions: [0] }])
    assert.ok(window.tokens > 5 && !window.compacted && window.over.length === 0)
    await session.answered({
      model: 'gpt-4o',
      choices: [{ index: 0, finish_reason: 'stop', message: assistant('Buy milk.') }],
      usage: { prompt_tokens: 20, completion_tokens: 3, total_tokens: 23 },
    })
    assert.deepEqual((await session.history()).map(({ role, text }) => [role, text]), [
      ['user', 'What is in notes.txt?'],
      ['assistant', 'Buy milk.'],
    ])
    assert.ok((await session.search('milk'))[0]?.excerpt.includes('Buy milk.'))
    if (place) {
      const again = await Session.open<Chat>('chat-1', { store: place })
      assert.deepEqual(await again.messages(), [user('What is in notes.txt?'), assistant('Buy milk.')])
    }
  })
}

test('calls that are not awaited are done in their order', async () => {
  const session = await Session.open<Chat>('s', { store: file() })
  const pushed = ['One.', 'Two.', 'Three.'].map((text) => session.push(user(text)))
  const window = await session.window()
  assert.deepEqual((await Promise.all(pushed)).flat(), [0, 1, 2])
  assert.equal(window.messages.length, 3)
})

test('a call that fails holds up none after it', async () => {
  const session = await Session.open<Chat>('s', { store: file() })
  const wrong = session.push({ role: 'emperor', content: 'x' })
  const right = session.push(user('One.'))
  await assert.rejects(wrong, DecodeError)
  assert.deepEqual(await right, [0])
})

test('a whole history is recognized', async () => {
  const session = await Session.open('s')
  const history = [user('One.'), assistant('Two.')]
  assert.deepEqual(await session.sync(history), { known: 0, new: 2, left: 0, positions: [0, 1] })
  assert.deepEqual(await session.sync([...history, user('Three.')]), { known: 2, new: 1, left: 0, positions: [0, 1, 2] })
})

test('JSON text keeps its bytes', async () => {
  const session = await Session.open('s')
  const text = '{ "role": "user",  "content": "One.", "extra": 1.0e2 }'
  await session.push(text)
  assert.equal((await session.window()).json, `[${text}]`)
})

test('a window is cut, and knows why, also later', async () => {
  const session = await Session.open<Chat>('s', { policy: 'messages:max_messages=2' })
  await session.push([user('One.'), assistant('Two.'), user('Three.')])
  const window = await session.window()
  assert.ok(window.compacted)
  const why = window.why()
  assert.equal(why[0]?.action, 'drop')
  await session.push([assistant('Four.'), user('Five.')])
  await session.window()
  assert.deepEqual(window.why(), why)
})

test('an overflow is answered with less', async () => {
  const session = await Session.open<Chat>('s', { policy: 'none' })
  for (let turn = 0; turn < 10; turn++) {
    await session.push([user(`${turn} `.repeat(300)), assistant('Yes.')])
  }
  await session.push(user('And now?'))
  const whole = await session.window()
  const error = Object.assign(new Error("This model's maximum context length is 2000 tokens. However, your messages resulted in 6000 tokens."), { status: 400 })
  assert.ok((await session.overflow(error)).tokens < whole.tokens)
  await assert.rejects(session.overflow(new RangeError('something else')), RangeError)
  await assert.rejects(session.overflow('something else'), LookbackError)
  await assert.rejects(async () => { for (let tries = 0; tries < 20; tries++) await session.overflow() }, Irreducible)
})

test('a status that no provider sends is left alone', async () => {
  const session = await Session.open<Chat>('s')
  await session.push(user('One.'))
  for (const status of [-1, 70_000, 400.5, Number.NaN]) {
    await assert.rejects(session.overflow({ status, message: 'something else' }), LookbackError)
  }
})

/** A format whose elements are the messages themselves. It marks the messages that Lookback makes. */
const plain: Format<any> = {
  dialect: 'openai-chat',
  key: (item) => JSON.stringify(item),
  encode: (item) => [item],
  revive: (_, [shown]) => shown![1],
  make: (shown, name) => ({ ...shown, name }),
}

test('a list that was refused changes nothing of the next one', async () => {
  const mirror = new Mirror('s', plain, {})
  const list: any[] = [user('One.'), assistant('Two.'), user('Three.')]
  await mirror.window(list)
  await assert.rejects(mirror.window([user('One.'), { role: 'emperor', content: 'x' }]), DecodeError)
  list.push(assistant('Four.'), user('Five.'))
  const window = await mirror.window(list)
  assert.equal(window.length, 5)
  window.forEach((message, index) => assert.equal(message, list[index]))
})

test('messages that were refused are pushed later, once', async () => {
  const mirror = new Mirror('s', plain, {})
  const list: any[] = [user('One.')]
  await mirror.window(list)
  await assert.rejects(mirror.window([...list, { role: 'emperor', content: 'x' }]), DecodeError)
  assert.deepEqual(await mirror.window([...list, user('Two.')]), [user('One.'), user('Two.')])
})

test('a store that could not be opened is opened the next time', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'lookback-'))
  const mirror = new Mirror('s', plain, { store: join(folder, 'later/memory.db') })
  await assert.rejects(mirror.window([user('One.')]), StoreError)
  mkdirSync(join(folder, 'later'))
  assert.deepEqual(await mirror.window([user('One.')]), [user('One.')])
})

test('a hard limit is an error with its values', async () => {
  const session = await Session.open<Chat>('s', { policy: { hard: { tokens: 10 } } })
  await session.push(user('word '.repeat(200)))
  await assert.rejects(session.window(), (error) => {
    assert.ok(error instanceof HardLimitExceeded)
    assert.equal(error.excesses[0]?.measure, 'tokens')
    assert.ok(error.pinned.length > 0)
    return true
  })
})

test('the messages of Anthropic are those of its SDK', async () => {
  const session = await Session.open<Anthropic.MessageParam>('s', { model: 'claude-sonnet-4-5' })
  assert.equal(session.dialect, 'anthropic')
  const message: Anthropic.MessageParam = { role: 'user', content: [{ type: 'text', text: 'Hello' }] }
  await session.preamble({ system: 'Be brief.' })
  await session.push(message)
  assert.deepEqual((await session.window()).messages, [message])
})

test('a policy changes, and a session goes on with a task', async () => {
  const place = file()
  const session = await Session.open<Chat>('s', { store: place })
  for (let turn = 0; turn < 20; turn++) await session.push([user(`Question ${turn}?`), assistant('Yes.')])
  await session.setPolicy(new Policy('messages:max_messages=3'))
  assert.ok((await session.window()).messages.length <= 3)
  const again = await Session.open<Chat>('s', { store: place })
  assert.deepEqual(await again.resume(user('And now?'), 1), { turns: 1, unfinished: false })
  assert.ok((await again.receipt()).calls.length > 0)
})

test('a store that cannot be opened is told', async () => {
  await assert.rejects(Session.open('s', { store: '/proc/none/memory.db' }), StoreError)
  await assert.rejects(Session.open('s', { store: 'postgres://me:secret@127.0.0.1:1/x' }), (error) => {
    assert.ok(error instanceof StoreError && !error.message.includes('secret'))
    return true
  })
  await assert.rejects(Session.open(''), DecodeError)
})
