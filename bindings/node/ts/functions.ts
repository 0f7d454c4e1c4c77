// Functions without a session: on one request, a recording, the presets and the prices.

import { called } from './errors.js'
import { mustBe, text } from './json.js'
import native from './native.js'
import { type PolicySource, policyText } from './policy.js'
import { Window } from './window.js'

/** The model of a request and its dialect. The defaults are the request's own. */
export interface ModelOptions {
  model?: string | undefined
  dialect?: string | undefined
}

/** The destination of a request that does not show it. Some rules apply only to one provider or model. */
export interface TargetOptions extends ModelOptions {
  provider?: 'openai' | 'anthropic' | 'gemini' | 'vertex' | 'bedrock' | 'deepseek' | 'other' | undefined
  /** The path of the URL that the request is sent to. */
  path?: string | undefined
}

/** A rule that a request breaks. */
export interface Finding {
  rule: string
  severity: 'refused' | 'degraded'
  message: number
  path: string
  problem: Record<string, unknown>
  /** The problem, and what to do about it. */
  words: string
}

/** A ready-made policy. */
export interface Preset {
  name: string
  purpose: string
}

/** The replay of one recording. */
export interface Replayed {
  report: Record<string, any>
  calls: Record<string, any>[]
}

/** The replays of all recordings, and their sums. */
export interface Replay {
  total: Record<string, any>
  recordings: Replayed[]
}

/**
 * Returns the window of a request: a list of messages, or a request body.
 *
 * The window is the one that a session would send if it had seen the conversation message by message. So a longer
 * request of the same conversation begins with the same bytes until the next compaction.
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

/** Returns a request that is only repaired: it keeps everything that its provider accepts. */
export function repair<M extends object>(request: readonly M[], options?: TargetOptions): Window<M>
export function repair(request: object | string, options?: TargetOptions): Window
export function repair(request: object | string, options: TargetOptions = {}): Window {
  return new Window(called(() => native.repair(text(request, 'request'), target(options))))
}

/**
 * Returns the rules that a request breaks, each with its identifier, its place and the problem. If the destination of
 * the request is unknown, a rule of one provider has the severity `degraded`.
 */
export function check(request: object | string, options: TargetOptions = {}): Finding[] {
  return JSON.parse(called(() => native.check(text(request, 'request'), target(options)))) as Finding[]
}

/**
 * Replays a recorded conversation message by message, and returns what its windows would have sent and cost.
 *
 * `recording` is the path of a file, a request, or a list of messages. A file may have several recordings as JSON
 * lines, or be a session of Claude Code.
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

/** Returns the name and purpose of each preset. */
export function presets(): Preset[] {
  return JSON.parse(native.presets()) as Preset[]
}

/** Returns all built-in prices by name, in US dollars per million tokens. */
export function prices(): Record<string, Record<string, unknown>> {
  return JSON.parse(native.prices()) as Record<string, Record<string, unknown>>
}
