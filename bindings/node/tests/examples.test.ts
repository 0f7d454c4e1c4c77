// The programs of the folder `examples` run, against a provider that enforces its rules.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Session } from 'lookback'
import { type StandIn, standIn } from './stand-in.js'

const examples = join(process.env.LOOKBACK_EXAMPLES!, 'node')
let server: StandIn
before(async () => {
  server = await standIn('--window', '12000')
})
after(() => server.stop())

/** Runs an example in a separate folder, from which it can import the packages. */
function run(name: string, folder: string): string {
  copyFileSync(join(examples, name), join(folder, name))
  const env = {
    ...process.env,
    OPENAI_API_KEY: 'k',
    OPENAI_BASE_URL: `${server.base}/v1`,
    ANTHROPIC_API_KEY: 'k',
    ANTHROPIC_BASE_URL: server.base,
  }
  const done = spawnSync(process.execPath, [name], { cwd: folder, env, input: 'Hello.\nAnd now?\n', encoding: 'utf8' })
  assert.equal(done.status, 0, done.stderr)
  return done.stdout
}

const folder = (): string => mkdtempSync(join(process.cwd(), 'example-'))

for (const [name, dialect] of [['openai-chat.mjs', 'openai-chat'], ['anthropic-chat.mjs', 'anthropic']] as const) {
  test(`a chat goes on after a restart: ${dialect}`, async () => {
    const place = folder()
    for (let start = 0; start < 2; start++) assert.ok(run(name, place).trim().split('\n').length >= 2)
    const kept = await Session.open('chat-1', { store: join(place, 'memory.db'), dialect })
    const roles = (await kept.history()).map(({ role }) => role)
    assert.deepEqual(roles, Array(4).fill(['user', 'assistant']).flat())
    assert.deepEqual((await server.report()).refused, [])
  })
}

test('a summary takes the place of what has left', () => {
  const printed = run('summaries.mjs', folder())
  assert.ok(printed.includes('They spoke about') && printed.endsWith('20 messages are kept\n'))
})

test('facts are read by the next session', () => {
  const printed = run('memory.mjs', folder())
  assert.ok(printed.includes('is remembered.') && printed.includes('Use pnpm, not npm.') && !printed.includes('5050'))
})

test('all are tested', () => {
  const own = readFileSync(new URL('../examples.test.ts', import.meta.url), 'utf8')
  assert.deepEqual(readdirSync(examples).filter((name) => !own.includes(`'${name}'`)), [])
})
