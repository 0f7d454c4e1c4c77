// Converts arguments to JSON text: objects, or JSON text itself. Errors name the place of a value that JSON cannot
// express. Also checks the types of other arguments.

import { DecodeError, decodeError } from './errors.js'

/** A message in the form of a provider's SDK, or as JSON text, which is kept byte for byte. */
export type Message = object | string

/** Returns messages as a JSON list: a single message, several, or JSON text of either. */
export function messages(given: Message | readonly Message[]): string {
  if (typeof given === 'string') return given.trimStart().startsWith('[') ? text(given, 'messages') : `[${one(given, 'messages')}]`
  if (!Array.isArray(given)) return `[${json(given, 'messages')}]`
  // Writing the whole list at once is faster.
  if (!given.some((message) => typeof message === 'string')) return json(given, 'messages')
  const each = (message: Message, index: number): string =>
    typeof message === 'string' ? one(message, `messages[${index}]`) : json(message, `messages[${index}]`)
  return `[${(given as readonly Message[]).map(each).join(',')}]`
}

/** Returns the text of one message. Checks it, because in a list, text of several messages would count as several. */
function one(given: string, where: string): string {
  try {
    JSON.parse(given)
  } catch {
    throw decodeError(where, 'not the JSON of one message')
  }
  return text(given, where)
}

/** Returns the JSON of a value, or the text itself if it is JSON already. */
export function text(given: unknown, name: string): string {
  if (typeof given !== 'string') return json(given, name)
  const found = half(given, name)
  if (found) throw found
  return given
}

/** Returns the JSON of a value. */
export function json(value: unknown, name: string): string {
  let written: string | undefined
  try {
    written = JSON.stringify(value)
    if (isChanged(value)) throw new TypeError('not the same in JSON')
  } catch (error) {
    throw find(value, name) ?? decodeError(name, error instanceof RangeError ? 'nested too deep' : thrown(error))
  }
  // A lone surrogate is written as an escape, and so is text that only looks like one.
  if (written === undefined || /\\ud[89a-f]/.test(written)) {
    const found = find(value, name)
    if (found) throw found
  }
  if (written === undefined) throw decodeError(name, `JSON has no ${typeof value}`)
  return written
}

/** Returns whether JSON would silently change a value, or a value in it. */
function isChanged(given: unknown): boolean {
  const value = replaced(given)
  if (problem(given) || (value !== given && problem(value))) return true
  return typeof value === 'object' && value !== null && Object.values(value).some(isChanged)
}

/** Describes why JSON cannot express a value, or would silently change it. Does not look into its members. */
function problem(value: unknown): string | undefined {
  switch (typeof value) {
    case 'number':
      return Number.isFinite(value) ? undefined : 'not a finite number'
    case 'bigint':
    case 'function':
    case 'symbol':
      return `JSON has no ${typeof value}`
    case 'object':
      if (Array.isArray(value)) return value.includes(undefined) ? 'a list in JSON has no undefined' : undefined
      if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'not a valid date' : undefined
      return ArrayBuffer.isView(value) || isEmptied(value) ? `JSON has no ${kindOf(value)}` : undefined
  }
  return undefined
}

/** Returns whether JSON would write an object without its contents, such as a `Map`. */
function isEmptied(value: object | null): boolean {
  if (value === null || Object.keys(value).length > 0 || hasOwnForm(value)) return false
  return !['Object', 'Number', 'String', 'Boolean'].includes(kindOf(value))
}

/** Returns the name of an object's kind, which is the same for objects of other contexts. */
function kindOf(value: object | null): string {
  return Object.prototype.toString.call(value).slice('[object '.length, -1)
}

function hasOwnForm(value: unknown): value is { toJSON(): unknown } {
  return typeof (value as { toJSON?: unknown } | null)?.toJSON === 'function'
}

/** Returns the value that JSON writes for an object with a `toJSON` method, such as a date. */
function replaced(value: unknown): unknown {
  return hasOwnForm(value) ? value.toJSON() : value
}

/** The deepest nesting of a value. A value that contains itself exceeds it. */
const DEEPEST = 200

/** Finds the first value that JSON cannot express, and returns an error with its place. */
function find(given: unknown, where: string, depth = 0): DecodeError | undefined {
  if (depth > DEEPEST) return decodeError(where.slice(0, 200), 'nested too deep; it may contain itself')
  let value: unknown
  let members: [string, unknown][]
  try {
    value = replaced(given)
    const wrong = problem(given) ?? problem(value)
    if (wrong) return decodeError(where, wrong)
    members = typeof value === 'object' && value !== null ? Object.entries(value) : []
  } catch (error) {
    return decodeError(where, thrown(error))
  }
  if (typeof value === 'string') return half(value, where)
  for (const [key, member] of members) {
    const place = Array.isArray(value) ? `${where}[${key}]` : `${where}.${key.slice(0, 40)}`
    const found = half(key, where) ?? find(member, place, depth + 1)
    if (found) return found
  }
  return undefined
}

/** Describes an error while reading a value: a getter or `toJSON` may throw anything. */
function thrown(error: unknown): string {
  return `cannot be read: ${String(error).slice(0, 200)}`
}

/** Returns an error if a text has half of a character: a surrogate without the other half. */
function half(text: string, where: string): DecodeError | undefined {
  if (!/[\ud800-\udfff]/.test(text.replace(/[\ud800-\udbff][\udc00-\udfff]/g, ''))) return undefined
  return decodeError(where, 'half of a character: a surrogate without its other half')
}

/** The kinds of arguments. */
const KINDS = {
  text: [(value: unknown) => typeof value === 'string', 'a string'],
  count: [(value: unknown) => Number.isInteger(value) && value === (value as number) >>> 0, 'a whole number from 0 to 4294967295'],
  share: [(value: unknown) => typeof value === 'number' && value >= 0 && value <= 1, 'a number from 0 to 1'],
  function: [(value: unknown) => typeof value === 'function', 'a function'],
} as const

/** Throws an error with the name of an argument of the wrong kind. Those of `optional` may be omitted. */
export function mustBe(
  kind: keyof typeof KINDS,
  required: Record<string, unknown>,
  optional: Record<string, unknown> = {},
): void {
  const [is, what] = KINDS[kind]
  const left = Object.entries(optional).filter(([, value]) => value !== undefined)
  for (const [name, value] of [...Object.entries(required), ...left]) {
    const found = is(value) ? typeof value === 'string' && half(value, name) : decodeError(name, `not ${what}`)
    if (found) throw found
  }
}
