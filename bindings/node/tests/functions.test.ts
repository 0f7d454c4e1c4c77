// Single requests, policies, replays, and the command line.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { check, fit, Policy, PolicyError, presets, prices, repair, replay, Session } from 'lookback'
import type OpenAI from 'openai'

const require = createRequire(import.meta.url)
/** The folder with the examples of the project. */
const examples = process.env.LOOKBACK_EXAMPLES!

const long: OpenAI.Chat.ChatCompletionMessageParam[] = Array.from({ length: 50 }, (_, number) => ({
  role: 'user',
  content: `Question ${number}`,
}))

test('one request gets its window', () => {
  const window = fit(long, { policy: 'messages:max_messages=10' })
  const messages: OpenAI.Chat.ChatCompletionMessageParam[] = window.messages
  assert.equal(messages.length, 10)
  assert.equal(window.why()[0]?.action, 'drop')
  assert.deepEqual(window.message(0), messages[0])
  assert.equal(window.message(10), undefined)
})

test('a broken request is found and repaired', () => {
  const broken = readFileSync(join(examples, 'broken.json'), 'utf8')
  const findings = check(broken)
  assert.ok(findings.length > 0 && findings[0]?.words && findings[0].rule)
  const mended = repair(broken)
  assert.deepEqual(check({ ...JSON.parse(broken), messages: mended.messages }), [])
})

test('a policy is a value', () => {
  const policy = new Policy('turns:max_turns=8')
  assert.deepEqual(new Policy(policy).toJSON(), policy.toJSON())
  assert.deepEqual(new Policy(policy.toToml()).toJSON(), policy.toJSON())
  assert.notDeepEqual(new Policy().toJSON(), policy.toJSON())
  for (const wrong of ['turns:max_turns=-1', 'nothing', { limits: { turns: 'many' } }]) {
    assert.throws(() => new Policy(wrong), PolicyError)
  }
  assert.throws(() => new Policy({ limits: new Map() as any }), { name: 'DecodeError', where: 'policy.limits' })
  assert.ok(presets().some(({ name }) => name === 'default') && 'anthropic-5m' in prices())
})

test('a recording is replayed', () => {
  const file = join(examples, 'session.jsonl')
  const replayed = replay(file)
  assert.equal(replayed.total.calls, 78)
  assert.equal(replayed.recordings[0]?.calls.length, 78)
  assert.ok(replayed.total.cost < replay(file, { policy: 'none' }).total.cost)
  assert.equal(replay([{ role: 'user', content: 'a' }, { role: 'assistant', content: 'b' }]).total.calls, 1)
})

test('a notebook shows a picture and a table', async () => {
  const session = await Session.open('<script>', { policy: 'messages:max_messages=2' })
  await session.push(long.slice(0, 5))
  for (const shown of [(await session.window()).html(), await session.html()]) {
    assert.ok(shown.includes('<svg') && shown.includes('<table>') && !shown.includes('<script>'))
  }
})

test('CommonJS has the same package', () => {
  const same = require('lookback') as typeof import('lookback', { with: { 'resolution-mode': 'require' } })
  assert.equal(same.fit(long, { policy: 'messages:max_messages=10' }).messages.length, 10)
})

test('the command line comes with the package', () => {
  const bin = join(dirname(require.resolve('lookback/package.json')), 'bin/lookback.cjs')
  const run = (...args: string[]) => spawnSync(process.execPath, [bin, ...args], { encoding: 'utf8', cwd: process.env.TMPDIR ?? '/tmp' })
  const checked = run('check', join(examples, 'request.json'))
  assert.equal(checked.status, 0, checked.stderr)
  assert.match(run('--version').stdout, /^lookback \d/)
  assert.equal(run('nonsense').status, 2)
})
