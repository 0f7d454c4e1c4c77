// Summaries by callbacks, and the events that a session emits about compactions.

import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { type CompactEnd, type CompactStart, Session } from 'lookback'

const policy = 'rolling-summary:window_size=4'

// Waits for a session's callbacks, which run between two turns of the event loop.
async function until(isSo: () => boolean): Promise<void> {
  const begun = Date.now()
  while (!isSo()) {
    assert.ok(Date.now() - begun < 60_000, 'it was not told')
    await new Promise((done) => setTimeout(done, 5))
  }
}

async function talk(session: Session, turns = 8): Promise<void> {
  for (let turn = 0; turn < turns; turn++) {
    await session.push({ role: 'user', content: `Question ${turn}, please?` })
    await session.window()
    await session.push({ role: 'assistant', content: `Answer ${turn}, of course.` })
    await session.waitForSummary()
  }
}

test('a function makes the summary', async () => {
  const prompts: string[] = []
  const session = await Session.open('s', {
    policy,
    summarizer: async ({ prompt, system, budget }) => {
      prompts.push(prompt)
      assert.ok(system && budget > 0)
      return 'They spoke of questions and answers.'
    },
  })
  await talk(session)
  assert.ok(prompts[0]?.includes('Question 0'))
  assert.ok((await session.window()).messages[0].content.includes('They spoke of questions'))
})

test('a function that throws, and one that returns no text, lose nothing', async (t) => {
  const warned: string[] = []
  t.mock.method(process, 'emitWarning', (warning: Error | string) => warned.push(String(warning)))
  for (const summarizer of [() => { throw new RangeError('secret') }, () => 7 as unknown as string]) {
    const ended: CompactEnd[] = []
    const session = await Session.open('s', { policy, summarizer, onCompactEnd: (event) => ended.push(event) })
    await talk(session, 4)
    await until(() => ended.some((event) => event.outcome === 'failed'))
    const failed = ended.find((event) => event.outcome === 'failed')
    assert.match(failed?.reason ?? '', /RangeError|TypeError/)
    assert.ok(!failed?.reason?.includes('secret'))
    assert.equal((await session.messages()).length, 8)
  }
  await until(() => warned.some((warning) => warning.includes('secret')))
})

test('compactions are told', async () => {
  const started: CompactStart[] = []
  const session = await Session.open('s', {
    policy: 'messages:max_messages=4',
    onCompactStart: (event) => started.push(event),
    onCompactEnd: () => { throw new Error('a listener that throws changes nothing') },
  })
  await talk(session, 4)
  await until(() => started.length > 0)
  assert.ok(started[0]?.session === 's' && started[0].evicted_count > 0)
})

test('a listener that is asynchronous and throws does not end the process', () => {
  const program = `
    const { Session } = require('lookback')
    const main = async () => {
      const alive = setInterval(() => {}, 1000)
      process.on('warning', ({ message }) => {
        if (!message.includes('the listener failed')) return
        clearInterval(alive)
        setTimeout(() => console.log('still here'), 50)
      })
      const onCompactEnd = async () => { throw new Error('the listener failed') }
      const session = await Session.open('s', { policy: 'messages:max_messages=2', onCompactEnd })
      await session.push(['One.', 'Two.', 'Three.'].map((content) => ({ role: 'user', content })))
      await session.window()
    }
    main()`
  const { stdout, stderr } = spawnSync(process.execPath, ['-e', program], { encoding: 'utf8', timeout: 300_000 })
  assert.equal(stdout, 'still here\n')
  assert.match(stderr, /the listener failed/)
})

test('a process ends in the middle of a summary', () => {
  const program = `
    const { Session } = require('lookback')
    const main = async () => {
      const session = await Session.open('s', { policy: '${policy}', summarizer: () => new Promise(() => {}) })
      for (let turn = 0; turn < 8; turn++) {
        await session.push([{ role: 'user', content: 'Question ' + turn }, { role: 'assistant', content: 'Yes.' }])
        await session.window()
      }
      console.log((await session.messages()).length)
    }
    main()`
  assert.equal(execFileSync(process.execPath, ['-e', program], { encoding: 'utf8', timeout: 300_000 }), '16\n')
})
