// A session: the log of a conversation, and the window of each call.

import { awaited, called, LookbackError } from './errors.js'
import { json, type Message, messages, mustBe, text } from './json.js'
import { Memory } from './memory.js'
import native from './native.js'
import type { NativeSession, NativeWindow, Waiting } from './native-types.js'
import { type PolicySource, policyText, writtenPolicy } from './policy.js'
import { type Outcome, Window } from './window.js'

/** A request for a summary. */
export interface Ask {
  /** The system prompt. */
  system: string
  /** The user's message: the conversation. */
  prompt: string
  /** The most tokens of the answer. */
  budget: number
}

/** The beginning of a compaction. */
export interface CompactStart {
  session: string
  /** The number of messages that leave the window. */
  evicted_count: number
  /** The tokens of the window before the compaction. */
  total_tokens: number
}

/** The end of a compaction. */
export interface CompactEnd {
  session: string
  outcome: 'cut' | 'summarized' | 'refused' | 'failed'
  /** The reason if it failed. */
  reason: string | null
  tokens_before: number
  tokens_after: number
  summary_tokens: number
  seconds: number
}

/** A summary that failed its check. */
export interface SummaryRefused {
  session: string
  model: string
  /** Whether the summarizer is asked once more. */
  again: boolean
  /** Names and numbers in the summary that are not in its source. */
  invented: string[]
  /** Names that the model used most, and that the summary lacks. */
  missing: string[]
}

/** The options for opening a session. */
export interface SessionOptions {
  /** The store: the path of a file, a folder that ends in `/`, or the URL of a server. By default, in memory. */
  store?: string | undefined
  /** The model. It decides how tokens are counted, and its context window is the largest limit. */
  model?: string | undefined
  /** The dialect of the messages. By default that of the model's provider, or `openai-chat`. */
  dialect?: string | undefined
  /** The policy. */
  policy?: PolicySource | undefined
  /**
   * Writes the running summary, if the policy makes one. Without it, a summary consists of sentences of the
   * conversation.
   */
  summarizer?: ((ask: Ask) => string | Promise<string>) | undefined
  /** Called when a compaction begins. */
  onCompactStart?: ((event: CompactStart) => void) | undefined
  /** Called when a compaction has ended. */
  onCompactEnd?: ((event: CompactEnd) => void) | undefined
  /** Called when a summary has failed its check. */
  onSummaryRefused?: ((event: SummaryRefused) => void) | undefined
}

/** The result of taking over a whole history, in messages. */
export interface Synced {
  known: number
  new: number
  left: number
  /** The log position of each message of the history. */
  positions: number[]
}

/** A message that a search found. */
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

/** The state of a resumed session. */
export interface Resumed {
  /** The turns before the task that stay in the window. */
  turns: number
  /** Whether the session was interrupted in the middle of this task. */
  unfinished: boolean
}

/** What each call of a session sent and cost. */
export interface Receipt {
  calls: Record<string, unknown>[]
  total: Record<string, unknown>
  since: number
}

/**
 * A conversation with a log of every message, and a window for each model call.
 *
 * `M` is the type of a message, such as `ChatCompletionMessageParam` of `openai`. Calls run one after another.
 */
export class Session<M = any> {
  /** The name of the session. */
  readonly name: string
  readonly #native: NativeSession
  /** Whether calls run on a thread. In memory, they take less time than starting on a thread. */
  readonly #isStored: boolean
  /** The previous call, which the next one waits for. */
  #last: Promise<unknown> = Promise.resolve()

  private constructor(name: string, native: NativeSession, isStored: boolean) {
    this.name = name
    this.#native = native
    this.#isStored = isStored
  }

  /** Opens the session with this name, or creates it. */
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

  /** The dialect of the messages, such as `openai-chat`. */
  get dialect(): string {
    return this.#native.dialect
  }

  /** Appends a message or a list of messages, and returns the log position of each. */
  async push(given: Message | readonly Message[]): Promise<number[]> {
    const list = messages(given)
    return this.#do(() => this.#native.pushNow(list), () => this.#native.push(list))
  }

  /**
   * Takes over a whole history: recognizes known messages and appends the rest. A changed message begins a branch.
   */
  async sync(history: Message | readonly Message[]): Promise<Synced> {
    const list = messages(history)
    return this.#told(() => this.#native.syncNow(list), () => this.#native.sync(list))
  }

