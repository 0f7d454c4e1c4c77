// A session: the log of a conversation, and the window of each call.

import { awaited, called, LookbackError } from './errors.js'
import { json, type Message, messages, mustBe, text } from './json.js'
import { Memory } from './memory.js'
import native from './native.js'
import type { NativeSession, NativeWindow, Waiting } from './native-types.js'
import { type PolicySource, policyText, writtenPolicy } from './policy.js'
import { type Outcome, Window } from './window.js'

/** What a summarizer is asked. */
export interface Ask {
  /** The system prompt. */
  system: string
  /** The user's message: the conversation. */
  prompt: string
  /** The most tokens of the answer. */
  budget: number
}

/** A compaction that begins. */
export interface CompactStart {
  session: string
  /** The messages that leave the window. */
  evicted_count: number
  /** The tokens of the window before. */
  total_tokens: number
}

/** A compaction that has ended. */
export interface CompactEnd {
  session: string
  outcome: 'cut' | 'summarized' | 'refused' | 'failed'
  /** Why it failed. */
  reason: string | null
  tokens_before: number
  tokens_after: number
  summary_tokens: number
  seconds: number
}

/** A summary that did not pass its check. */
export interface SummaryRefused {
  session: string
  model: string
  /** Whether the summarizer is asked once more. */
  again: boolean
  /** Names and numbers that are not in what is summarized. */
  invented: string[]
  /** Names that the model used most, and that the summary does not have. */
  missing: string[]
}

/** How a session is opened. */
export interface SessionOptions {
  /**
   * Where sessions are kept: the path of a file, a folder that ends in `/`, or the URL of a server. Without it, in memory.
   */
  store?: string | undefined
  /** The model. Its tokens are counted, and its context window is the largest limit. */
  model?: string | undefined
  /** The format of the messages. Without it, that of the model's own provider, or `openai-chat`. */
  dialect?: string | undefined
  /** The policy. Without it, the default. */
  policy?: PolicySource | undefined
  /**
   * Writes the running summary, if the policy makes one. Without it, sentences of the conversation itself are chosen,
   * offline.
   */
  summarizer?: ((ask: Ask) => string | Promise<string>) | undefined
  /** Is told that a compaction begins. */
  onCompactStart?: ((event: CompactStart) => void) | undefined
  /** Is told that a compaction has ended. */
  onCompactEnd?: ((event: CompactEnd) => void) | undefined
  /** Is told of a summary that did not pass its check. */
  onSummaryRefused?: ((event: SummaryRefused) => void) | undefined
}

/** What became of a history that was given as a whole, in messages. */
export interface Synced {
  known: number
  new: number
  left: number
  /** The position of each message of the history in the log. */
  positions: number[]
}

/** A message that was found by words. */
export interface Found {
  session: string
  entry: number
  excerpt: string
}

/** A message of a conversation. */
export interface Said {
  position: number
  role: 'system' | 'user' | 'assistant' | 'tool'
  text: string
  in_window: boolean
}

/** How a session goes on. */
export interface Resumed {
  /** The turns before the task that stay in the window. */
  turns: number
  /** Whether the session was left in the middle of this task. */
  unfinished: boolean
}

/** What each call of a session has sent and cost. */
export interface Receipt {
  calls: Record<string, unknown>[]
  total: Record<string, unknown>
  since: number
}

/**
 * A conversation that is kept: every message in a log, and the window of it that a model call sends.
 *
 * `M` is the type of a message, such as `ChatCompletionMessageParam` of `openai`. Calls are done one after another.
 */
export class Session<M = any> {
  /** The name of the session. */
  readonly name: string
  readonly #native: NativeSession
  /** In memory, what a call does is done sooner than a thread could begin with it. */
  readonly #isStored: boolean
  /** The call before, which the next one waits for. */
  #last: Promise<unknown> = Promise.resolve()

  private constructor(name: string, native: NativeSession, isStored: boolean) {
    this.name = name
    this.#native = native
    this.#isStored = isStored
  }

