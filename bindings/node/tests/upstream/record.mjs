// Runs before each test file: adds our middleware to each call of `generate`, and records how each test ends.

import { appendFileSync } from 'node:fs'
import { afterEach, beforeEach } from 'node:test'

let reached = false
globalThis.lookback = () => []

if (process.env.LOOKBACK_OURS) {
  const [{ Mirror }, { lookback }] = await Promise.all([import('lookback/adapter'), import('lookback/genkit')])
  const { call } = Mirror.prototype
  Mirror.prototype.call = function (...given) {
    reached = true
    return call.apply(this, given)
  }
  const window = lookback()
  globalThis.lookback = () => [window()]
}

beforeEach(() => {
  reached = false
})
afterEach((test) => {
  const told = { test: test.fullName, passed: test.passed, reached }
  appendFileSync(process.env.LOOKBACK_RECORD, `${JSON.stringify(told)}\n`)
})