  /**
   * Sets the tools, and the system prompt if it is outside the messages, because the provider counts them.
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
   * Records the model's answer: its message, and the tokens that the provider reports. Takes a whole response, not a
   * stream.
   */
  async answered(response: object | string): Promise<void> {
    const body = text(response, 'response')
    await this.#do(() => this.#native.answeredNow(body), () => this.#native.answered(body))
  }

  /** Records the input tokens that the provider reported for the last window, including cached ones. */
  async usage(model: string, inputTokens: number): Promise<void> {
    mustBe('text', { model })
    mustBe('count', { inputTokens })
    await this.#do(() => this.#native.usageNow(model, inputTokens), () => this.#native.usage(model, inputTokens))
  }

  /**
   * Returns a smaller window, because the provider refused the last one as too long.
   *
   * `error` is the error of the provider's SDK, or the text of its answer. Omit it if neither is available. An error
   * with another cause is thrown again.
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

  /** Finds messages by words, including those that have left the window. The best match comes first. */
  async search(query: string, limit = 10): Promise<Found[]> {
    mustBe('text', { query })
    mustBe('count', { limit })
    return this.#told(() => this.#native.searchNow(query, limit), () => this.#native.search(query, limit))
  }

  /** Returns the messages of the conversation with their log positions, and whether the window shows them. */
  async history(): Promise<Said[]> {
    return this.#told(() => this.#native.historyNow(), () => this.#native.history())
  }

  /** Returns the messages of the conversation as they arrived, including those that have left the window. */
  async messages(): Promise<M[]> {
    return this.#told(() => this.#native.messagesNow(), () => this.#native.messages())
  }

  /** Returns the treatment of every message and its reason. */
  async why(): Promise<Outcome[]> {
    return this.#told(() => this.#native.whyNow(), () => this.#native.why())
  }

  /** Returns what each call sent and cost, and what it would have cost without a window, in US dollars. */
  async receipt(price = 'anthropic-5m'): Promise<Receipt> {
    mustBe('text', { price })
    return this.#told(() => this.#native.receiptNow(price), () => this.#native.receipt(price))
  }

  /** Changes the policy for the next window and later ones. */
  async setPolicy(policy: PolicySource): Promise<void> {
    const source = writtenPolicy(policy)
    await this.#do(() => this.#native.setPolicyNow(source), () => this.#native.setPolicy(source))
  }

  /**
   * Continues the session of an earlier process: the last turns stay in the window, by default 16, and the task follows
   * them. If the session was interrupted in the middle of this task, it continues there.
   */
  async resume(task: Message, turns?: number): Promise<Resumed> {
    mustBe('count', {}, { turns })
    const list = messages(task)
    return this.#told(() => this.#native.resumeNow(list, turns), () => this.#native.resume(list, turns))
  }

  /** Waits until the summary in progress is done. */
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

  /** Returns the session as HTML: a picture of the window, and a table of how each message was treated. */
  async html(): Promise<string> {
    return this.#do(() => this.#native.htmlNow(), () => this.#native.html())
  }

  /** Shows the session in a notebook. */
  async [Symbol.for('Jupyter.display')](): Promise<Record<string, string>> {
    return { 'text/html': await this.html() }
  }

  /** Runs a call after the previous ones: at once in memory, and on a thread with a store. */
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
  // Errors of a listener become warnings, because they must not end the process.
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
      // The session gets only the kind of error, because the message may have contents.
      waiting.fail(`the summarizer threw ${error instanceof Error ? error.name : typeof error}`)
    })
  }
}

function warn(error: unknown): void {
  process.emitWarning(error instanceof Error ? error : String(error), 'LookbackWarning')
}

/** Returns the status and the text of a provider's error, in the form of its SDK. */
function said(error: unknown): [status: number | undefined, body: string | undefined] {
  if (error == null) return [undefined, undefined]
  if (typeof error === 'string') return [undefined, error]
  if (typeof error !== 'object') return [undefined, String(error)]
  const { status, statusCode, responseBody, message } = error as Record<string, unknown>
  const isStatus = (code: unknown): boolean => Number.isInteger(code) && Number(code) >= 100 && Number(code) <= 599
  const number = [status, statusCode].find(isStatus) as number | undefined
  return [number, typeof responseBody === 'string' ? responseBody : String(message ?? error)]
}
