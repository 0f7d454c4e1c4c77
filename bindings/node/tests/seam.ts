// The shared part of the seam tests: reads the vectors in `corpus/adapters`, and carries out their steps.

import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { check, type PolicySource, Session } from 'lookback'

/** A provider's error about a request that is too long. */
const TOO_LONG = "This model's maximum context length is 12000 tokens. However, your messages resulted in 13000 tokens."

const ROLES = { s: 'system', u: 'user', a: 'assistant', t: 'tool' } as const

/** A message of any framework. */
export interface Said {
  role: (typeof ROLES)[keyof typeof ROLES]
  text: string
  /** The identifiers of its calls, each of the tool `look` with the identifier as the argument `call`. */
  calls: string[]
  /** The identifier of the call that a result answers. */
  call?: string
}

/** What a step does, and what must result. */
interface Step {
  call: string
  with?: string | string[]
  /** The model's answers, and the messages that each of its calls is sent. */
  answers?: string[]
  sends?: string[][]
  gives?: string[]
  fails?: string
}

/** A conversation, and what must be sent, kept or thrown. */
export interface Vector {
  name: string
  /** The frameworks' own tests that assert the same. */
  upstream: string[]
  steps: Step[]
  policy?: PolicySource
  /** Options that only one framework has. */
  options?: Record<string, unknown>
  /** The results of the tool by call. A call that is not listed returns its own identifier. */
  results?: Record<string, string>
  /** Why the framework's tests assert something else, if they do. */
  differs?: string
}

/**
 * A framework with our adapter in it.
 *
 * The steps of a vector call its methods by their names, with a message for each abbreviation. Its model calls `answer`.
 */
export abstract class Seam {
  readonly vector: Vector
  readonly options: Record<string, unknown>
  readonly adapter: { store: string; policy: PolicySource }
  /** The messages that each model call of the step was sent. */
  sent: Said[][] = []
  /** The remaining answers of the model in the step. */
  answers: string[] = []
  /** The abbreviations of the texts of the vector. */
  readonly #known: Map<string, string>

  constructor(vector: Vector) {
    this.vector = vector
    this.options = vector.options ?? {}
    this.adapter = { store: join(mkdtempSync(join(tmpdir(), 'lookback-')), 'memory.db'), policy: vector.policy ?? 'none' }
    this.#known = new Map(words([vector.steps, vector.results, vector.options]).map((short) => [textOf(short), short]))
  }

  /** The name of the session of the conversation, and the format of its messages. */
  abstract readonly session: [name: string, dialect: string]
  /** Creates the adapter and the agent, like a new process. */
  abstract make(): void
  /** Has the agent answer messages, after those that it keeps. */
  abstract run(...said: Said[]): Promise<void>
  /** Returns the error that the framework's model throws if the provider refuses a request with these words. */
  abstract refusal(words: string): Error
  /** Returns the framework's copy of the conversation. */
  abstract kept(): Promise<Said[]>

  /** Starts over with the same store, like a new process. */
  restart(): void {
    this.make()
  }

  /** Returns the session's copy of the conversation. */
  async log(): Promise<Said[]> {
    const [name, dialect] = this.session
    return allSaid(await (await Session.open(name, { store: this.adapter.store, dialect })).messages())
  }

  /** Returns the model's answer to the messages that it is sent. */
  answer(sent: Said[]): Said {
    this.sent.push(sent)
    const short = this.answers.shift() ?? 'a:Done.'
    if (short.startsWith('!')) throw this.refusal(short === '!too long' ? TOO_LONG : short.slice(1))
    return message(short)
  }

  /** Returns the result of the tool. */
  look = ({ call }: { call: string }): string => textOf(this.vector.results?.[call] ?? call)

  /** Returns a message's abbreviation. A text that the vector does not contain is `~`. */
  short({ role, text, calls, call }: Said): string {
    const said = this.#known.get(text) ?? '~'
    if (calls.length > 0) return `a*${calls.join('+')}${text && `:${said}`}`
    return call === undefined ? `${role[0]}:${said}` : `t#${call}:${said}`
  }

