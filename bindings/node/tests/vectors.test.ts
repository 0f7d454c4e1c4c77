// The vectors of the project, which every implementation can run.

import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { check, LookbackError, Memory, Session } from 'lookback'

const corpus = process.env.LOOKBACK_CORPUS!

function vectors(folder: string): [file: string, vector: any][] {
  return readdirSync(join(corpus, folder)).flatMap((file) =>
    JSON.parse(readFileSync(join(corpus, folder, file), 'utf8')).map((vector: any) => [file.replace('.json', ''), vector]),
  )
}

/** Returns whether a request contains half of a surrogate pair. Strings with one are refused as input. */
const isHalf = ({ repaired }: any): boolean => JSON.stringify(repaired ?? '').includes('\ufffd')

test('a check finds what a provider refuses', () => {
  for (const [dialect, vector] of vectors('rules')) {
    const { name, path, request, previous, findings } = vector
    // A check sees only one request.
    if (previous || isHalf(vector)) continue
    const found = check(request, { dialect, path }).map(({ rule, severity, path, problem }) => {
      const warns = severity === 'degraded' ? { warns: true } : {}
      return { rule, path, kind: problem.kind, ...warns }
    })
    assert.deepEqual(found, findings, `${dialect}: ${name}`)
  }
})

test('a session sends the repaired messages', async () => {
  for (const [dialect, vector] of vectors('rules')) {
    const { name, path, request, findings, repaired } = vector
    if (isHalf(vector)) continue
    const isList = Array.isArray(request)
    const messages = isList ? request : (request.messages ?? request.input ?? request.contents)
    // A session takes messages: not a plain text, and not a request that continues a history of the provider.
    if (!Array.isArray(messages) || request.previous_response_id || request.conversation) continue
    // A session knows neither the path of a request nor whether the provider stores it.
    if (path || request.store === false) continue
    const session = await Session.open('s', { dialect, model: request.model, policy: 'none' })
    const system = request.system ?? request.instructions ?? request.systemInstruction
    if (!isList) await session.preamble({ system, tools: request.tools })
    await session.push(messages)
    const sent = (await session.window()).messages
    if (repaired) assert.deepEqual(sent, repaired, `${dialect}: ${name}`)
    else if (findings.length === 0) assert.deepEqual(sent, messages, `${dialect}: ${name}`)
  }
})

test('an error is understood', async () => {
  class Refused extends Error {
    constructor(readonly status: number | null, readonly responseBody: string) {
      super(responseBody)
    }
  }
  for (const [dialect, { name, status, body, error }] of vectors('errors')) {
    const session = await Session.open('s', { dialect })
    // Before the first call, there is nothing to leave out.
    const expected = typeof error === 'object' && 'too_long' in error ? LookbackError : Refused
    await assert.rejects(session.overflow(new Refused(status, body)), expected, `${dialect}: ${name}`)
  }
})

test('the tools of a memory answer', async () => {
  for (const { name, facts = [], calls } of JSON.parse(readFileSync(join(corpus, 'memory/tools.json'), 'utf8'))) {
    const memory = await Memory.open('s')
    for (const { kind, text, scope, by = 'model', ...more } of facts) {
      const said = by === 'tool' ? { tool: 'grep' } : by
      await memory.remember(kind, text, { ...more, by: said, shared: scope === 'shared' })
    }
    for (const { tool, with: given, gives, fails } of calls) {
      const reply = await memory.call(tool, given)
      assert.deepEqual(reply, { text: fails ?? gives, error: fails !== undefined }, name)
    }
  }
})
