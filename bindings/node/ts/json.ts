// What a program gives, as JSON text: objects, text that is JSON already, and a place for what has no form in JSON.

import { DecodeError, decodeError } from './errors.js'

/** A message, as a provider's SDK has it, or as JSON text, which is kept byte for byte. */
export type Message = object | string

/** Returns messages as a JSON list: one of them, several, or text that is either. */
export function messages(given: Message | readonly Message[]): string {
  if (typeof given === 'string') return given.trimStart().startsWith('[') ? given : `[${given}]`
  if (!Array.isArray(given)) return `[${json(given, 'messages')}]`
  // Written at once, which is sooner than one after another.
  if (!given.some((message) => typeof message === 'string')) return json(given, 'messages')
  const each = (message: Message, index: number): string =>
    typeof message === 'string' ? message : json(message, `messages[${index}]`)
  return `[${(given as readonly Message[]).map(each).join(',')}]`
}

/** Returns the JSON of a value, or the text if it is JSON already. */
export function text(given: unknown, name: string): string {
  return typeof given === 'string' ? given : json(given, name)
}

/** Returns the JSON of a value. */
export function json(value: unknown, name: string): string {
  let written: string | undefined
  try {
    written = JSON.stringify(value)
    if (isChanged(value)) throw new TypeError('not the same in JSON')
  } catch {
    throw fault(value, name)
  }
  // Half of a character is written as an escape, and so is what only looks like one.
  if (written === undefined || /\\ud[89a-f]/.test(written)) {
    const found = find(value, name)
    if (found) throw found
  }
  if (written === undefined) throw decodeError(name, `JSON has no ${typeof value}`)
  return written
}

/** Whether JSON silently changes a value: a number that is not finite becomes `null`, and bytes become an object. */
function isChanged(given: unknown): boolean {
  if (ArrayBuffer.isView(given)) return true
  const value = typeof (given as { toJSON?: unknown } | null)?.toJSON === 'function' ? (given as Date).toJSON() : given
  if (typeof value === 'number') return !Number.isFinite(value)
  return typeof value === 'object' && value !== null && Object.values(value).some(isChanged)
}

function fault(value: unknown, name: string): DecodeError {
  return find(value, name) ?? decodeError(name, 'nested too deep')
}

/** How deep what is given may be nested. What contains itself is deeper. */
const DEEPEST = 200

/** Finds the first value that has no form in JSON, and says where it is. */
function find(value: unknown, where: string, depth = 0): DecodeError | undefined {
  if (depth > DEEPEST) return decodeError(where.slice(0, 200), 'nested too deep; it may contain itself')
  if (typeof value === 'number' && !Number.isFinite(value)) return decodeError(where, 'not a finite number')
  if (typeof value === 'bigint') return decodeError(where, 'JSON has no bigint')
  if (typeof value === 'string') return half(value, where)
  if (typeof value !== 'object' || value === null) return undefined
  if (ArrayBuffer.isView(value)) return decodeError(where, `JSON has no ${value.constructor.name}`)
  const isList = Array.isArray(value)
  for (const [key, member] of Object.entries(value)) {
    const place = isList ? `${where}[${key}]` : `${where}.${key.slice(0, 40)}`
    const found = half(key, where) ?? find(member, place, depth + 1)
    if (found) return found
  }
  return undefined
}

/** Finds half of a character: a surrogate without the other one. */
function half(text: string, where: string): DecodeError | undefined {
  if (!/[\ud800-\udfff]/.test(text.replace(/[\ud800-\udbff][\udc00-\udfff]/g, ''))) return undefined
  return decodeError(where, 'half of a character: a surrogate without its other half')
}