  /** Carries out a step, and checks the results. */
  async carryOut({ call, with: given = [], answers = [], sends, gives, fails }: Step): Promise<void> {
    this.sent = []
    this.answers = [...answers]
    const does = async (): Promise<Said[] | void> => (this as any)[call](...[given].flat().map(message))
    if (fails === undefined) {
      const returned = await does()
      if (gives) assert.deepEqual((returned as Said[]).map((said) => this.short(said)), gives)
    } else {
      await assert.rejects(does(), (error: Error) => error.message.includes(fails))
    }
    if (sends) assert.deepEqual(this.sent.map((sent) => sent.map((said) => this.short(said))), sends)
    assert.equal(this.answers.length, 0, 'the model was not asked so often')
    for (const sent of this.sent) assert.deepEqual(check({ messages: sent.map(openai) }, { dialect: 'openai-chat' }), [])
  }
}

/** Defines a test for each vector of a framework. */
export function vectors(framework: string, make: (vector: Vector) => Seam): void {
  const file = join(process.env.LOOKBACK_CORPUS!, 'adapters', `${framework}.json`)
  for (const vector of JSON.parse(readFileSync(file, 'utf8')) as Vector[]) {
    test(`${framework}: ${vector.name}`, async () => {
      const seam = make(vector)
      seam.make()
      for (const step of vector.steps) await seam.carryOut(step)
    })
  }
}

/** Returns the message of an abbreviation. */
function message(short: string): Said {
  const [, calls, beside = ''] = /^a\*([^:]*)(?::(.*))?$/s.exec(short) ?? []
  if (calls !== undefined) return { role: 'assistant', text: textOf(beside), calls: calls.split('+') }
  const [, call, result = ''] = /^t#([^:]*):(.*)$/s.exec(short) ?? []
  if (call !== undefined) return { role: 'tool', text: textOf(result), calls: [], call }
  const [kind, ...rest] = short.split(':')
  return { role: ROLES[kind as keyof typeof ROLES], text: textOf(rest.join(':')), calls: [] }
}

/** Returns the text of an abbreviation: `red*3` is the word three times. */
function textOf(short: string): string {
  const [, word = '', times] = /^(\w+)\*(\d+)$/.exec(short) ?? []
  return times === undefined ? short : Array(Number(times)).fill(word).join(' ')
}

/** Returns the texts of all abbreviations in a value, and all other texts in it. */
function words(value: unknown): string[] {
  if (typeof value === 'string') return [/^(?:[suat]|[at][*#][^:]*):(.*)$/s.exec(value)?.[1] ?? value]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(words) : []
}

/** Returns a message in OpenAI's format. */
function openai({ role, text, calls, call }: Said): object {
  const tool_calls = calls.map((id) => ({ type: 'function', id, function: { name: 'look', arguments: '{}' } }))
  return { role, content: text, ...(call !== undefined && { tool_call_id: call }), ...(calls.length > 0 && { tool_calls }) }
}

/** Returns the messages of a framework or of a session, from any of their formats. */
export function allSaid(messages: readonly any[]): Said[] {
  const list: Said[] = []
  for (const message of messages) {
    const last = list.at(-1)
    // A call that is a separate item belongs to the preceding message of the same answer.
    if (message.type === 'function_call' && last?.role === 'assistant') last.calls.push(message.callId ?? message.call_id)
    else list.push(...saidBy(message))
  }
  return list
}

/** Returns the content of a message, with each of its results as a separate message. */
function saidBy({ type, role, content, output, ...more }: any): Said[] {
  const call = more.callId ?? more.call_id ?? more.tool_call_id
  if (type === 'function_call') return [{ role: 'assistant', text: '', calls: [call] }]
  if (output !== undefined) return [{ role: 'tool', text: textIn(output), calls: [], call }]
  if (role === 'tool' && call !== undefined) return [{ role, text: textIn(content), calls: [], call }]
  const parts: any[] = typeof content === 'string' ? [{ text: content }] : content
  const results = parts.filter((part) => /^tool.result$/.test(part.type)).map((part): Said => {
    return { role: 'tool', text: textIn(part.output ?? part.content), calls: [], call: part.toolCallId ?? part.tool_use_id }
  })
  const own = parts.filter((part) => /^tool.(call|use)$/.test(part.type)).map((part) => part.toolCallId ?? part.id)
  const calls = [...own, ...(more.tool_calls ?? []).map(({ id }: { id: string }) => id)]
  const text = textIn(parts)
  return results.length > 0 && !text ? results : [...results, { role, text, calls }]
}

/** Returns the text of a content or of an output. */
function textIn(given: any): string {
  if (typeof given === 'string') return given
  return Array.isArray(given) ? given.map(({ text = '' }) => text).join('') : (given.text ?? textIn(given.value))
}
