// Other runtimes load the package: its native part, its callbacks, and both module formats.

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const program = `
import { Memory, Session } from 'lookback'

const session = await Session.open('s', {
  store: 'memory.db',
  policy: 'rolling-summary:window_size=4',
  summarizer: async () => 'They spoke.',
})
for (let turn = 0; turn < 8; turn++) {
  await session.push([{ role: 'user', content: 'Question ' + turn }, { role: 'assistant', content: 'Yes.' }])
  await session.window()
  await session.waitForSummary()
}
await (await session.memory()).remember('finding', 'It works.')
console.log((await session.window()).messages[0].content, (await session.messages()).length)
console.log((await (await Memory.open('s', { store: 'memory.db' })).facts()).length)
`

for (const [name, ...args] of [['bun'], ['deno', 'run', '--allow-all', '--quiet']]) {
  test(`${name} loads it`, () => {
    const cwd = mkdtempSync(join(process.cwd(), 'example-'))
    writeFileSync(join(cwd, 'program.mjs'), program)
    const command = join(process.cwd(), 'node_modules/.bin', name!)
    const done = spawnSync(command, [...args, 'program.mjs'], { cwd, encoding: 'utf8' })
    assert.equal(done.stdout, 'They spoke. 16\n1\n', done.stderr)
  })
}
