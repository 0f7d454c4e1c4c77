// A memory: facts that outlive the window and the session.

import { awaited, called } from './errors.js'
import { json, mustBe, text } from './json.js'
import native from './native.js'
import type { NativeMemory } from './native-types.js'

/** The kind of a fact. */
export type FactKind = 'correction' | 'constraint' | 'blocker' | 'preference' | 'decision' | 'finding'

/** The degree of trust in a fact. */
export type Trust = 'low' | 'medium' | 'high'

/** The speaker of a fact: a person, the model, or a tool with its name. */
export type By = 'person' | 'model' | { tool: string }

/** The options of a fact, in addition to its kind and its text. */
export interface FactOptions {
  /** Its subject. A later fact of the same kind about the same subject replaces it. */
  about?: string
  /** Its confidence, from 0 to 1. */
  confidence?: number
  /** The speaker, by default a person. */
  by?: By
  /** Its trust, if that is less than the speaker allows. */
  trust?: Trust
  /** Words to find it by. */
  tags?: string[]
  /** The facts that it replaces. */
  supersedes?: string[]
  /** Whether it is shared with the workspace. By default, preferences and constraints are. */
  shared?: boolean
}

/** A fact that was written. */
export interface Stated {
  /** Its identifier, such as `f12`, or `s3` if it is shared. */
  id: string
  /** Whether it is new, and which facts it replaces or disputes. */
  judgment: unknown
}

/** An assertion of a fact, with its source and confidence. */
export interface Statement {
  kind: FactKind
  text: string
  about?: string
  confidence: number
  source: Record<string, unknown>
  trust?: Trust
  /** Milliseconds since 1970. */
  time?: number
  tags?: string[]
  supersedes?: string[]
}

/** A current fact. */
export interface Fact {
  id: string
  statement: Statement
  confidence: number
  trust: Trust
  confirmations: number
  disputes?: string
  said?: number
}

/** An event in the history of a fact. */
export interface FactEvent {
  scope: 'session' | 'shared'
  position: number
  entry: Record<string, unknown>
}

/** A fact sheet: the most important facts, as a text for the model. */
export interface Sheet {
  text: string
  tokens: number
  shown: string[]
  /** The kinds of the omitted facts, with their numbers. */
  left_out: [FactKind, number][]
}

/** The result of a tool call of the model. */
export interface Reply {
  text: string
  error: boolean
}

/** The memory of one session: its own facts, and those that all sessions of a workspace share. */
export class Memory {
  /** The name of the session. */
  readonly name: string
  readonly #native: NativeMemory

  /** @internal */
  constructor(name: string, native: NativeMemory) {
    this.name = name
    this.#native = native
  }

  /** Opens the memory of a session. The default `workspace` is `shared`. */
  static async open(session: string, options: { store?: string; workspace?: string } = {}): Promise<Memory> {
    const { store, workspace } = options
    mustBe('text', { session }, { store, workspace })
    return new Memory(session, await awaited(called(() => native.openMemory(session, store, workspace))))
  }

  /** Writes a fact, or confirms an existing one with the same content. */
  async remember(kind: FactKind, text: string, options: FactOptions = {}): Promise<Stated> {
    mustBe('text', { kind, text })
    mustBe('share', {}, { confidence: options.confidence })
    return told(this.#native.remember(json({ ...options, kind, text }, 'fact')))
  }

  /** Returns the current facts: the session's, then the shared ones. */
  async facts(): Promise<Fact[]> {
    return told(this.#native.facts())
  }

  /** Returns the current facts that contain any of these words, the best match first. */
  async search(query: string, limit = 10): Promise<Fact[]> {
    mustBe('text', { query })
    mustBe('count', { limit })
    return told(this.#native.search(query, limit))
  }

  /** Marks a blocker as resolved, and records what resolved it. */
  async resolve(id: string, by: string): Promise<void> {
    mustBe('text', { id, by })
    await awaited(this.#native.resolve(id, by))
  }

  /** Removes a fact from the fact sheet. Its history stays readable. */
  async forget(id: string, why?: string): Promise<void> {
    mustBe('text', { id }, { why })
    await awaited(this.#native.forget(id, why))
  }

  /** Returns the history of a fact, of those that it replaced, and of those that replaced it. */
  async history(id: string): Promise<FactEvent[]> {
    mustBe('text', { id })
    return told(this.#native.history(id))
  }

  /** Returns the fact sheet: a text for the model within a token budget, and the facts that it shows and leaves out. */
  async sheet(options: { budget?: number; model?: string } = {}): Promise<Sheet> {
    const { budget, model } = options
    mustBe('count', {}, { budget })
    mustBe('text', {}, { model })
    return told(this.#native.sheet(budget, model))
  }

  /** Returns the memory tools for a model, for the `tools` of a request. */
  async tools(dialect = 'openai-chat'): Promise<any[]> {
    mustBe('text', { dialect })
    return told(this.#native.tools(dialect))
  }

  /** Runs a tool call of the model. Returns the text of the result, and whether it is an error. */
  async call(tool: string, args: object | string): Promise<Reply> {
    mustBe('text', { tool })
    return told(this.#native.call(tool, text(args, 'arguments')))
  }
}

async function told<T>(promise: Promise<string>): Promise<T> {
  return JSON.parse(await awaited(promise)) as T
}