  /** Opens the session of a name, and begins it if there is none. */
  static async open<M = any>(name: string, options: SessionOptions = {}): Promise<Session<M>> {
    const { store, model, dialect, policy, summarizer } = options
    const { onCompactStart, onCompactEnd, onSummaryRefused } = options
    mustBe('text', { name }, { store, model, dialect })
    mustBe('function', {}, { summarizer, onCompactStart, onCompactEnd, onSummaryRefused })
    const opening = { store, model, dialect, policy: policyText(policy) }
    const asked = summarizer && summarizing(summarizer)
    const opened = called(() => native.openSession(name, opening, asked, listener(options)))
    return new Session<M>(name, await awaited(opened), store !== undefined)
  }

  /** The format of the messages, such as `openai-chat`. */
  get dialect(): string {
    return this.#native.dialect
  }

  /** Appends a message, or a list of them, and returns the position in the log of each. */
  async push(given: Message | readonly Message[]): Promise<number[]> {
    const list = messages(given)
    return this.#do(() => this.#native.pushNow(list), () => this.#native.push(list))
  }

  /**
   * Takes over a whole history: what is known is recognized, and the rest is appended. A message that was changed begins a
   * branch.
   */
  async sync(history: Message | readonly Message[]): Promise<Synced> {
    const list = messages(history)
    return this.#told(() => this.#native.syncNow(list), () => this.#native.sync(list))
  }

  /**
   * Says what comes with the messages of each request, because the provider counts it: the system prompt, if it is not one of
   * the messages, and the tools.
   */
  async preamble(given: { system?: unknown; tools?: unknown }): Promise<void> {
    const system = given.system == null ? undefined : json(given.system, 'system')
    const tools = given.tools == null ? undefined : json(given.tools, 'tools')
    await this.#do(() => this.#native.preambleNow(system, tools), () => this.#native.preamble(system, tools))
  }

  /** Returns the window for the next model call. It is recorded before it is returned. */
  async window(): Promise<Window<M>> {
    return new Window<M>(await this.#do(() => this.#native.windowNow(), () => this.#native.window()))
  }

  /**
   * Records what the model answered: its message, and the tokens that the provider reports. It takes the whole response, not a
   * stream.
   */
  async answered(response: object | string): Promise<void> {
    const body = text(response, 'response')
    await this.#do(() => this.#native.answeredNow(body), () => this.#native.answered(body))
  }

  /** Records the input tokens that the provider reported for the last window, cached ones included. */
  async usage(model: string, inputTokens: number): Promise<void> {
    mustBe('text', { model })
    mustBe('count', { inputTokens })
    await this.#do(() => this.#native.usageNow(model, inputTokens), () => this.#native.usage(model, inputTokens))
  }

  /**
   * Returns a smaller window, because the provider refused the last one as too long.
   *
   * `error` is the error of the provider's SDK, or the text of its answer; nothing if only the caller knows. An error that says
   * something else is thrown again.
   */
  async overflow(error?: unknown): Promise<Window<M>> {
    const [status, body] = said(error)
    const made: NativeWindow | null = await this.#do(
      () => this.#native.overflowNow(status, body),
      () => this.#native.overflow(status, body),
    )
    if (made) return new Window<M>(made)
    if (error instanceof Error) throw error
    throw new LookbackError('the provider does not say that the request is too long')
  }

  /** Finds messages by words, also those that have left the window: the best first. */
  async search(query: string, limit = 10): Promise<Found[]> {
    mustBe('text', { query })
    mustBe('count', { limit })
    return this.#told(() => this.#native.searchNow(query, limit), () => this.#native.search(query, limit))
  }

  /** Returns the messages of the conversation, with their positions in the log, and whether the window shows them. */
  async history(): Promise<Said[]> {
    return this.#told(() => this.#native.historyNow(), () => this.#native.history())
  }

  /** Returns the messages of the conversation as they came, with all that has left the window. */
  async messages(): Promise<M[]> {
    return this.#told(() => this.#native.messagesNow(), () => this.#native.messages())
  }

  /** Returns what became of every message, and why. */
  async why(): Promise<Outcome[]> {
    return this.#told(() => this.#native.whyNow(), () => this.#native.why())
  }

