// The examples of the README run unchanged, and print what it says.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { test } from 'node:test'

const readme = join(dirname(createRequire(import.meta.url).resolve('lookback/package.json')), 'README.md')

for (const [index, [, code]] of [...readFileSync(readme, 'utf8').matchAll(/```js\n(.*?)```/gs)].entries()) {
  test(`example ${index + 1} runs`, () => {
    const cwd = mkdtempSync(join(process.cwd(), 'example-'))
    const env = { ...process.env, OPENAI_API_KEY: 'k' }
    const done = spawnSync(process.execPath, ['--input-type=module', '-e', code!], { cwd, env, encoding: 'utf8' })
    assert.equal(done.status, 0, done.stderr)
    const expected = [...code!.matchAll(/console\.log\(.*\) \/\/ (.*)/g)].map(([, printed]) => printed!)
    for (const printed of expected) assert.ok(done.stdout.includes(printed), done.stdout)
    assert.ok(done.stdout.trim())
  })
}
