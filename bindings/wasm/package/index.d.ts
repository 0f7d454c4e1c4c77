/** An error, with the place of what is wrong: `request`, `dialect` or `options`. */
export class LookbackError extends Error {
  readonly where: string
}

/** The format of a request. Without it, it is recognized. */
export type Dialect = 'openai-chat' | 'openai-responses' | 'anthropic' | 'gemini' | 'bedrock'

/** How a window is made. */
export interface Options {
  dialect?: Dialect | undefined
  /** The model. Without it, it is the request's. */
  model?: string | undefined
  /** The members of a policy. Without it, it is the default. */
  policy?: Record<string, unknown> | undefined
}

/** A rule that a request breaks. */
export interface Finding {
  rule: string
  severity: 'refused' | 'degraded'
  message: number
  path: string
  problem: Record<string, unknown>
}

/** The window of a request. */
export interface Window<M> {
  messages: M[]
  /** The tokens, with the system prompt and the tools. */
  tokens: number
  /** Whether something was cut. */
  compacted: boolean
}

/** What would become of a group of messages. */
export interface PlannedGroup {
  /** The positions of its messages, as spans. */
  entries: { start: number; end: number }[]
  decision: Record<string, unknown>
}

/** The engine. It does no I/O, and keeps nothing between two calls. */
export interface Lookback {
  /** Returns the rules of its provider that a request breaks. The path of its URL may tell more of where it goes. */
  check(request: object | string, options?: { dialect?: Dialect; model?: string; path?: string }): Finding[]
  /** Returns the window of a request: a list of messages, or all that is sent with them. */
  fit<M extends object>(request: readonly M[], options?: Options): Window<M>
  fit(request: object | string, options?: Options): Window<any>
  /** Returns what would become of each group of a request, and why. */
  plan(request: object | string, options?: Options): PlannedGroup[]
  /** Counts the tokens of a text, and says whether the count is exact. */
  count(text: string, options?: { model?: string }): { tokens: number; exact: boolean }
}

/**
 * Loads the engine.
 *
 * With `exact`, the vocabularies of OpenAI's models come with it; without, tokens are estimated from the characters. `source`
 * is where the engine is, if it is not beside this module: a URL, a response, bytes, or a module that was compiled already.
 */
export function load(options?: {
  exact?: boolean
  source?: string | URL | Response | BufferSource | WebAssembly.Module
}): Promise<Lookback>
