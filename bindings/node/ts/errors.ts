// What can go wrong, with the values that matter to a program.

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

/** An error of Lookback. All others are kinds of it. */
export class LookbackError extends Error {
  override readonly name: string = 'LookbackError'
}

/** Something given is not a message, a request or a name that Lookback understands. */
export class DecodeError extends LookbackError {
  override readonly name = 'DecodeError'
  /** The place of it, such as `messages[3].content[0]`. */
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

/** The window exceeds a hard limit, and nothing is left that may be dropped. */
export class HardLimitExceeded extends LookbackError {
  override readonly name = 'HardLimitExceeded'
  /** The limits that are exceeded. */
  declare readonly excesses: Excess[]
  /** What may not be dropped, with sizes. */
  declare readonly pinned: Pinned[]
}

/** The provider refuses the window as too long, and nothing is left that may be shortened or dropped. */
export class Irreducible extends LookbackError {
  override readonly name = 'Irreducible'
  /** How often it was made smaller since the last message. */
  declare readonly reductions: number
  /** Its tokens, by Lookback's count. */
  declare readonly tokens: number
  /** What may not be dropped, with sizes. */
  declare readonly pinned: Pinned[]
}

/** A memory does not accept a fact, or what is to become of one. */
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

/** Returns the error that the native part has raised, which says its kind and its values as JSON. */
function raised(error: unknown): unknown {
  if (!(error instanceof Error) || !error.message.startsWith('{')) return error
  const { kind, message, values } = JSON.parse(error.message) as {
    kind: string
    message: string
    values: Record<string, unknown>
  }
  return Object.assign(new (KINDS[kind] ?? LookbackError)(message), values)
}

/** What was given at a place has no meaning there. */
export function decodeError(where: string, what: string): DecodeError {
  return Object.assign(new DecodeError(`${where}: ${what}`), { where })
}

/** Calls the native part. */
export function called<T>(call: () => T): T {
  try {
    return call()
  } catch (error) {
    throw raised(error)
  }
}

/** Waits for the native part. */
export async function awaited<T>(promise: Promise<T>): Promise<T> {
  try {
    return await promise
  } catch (error) {
    throw raised(error)
  }
}
