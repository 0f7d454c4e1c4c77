// The examples of the page on adapters run unchanged, against a provider that enforces its rules.

import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { type StandIn, standIn } from './stand-in.js'

const page = readFileSync(join(process.env.LOOKBACK_EXAMPLES!, '../docs/guides/adapters.md'), 'utf8')
const examples = page.split(/^## /m).flatMap((section) => {
  const code = /```js\n(.*?)```/s.exec(section)?.[1]
  return code ? [[section.split('\n')[0]!, code] as const] : []
})
let server: StandIn
before(async () => {
  server = await standIn('--window', '12000')
})
after(() => server.stop())

for (const [name, code] of examples) {
  test(`an adapter keeps the conversation: ${name}`, async () => {
    const cwd = mkdtempSync(join(process.cwd(), 'example-'))
    const env = { ...process.env, OPENAI_API_KEY: 'k', OPENAI_BASE_URL: `${server.base}/v1`, MASTRA_TELEMETRY_DISABLED: '1' }
    const program = spawn(process.execPath, ['--input-type=module', '-e', `${code}\nprocess.exit()`], { cwd, env })
    let [printed, told] = ['', '']
    program.stdout.on('data', (text) => (printed += text))
    program.stderr.on('data', (text) => (told += text))
    const status = await new Promise((ended) => program.on('close', ended))
    assert.equal(status, 0, told)
    assert.ok(printed.trim(), told)
    assert.ok(readFileSync(join(cwd, 'memory.db')).length > 0)
    assert.deepEqual((await server.report()).refused, [])
  })
}

test('every adapter has an example', () => {
  const described = dirname(createRequire(import.meta.url).resolve('lookback/package.json'))
  const { exports } = JSON.parse(readFileSync(join(described, 'package.json'), 'utf8'))
  const adapters = Object.keys(exports).filter((path) => !['.', './adapter', './package.json'].includes(path))
  assert.deepEqual(adapters.filter((path) => !examples.some(([, code]) => code.includes(`'lookback${path.slice(1)}'`))), [])
})
