// The exceptions of Lookback, with their values for programs.

/** A limit that a window exceeds. */
export interface Excess {
  measure: string
  actual: number
  limit: number
}

/** Messages that may not be dropped. */
export interface Pinned {
  pin: unknown
  size: Record<string, number>
}

/** An error of Lookback. The base class of all others. */
export class LookbackError extends Error {
  override readonly name: string = 'LookbackError'
}

/** An argument is not a message, a request or a name that Lookback understands. */
export class DecodeError extends LookbackError {
  override readonly name = 'DecodeError'
  /** Its place, such as `messages[3].content[0]`. */
  declare readonly where: string
}

/** A policy has a mistake. */
export class PolicyError extends LookbackError {
  override readonly name = 'PolicyError'
}

/** The store failed. Nothing was written, unless the message says otherwise. */
export class StoreError extends LookbackError {
  override readonly name = 'StoreError'
}

/** The window exceeds a hard limit, and nothing more may be dropped. */
export class HardLimitExceeded extends LookbackError {
  override readonly name = 'HardLimitExceeded'
  /** The exceeded limits. */
  declare readonly excesses: Excess[]
  /** The messages that may not be dropped, with their sizes. */
  declare readonly pinned: Pinned[]
}

/** The provider refuses the window as too long, and nothing more can be shortened or dropped. */
export class Irreducible extends LookbackError {
  override readonly name = 'Irreducible'
  /** How often the window was made smaller since the last message. */
  declare readonly reductions: number
  /** The tokens of the window, by Lookback's count. */
  declare readonly tokens: number
  /** The messages that may not be dropped, with their sizes. */
  declare readonly pinned: Pinned[]
}

/** A memory does not accept a fact, or a change of one. */
export class FactRefused extends LookbackError {
  override readonly name = 'FactRefused'
}

const KINDS: Record<string, new (message: string) => LookbackError> = {
  LookbackError,
  DecodeError,
  PolicyError,
  StoreError,
  HardLimitExceeded,
  Irreducible,
  FactRefused,
}

/** Returns the exception for an error of the native part, whose message is JSON with the kind and the values. */
function raised(error: unknown): unknown {
  if (!(error instanceof Error) || !error.message.startsWith('{')) return error
  const { kind, message, values } = JSON.parse(error.message) as {
    kind: string
    message: string
    values: Record<string, unknown>
  }
  return Object.assign(new (KINDS[kind] ?? LookbackError)(message), values)
}

/** Returns the exception for an argument that is invalid at a place. */
export function decodeError(where: string, what: string): DecodeError {
  return Object.assign(new DecodeError(`${where}: ${what}`), { where })
}

/** Calls the native part, and converts its errors. */
export function called<T>(call: () => T): T {
  try {
    return call()
  } catch (error) {
    throw raised(error)
  }
}

/** Awaits a promise of the native part, and converts its errors. */
export async function awaited<T>(promise: Promise<T>): Promise<T> {
  try {
    return await promise
  } catch (error) {
    throw raised(error)
  }
}