  /** Returns what each call has sent and cost, and what it would have cost without a window, in US dollars. */
  async receipt(price = 'anthropic-5m'): Promise<Receipt> {
    mustBe('text', { price })
    return this.#told(() => this.#native.receiptNow(price), () => this.#native.receipt(price))
  }

  /** Changes the policy, from the next window on. */
  async setPolicy(policy: PolicySource): Promise<void> {
    const source = writtenPolicy(policy)
    await this.#do(() => this.#native.setPolicyNow(source), () => this.#native.setPolicy(source))
  }

  /**
   * Goes on with the session of an earlier process: the last turns stay in the window (16, unless another number is given), and
   * the task follows them. If the session was left in the middle of this task, it goes on there.
   */
  async resume(task: Message, turns?: number): Promise<Resumed> {
    mustBe('count', {}, { turns })
    const list = messages(task)
    return this.#told(() => this.#native.resumeNow(list, turns), () => this.#native.resume(list, turns))
  }

  /** Waits until the summary that is being made is done. */
  async waitForSummary(): Promise<void> {
    await this.#last
    await awaited(this.#native.waitForSummary())
  }

  /** Opens the memory of the session: its facts, and those that it shares with its workspace. */
  async memory(workspace?: string): Promise<Memory> {
    mustBe('text', {}, { workspace })
    const memory = await this.#do(() => this.#native.memoryNow(workspace), () => this.#native.memory(workspace))
    return new Memory(this.name, memory)
  }

  /** Returns the session as HTML: a picture of the window, and a table of what became of the messages. */
  async html(): Promise<string> {
    return this.#do(() => this.#native.htmlNow(), () => this.#native.html())
  }

  /** Shows the session in a notebook. */
  async [Symbol.for('Jupyter.display')](): Promise<Record<string, string>> {
    return { 'text/html': await this.html() }
  }

  /** Does a call after those before it: at once in memory, and on a thread with a store. */
  async #do<T>(now: () => T, later: () => Promise<T>): Promise<T> {
    if (!this.#isStored) return called(now)
    const done = this.#last.then(later)
    this.#last = done.catch(() => undefined)
    return awaited(done)
  }

  async #told<T>(now: () => string, later: () => Promise<string>): Promise<T> {
    return JSON.parse(await this.#do(now, later)) as T
  }
}

function listener(options: SessionOptions): ((event: string, told: string) => void) | undefined {
  const named: Record<string, ((event: never) => void) | undefined> = {
    compact_start: options.onCompactStart,
    compact_end: options.onCompactEnd,
    summary_refused: options.onSummaryRefused,
  }
  if (!Object.values(named).some(Boolean)) return undefined
  const tell = async (event: string, told: string): Promise<void> => {
    await named[event]?.(JSON.parse(told) as never)
  }
  // What a function throws, at once or later, must not end the process, which has nothing to do with it.
  return (event, told) => void tell(event, told).catch(warn)
}

function summarizing(summarizer: (ask: Ask) => string | Promise<string>) {
  return (system: string, prompt: string, budget: number, waiting: Waiting): void => {
    const make = async (): Promise<void> => {
      const made: unknown = await summarizer({ system, prompt, budget })
      if (typeof made !== 'string') throw new TypeError('a summary is a string')
      waiting.give(made)
    }
    make().catch((error: unknown) => {
      warn(error)
      // The session is told the kind of error only: its message may have contents.
      waiting.fail(`the summarizer threw ${error instanceof Error ? error.name : typeof error}`)
    })
  }
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error), 'LookbackWarning')
}

/** Returns the status and the words of a provider's error, as its SDK has them. */
function said(error: unknown): [status: number | undefined, body: string | undefined] {
  if (error == null) return [undefined, undefined]
  if (typeof error === 'string') return [undefined, error]
  if (typeof error !== 'object') return [undefined, String(error)]
  const { status, statusCode, responseBody, message } = error as Record<string, unknown>
  const isStatus = (code: unknown): boolean => Number.isInteger(code) && Number(code) >= 100 && Number(code) <= 599
  const number = [status, statusCode].find(isStatus) as number | undefined
  return [number, typeof responseBody === 'string' ? responseBody : String(message ?? error)]
}
