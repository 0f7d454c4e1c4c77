// The engine in WebAssembly: what it checks, plans, windows and counts, and how it refuses.

import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { load, LookbackError } from '../../../target/npm-wasm/index.js'

const corpus = process.env.LOOKBACK_CORPUS
let lookback
before(async () => {
  lookback = await load()
})

const long = Array.from({ length: 50 }, (_, number) => ({ role: 'user', content: `Question ${number}` }))
const policy = { limits: { messages: 10 } }

test('a request gets its window', () => {
  const window = lookback.fit(long, { policy })
  assert.deepEqual(window.messages, long.slice(-10))
  assert.ok(window.compacted && window.tokens > 0)
  assert.equal(lookback.fit(long).messages.length, 50)
})

test('a plan has a reason for each group', () => {
  const plan = lookback.plan(long, { policy })
  assert.equal(plan.length, 10)
  assert.ok(plan.every(({ decision }) => decision.action && decision.reason))
})

test('tokens are estimated, or counted', async () => {
  assert.deepEqual(lookback.count('Hello, world!').exact, false)
  const exact = await load({ exact: true })
  assert.deepEqual(exact.count('Hello, world!', { model: 'gpt-4o' }), { tokens: 4, exact: true })
})

test('the engine can be given, as bytes or compiled', async () => {
  const bytes = readFileSync(new URL('../../../target/npm-wasm/lookback.wasm', import.meta.url))
  for (const source of [bytes, await WebAssembly.compile(bytes)]) {
    assert.equal((await load({ source })).fit(long, { policy }).messages.length, 10)
  }
})

for (const file of readdirSync(join(corpus, 'rules'))) {
  const dialect = file.replace('.json', '')
  test(`the vectors hold: rules of ${dialect}`, () => {
    for (const { name, request, path, previous, findings } of JSON.parse(readFileSync(join(corpus, 'rules', file), 'utf8'))) {
      // A check looks at one request alone.
      if (previous) continue
      const found = lookback.check(request, { dialect, path })
      assert.deepEqual(found.map(({ rule, path }) => [rule, path]), findings.map(({ rule, path }) => [rule, path]), name)
    }
  })
}

const WRONG = [
  ['no JSON', () => lookback.check('{"messages":'), 'request'],
  ['no request', () => lookback.check({ messages: 7 }), 'request'],
  ['an unknown format', () => lookback.check(long, { dialect: 'klingon' }), 'dialect'],
  ['a policy that is none', () => lookback.fit(long, { policy: { limits: { messages: 'many' } } }), 'options'],
  ['a hard limit', () => lookback.fit(long, { policy: { hard: { tokens: 1 } } }), 'request'],
]
for (const [name, wrong, where] of WRONG) {
  test(`an error says where it is: ${name}`, () => {
    assert.throws(wrong, (error) => error instanceof LookbackError && error.where === where && error.message.length > 0)
    // The engine goes on.
    assert.equal(lookback.fit(long, { policy }).messages.length, 10)
  })
}

test('the example of the README runs as it is written', async () => {
  const readme = readFileSync(new URL('../../../target/npm-wasm/README.md', import.meta.url), 'utf8')
  const [, code] = /```js\n(.*?)```/s.exec(readme)
  const printed = []
  const log = (...values) => printed.push(values.join(' '))
  const body = code.replace(/import .*\n/, '').replace('console.log', 'log')
  await new (async () => {}).constructor('load', 'log', body)(load, log)
  assert.ok(code.includes(`// ${printed[0]}`), printed[0])
})

test('many calls need no more memory than one', async () => {
  const engine = await load()
  const text = 'word '.repeat(20_000)
  for (let round = 0; round < 200; round++) engine.count(text)
  assert.equal(engine.count('x').tokens, 1)
})
