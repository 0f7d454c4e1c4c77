// A window: the messages that one model call sends, with their sources and reasons.

import { called, type Excess } from './errors.js'
import type { NativeWindow } from './native-types.js'

/** The source of a message in a window. */
export interface Source {
  /**
   * `unchanged` if it has exactly the bytes of its entry, `changed` if it was shortened, repaired or merged from
   * several, and `own` if Lookback made it.
   */
  kind: 'unchanged' | 'changed' | 'own'
  /** The positions of its entries in the log. */
  positions: number[]
}

/** The treatment of adjacent messages of a history. */
export interface Outcome {
  /** The index of the first message, and the index after the last. */
  span: [number, number]
  action: 'keep' | 'truncate' | 'clear' | 'summarize' | 'drop'
  reason: Record<string, unknown>
  mends: unknown[]
  /** Their tokens when they arrived. */
  tokens: number
  /** Their tokens in the window. */
  sent: number
  /** The reason, for people. */
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

  /** The messages, for a request. They are created when this is first read. */
  get messages(): M[] {
    this.#messages ??= JSON.parse(this.json) as M[]
    return this.#messages
  }

  /** The messages as a JSON list. Unchanged messages have the bytes with which they arrived. */
  get json(): string {
    return called(() => this.#native.json())
  }

  /** The tokens as Lookback counts them, including the system prompt and the tools. */
  get tokens(): number {
    return this.#native.tokens
  }

  /** Whether this call compacted the conversation. */
  get compacted(): boolean {
    return this.#native.compacted
  }

  /** The source of each message, in the same order. Faster than `messages`, because it writes no JSON. */
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

  /** The limits that the window exceeds, because the rest may not be dropped. */
  get over(): Excess[] {
    return JSON.parse(this.#native.over()) as Excess[]
  }

  /** Returns one of the messages, without creating the others. */
  message(index: number): M | undefined {
    const text = called(() => this.#native.message(index))
    return text === null ? undefined : (JSON.parse(text) as M)
  }

  /** Returns the treatment of every message of the history and its reason. */
  why(): Outcome[] {
    return JSON.parse(called(() => this.#native.why())) as Outcome[]
  }

  /** Returns the window as HTML: a picture, and a table of how each message was treated. */
  html(): string {
    return called(() => this.#native.html())
  }

  /** Shows the window in a notebook. */
  [Symbol.for('Jupyter.display')](): Record<string, string> {
    return { 'text/html': this.html() }
  }
}
