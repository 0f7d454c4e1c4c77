// A window: what one model call sends, where each message of it comes from, and why.

import { called, type Excess } from './errors.js'
import type { NativeWindow } from './native-types.js'

/** Where a message of a window comes from. */
export interface Source {
  /**
   * `unchanged`: it has exactly the bytes of its entry. `changed`: it shows less, was repaired, or merged from several.
   * `own`: Lookback made it.
   */
  kind: 'unchanged' | 'changed' | 'own'
  /** The positions of its entries in the log. */
  positions: number[]
}

/** What became of neighboring messages of a history. */
export interface Outcome {
  /** The first of them, and the one after the last. */
  span: [number, number]
  action: 'keep' | 'truncate' | 'clear' | 'summarize' | 'drop'
  reason: Record<string, unknown>
  mends: unknown[]
  /** Their tokens when they came. */
  tokens: number
  /** Their tokens in the window. */
  sent: number
  /** Why, for people. */
  words: string
}

const KINDS = ['unchanged', 'changed', 'own'] as const

/** The messages that one model call sends. `M` is the type of a message. */
export class Window<M = any> {
  readonly #native: NativeWindow
  #messages: M[] | undefined

  /** @internal */
  constructor(native: NativeWindow) {
    this.#native = native
  }

  /** The messages, for a request. They are made when this is read first. */
  get messages(): M[] {
    this.#messages ??= JSON.parse(this.json) as M[]
    return this.#messages
  }

  /** The messages as a JSON list. What is unchanged has the bytes with which it came. */
  get json(): string {
    return called(() => this.#native.json())
  }

  /** The tokens, with the system prompt and the tools, as Lookback counts them. */
  get tokens(): number {
    return this.#native.tokens
  }

  /** Whether this call cut the conversation. */
  get compacted(): boolean {
    return this.#native.compacted
  }

  /** Where each of the messages comes from, in the same order. No JSON is written for it. */
  get sources(): Source[] {
    const packed = called(() => this.#native.sources())
    const sources: Source[] = []
    for (let at = 0; at < packed.length; ) {
      const end = at + 2 + packed[at + 1]!
      const positions = end === at + 3 ? [packed[at + 2]!] : [...packed.subarray(at + 2, end)]
      sources.push({ kind: KINDS[packed[at]!]!, positions })
      at = end
    }
    return sources
  }

  /** The limits that it exceeds, because what is left may not be dropped. */
  get over(): Excess[] {
    return JSON.parse(this.#native.over()) as Excess[]
  }

  /** Returns one of the messages, without making the others. */
  message(index: number): M | undefined {
    const text = called(() => this.#native.message(index))
    return text === null ? undefined : (JSON.parse(text) as M)
  }

  /** Returns what became of every message of the history, and why. */
  why(): Outcome[] {
    return JSON.parse(called(() => this.#native.why())) as Outcome[]
  }

  /** Returns the window as HTML: a picture, and a table of what became of the messages. */
  html(): string {
    return called(() => this.#native.html())
  }

  /** Shows the window in a notebook. */
  [Symbol.for('Jupyter.display')](): Record<string, string> {
    return { 'text/html': this.html() }
  }
}
