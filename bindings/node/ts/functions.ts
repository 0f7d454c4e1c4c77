// What needs no session: one request, a recording, the presets and the prices.

import { called } from './errors.js'
import { mustBe, text } from './json.js'
import native from './native.js'
import { type PolicySource, policyText } from './policy.js'
import { Window } from './window.js'

/** The model of a request, and the format of its messages. Without them, they are the request's own. */
export interface ModelOptions {
  model?: string | undefined
  dialect?: string | undefined
}

/** Where a request goes, if it does not tell. Some rules are only one provider's or one model's. */
export interface TargetOptions extends ModelOptions {
  provider?: 'openai' | 'anthropic' | 'gemini' | 'vertex' | 'bedrock' | 'deepseek' | 'other' | undefined
  /** The path of the URL that it is sent to. */
  path?: string | undefined
}

/** A rule that a request breaks. */
export interface Finding {
  rule: string
  severity: 'refused' | 'degraded'
  message: number
  path: string
  problem: Record<string, unknown>
  /** What is wrong, and what to do about it. */
  words: string
}

/** A ready-made policy. */
export interface Preset {
  name: string
  purpose: string
}

/** A recording that was replayed. */
export interface Replayed {
  report: Record<string, any>
  calls: Record<string, any>[]
}

/** Recordings that were replayed, and their sums. */
export interface Replay {
  total: Record<string, any>
  recordings: Replayed[]
}

/**
 * Returns the window of a request: a list of messages, or all that is sent with them.
 *
 * It is what a session would send that had seen the conversation message by message, so a longer request of the same
 * conversation begins with the same bytes until the next cut.
 */
export function fit<M extends object>(
  request: readonly M[],
  options?: ModelOptions & { policy?: PolicySource | undefined },
): Window<M>
export function fit(
  request: object | string,
  options?: ModelOptions & { policy?: PolicySource | undefined },
): Window
export function fit(
  request: object | string,
  options: ModelOptions & { policy?: PolicySource | undefined } = {},
): Window {
  const { policy, ...model } = options
  return new Window(called(() => native.fit(text(request, 'request'), named(model), policyText(policy))))
}

/** Returns a request with repairs alone: nothing is left out that its provider accepts. */
export function repair<M extends object>(request: readonly M[], options?: TargetOptions): Window<M>
export function repair(request: object | string, options?: TargetOptions): Window
export function repair(request: object | string, options: TargetOptions = {}): Window {
  return new Window(called(() => native.repair(text(request, 'request'), target(options))))
}

/**
 * Returns the rules of its provider that a request breaks, each with its number, its place and what is wrong. If nobody knows
 * where it goes, a rule of one provider has the severity `degraded`.
 */
export function check(request: object | string, options: TargetOptions = {}): Finding[] {
  return JSON.parse(called(() => native.check(text(request, 'request'), target(options)))) as Finding[]
}

/**
 * Replays a recorded conversation message by message: what its windows would have sent and cost.
 *
 * `recording` is the path of a file, or a request or a list of messages. A file may have several recordings, as JSON lines, and
 * may be a session of Claude Code.
 */
export function replay(
  recording: string | object,
  options: ModelOptions & { policy?: PolicySource; price?: string } = {},
): Replay {
  const { policy, price = 'anthropic-5m', ...model } = options
  mustBe('text', { price })
  const isFile = typeof recording === 'string'
  const given = text(recording, 'recording')
  return JSON.parse(called(() => native.replay(given, isFile, named(model), policyText(policy), price))) as Replay
}

function target({ provider, path, ...model }: TargetOptions): TargetOptions {
  mustBe('text', {}, { provider, path })
  return { ...named(model), provider, path }
}

function named({ model, dialect }: ModelOptions): ModelOptions {
  mustBe('text', {}, { model, dialect })
  return { model, dialect }
}

/** Returns the presets: the name of each, and what it is for. */
export function presets(): Preset[] {
  return JSON.parse(native.presets()) as Preset[]
}

/** Returns all prices that Lookback knows, by name, in US dollars for a million tokens. */
export function prices(): Record<string, Record<string, unknown>> {
  return JSON.parse(native.prices()) as Record<string, Record<string, unknown>>
}
