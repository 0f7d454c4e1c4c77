// A memory: facts that outlive the window and the session.

import { awaited, called } from './errors.js'
import { json, mustBe, text } from './json.js'
import native from './native.js'
import type { NativeMemory } from './native-types.js'

/** The kind of a fact. */
export type FactKind = 'correction' | 'constraint' | 'blocker' | 'preference' | 'decision' | 'finding'

/** How far a fact can be trusted. */
export type Trust = 'low' | 'medium' | 'high'

/** Who states a fact: a person, the model, or a tool with its name. */
export type By = 'person' | 'model' | { tool: string }

/** What is said of a fact beside its kind and its text. */
export interface FactOptions {
  /** What it is about. The next fact of the same kind about the same thing replaces it. */
  about?: string
  /** How certain it is, from 0 to 1. */
  confidence?: number
  /** Who says it: a person, unless another is given. */
  by?: By
  /** How far it can be trusted, if that is less than who says it allows. */
  trust?: Trust
  /** Words to find it by. */
  tags?: string[]
  /** The facts that it replaces. */
  supersedes?: string[]
  /** Whether it is shared with the workspace. Without it, preferences and constraints are. */
  shared?: boolean
}

/** A fact that was written. */
export interface Stated {
  /** Its name, such as `f12`, or `s3` if it is shared. */
  id: string
  /** Whether it is new, and which facts it replaces or contradicts. */
  judgment: unknown
}

/** What somebody said. */
export interface Statement {
  kind: FactKind
  text: string
  about?: string
  confidence: number
  source: Record<string, unknown>
  trust?: Trust
  /** In milliseconds since 1970. */
  time?: number
  tags?: string[]
  supersedes?: string[]
}

/** A fact that is known now. */
export interface Fact {
  id: string
  statement: Statement
  confidence: number
  trust: Trust
  confirmations: number
  disputes?: string
  said?: number
}

/** Something that happened to a fact. */
export interface FactEvent {
  scope: 'session' | 'shared'
  position: number
  entry: Record<string, unknown>
}

/** The facts as a model reads them. */
export interface Sheet {
  text: string
  tokens: number
  shown: string[]
  /** How many facts of which kind are not on it. */
  left_out: [FactKind, number][]
}

/** The answer to a model's call of a tool. */
export interface Reply {
  text: string
  error: boolean
}

/** What one session knows: its own facts, and those that all sessions of a workspace share. */
export class Memory {
  /** The name of the session. */
  readonly name: string
  readonly #native: NativeMemory

  /** @internal */
  constructor(name: string, native: NativeMemory) {
    this.name = name
    this.#native = native
  }

  /** Opens the memory of a session. `workspace` is `shared` unless another is given. */
  static async open(session: string, options: { store?: string; workspace?: string } = {}): Promise<Memory> {
    const { store, workspace } = options
    mustBe('text', { session }, { store, workspace })
    return new Memory(session, await awaited(called(() => native.openMemory(session, store, workspace))))
  }

  /** Writes a fact, or confirms the one that says the same. */
  async remember(kind: FactKind, text: string, options: FactOptions = {}): Promise<Stated> {
    mustBe('text', { kind, text })
    mustBe('share', {}, { confidence: options.confidence })
    return told(this.#native.remember(json({ ...options, kind, text }, 'fact')))
  }

  /** Returns the current facts: the session's, then the shared ones. */
  async facts(): Promise<Fact[]> {
    return told(this.#native.facts())
  }

  /** Returns the current facts that have any of these words: the best first. */
  async search(query: string, limit = 10): Promise<Fact[]> {
    mustBe('text', { query })
    mustBe('count', { limit })
    return told(this.#native.search(query, limit))
  }

  /** Ends a blocker, and says what resolved it. */
  async resolve(id: string, by: string): Promise<void> {
    mustBe('text', { id, by })
    await awaited(this.#native.resolve(id, by))
  }

  /** Removes a fact from the fact sheet. Its versions stay readable. */
  async forget(id: string, why?: string): Promise<void> {
    mustBe('text', { id }, { why })
    await awaited(this.#native.forget(id, why))
  }

  /** Returns what happened to a fact, to those that it replaced, and to those that replaced it. */
  async history(id: string): Promise<FactEvent[]> {
    mustBe('text', { id })
    return told(this.#native.history(id))
  }

  /** Returns the fact sheet: its text for the model, within a budget of tokens, and what it shows and leaves out. */
  async sheet(options: { budget?: number; model?: string } = {}): Promise<Sheet> {
    const { budget, model } = options
    mustBe('count', {}, { budget })
    mustBe('text', {}, { model })
    return told(this.#native.sheet(budget, model))
  }

  /** Returns the tools with which a model reads and writes its memory, for the `tools` of a request. */
  async tools(dialect = 'openai-chat'): Promise<any[]> {
    mustBe('text', { dialect })
    return told(this.#native.tools(dialect))
  }

  /** Carries out a model's call of one of the tools, and returns the text of the result, and whether it is an error. */
  async call(tool: string, args: object | string): Promise<Reply> {
    mustBe('text', { tool })
    return told(this.#native.call(tool, text(args, 'arguments')))
  }
}

async function told<T>(promise: Promise<string>): Promise<T> {
  return JSON.parse(await awaited(promise)) as T
}
