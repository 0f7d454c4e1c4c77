// Facts, which outlive the window and the session.

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DecodeError, FactRefused, Memory, Session } from 'lookback'

test('a fact is remembered, replaced and forgotten', async () => {
  const memory = await Memory.open('chat-1')
  const first = await memory.remember('finding', 'It listens on 5050.', { about: 'the port', by: { tool: 'read' } })
  const second = await memory.remember('finding', 'It listens on 5051.', { about: 'the port', confidence: 0.9 })
  assert.deepEqual((await memory.facts()).map((fact) => fact.id), [second.id])
  assert.equal((await memory.history(first.id)).length, 2)
  assert.equal((await memory.search('5051')).length, 1)
  await memory.forget(second.id, 'it was a guess')
  assert.deepEqual(await memory.facts(), [])
})

test('a session has its memory', async () => {
  const session = await Session.open('s')
  const blocker = await (await session.memory()).remember('blocker', 'The key is missing.')
  const memory = await session.memory()
  assert.ok((await memory.sheet()).text.includes('The key is missing.'))
  assert.equal((await memory.sheet({ budget: 1 })).text, '')
  await memory.resolve(blocker.id, 'it came')
  await assert.rejects(memory.resolve(blocker.id, 'again'), FactRefused)
})

test('a model reads and writes with tools', async () => {
  const memory = await Memory.open('s')
  assert.equal((await memory.tools())[0].function.name, 'memory_finding')
  assert.deepEqual(await memory.call('memory_finding', { content: 'It is slow.', confidence: 0.9 }), {
    text: 'f0 is remembered.',
    error: false,
  })
  assert.ok((await memory.call('memory_finding', '{}')).error)
})

test('what is no fact is refused', async () => {
  const memory = await Memory.open('s')
  await assert.rejects(memory.remember('finding', ' '), FactRefused)
  await assert.rejects(memory.remember('rumor' as 'finding', 'x'), DecodeError)
  await assert.rejects(memory.remember('finding', 'x', { confidence: Number.NaN }), DecodeError)
  await assert.rejects(memory.forget('fact 12'), DecodeError)
})
