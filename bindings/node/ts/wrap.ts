// Wraps the clients of providers so that their model calls send windows.

import { DecodeError, LookbackError, StoreError } from './errors.js'
import { mustBe } from './json.js'
import { Conversations, digest, Queue, TRIES } from './mirror.js'
import { Policy, type PolicySource } from './policy.js'
import { Session, type SessionOptions } from './session.js'
import type { Window } from './window.js'

type Fetch = (url: any, init?: any) => Promise<Response>

/** A client of `openai` or `@anthropic-ai/sdk`: their common part. */
export interface Client {
  withOptions(options: { fetch: Fetch }): this
}

/** The options of a wrapped client. */
export interface WrapOptions {
  /** The store: the path of a file, a folder that ends in `/`, or the URL of a server. By default, in memory. */
  store?: string | undefined
  /** The policy. */
  policy?: PolicySource | undefined
}

/** A model call that sends a history: the end of its path, the dialect, and the members of the body. */
interface Seam {
  path: string
  dialect: string
  history: string
  system?: string
}

const SEAMS: Seam[] = [
  { path: '/chat/completions', dialect: 'openai-chat', history: 'messages' },
  { path: '/responses', dialect: 'openai-responses', history: 'input', system: 'instructions' },
  { path: '/messages', dialect: 'anthropic', history: 'messages', system: 'system' },
]

/** The body of a request. */
type Body = Record<string, any>

/** Members of a body that name a history kept by the provider. Such a request contains only a part of the history. */
const STORED = ['previous_response_id', 'conversation']

/**
 * Returns a client of `openai` or `@anthropic-ai/sdk` whose model calls send windows of their conversations.
 *
 * The program continues to send its whole history with each call. It works the same without `wrap`. `session` is the
 * name of the conversation that the store has under it, or otherwise of the first one. A conversation that begins
 * differently, such as a call that only makes a title, gets its own session.
 *
 * If the provider refuses a request as too long, a smaller one is sent, at most three times. If Lookback fails, the
 * request is sent unchanged, and the process gets a warning. Only invalid options throw an error, at once.
 */
export function wrap<C extends Client>(client: C, session: string, options: WrapOptions = {}): C {
  const own = (client as { fetch?: Fetch }).fetch ?? globalThis.fetch
  return client.withOptions({ fetch: windowed(own, session, options) })
}

/** Returns a `fetch` that sends windows, for any client that accepts one. */
export function windowed(fetch: Fetch, session: string, options: WrapOptions = {}): Fetch {
  const { store } = options
  mustBe('text', { session }, { store })
  const policy = options.policy === undefined ? undefined : new Policy(options.policy)
  const conversations = new Conversations<Conversation>()
  const queue = new Queue()
  /** The beginning of the conversation that has the plain name. */
  let first: string | undefined
  const conversationOf = async ({ seam, body }: Call): Promise<Conversation> => {
    const begins = beginning(body[seam.history])
    // Among concurrent calls, only one can be the first.
    await queue.do(async () => {
      first ??= await named(session, store, seam.dialect, begins)
    })
    const name = begins === first ? session : `${session}/${begins}`
    return conversations.of(begins, () => new Conversation(name, { store, policy }))
  }
  return async (url, init) => {
    const call = callOf(url, init)
    if (!call) return fetch(url, init)
    let conversation: Conversation
    let sent: Sent
    try {
      conversation = await conversationOf(call)
      sent = await conversation.sent(call, (session) => session.window())
    } catch (error) {
      warn('the request is sent as it is', error)
      return fetch(url, init)
    }
    for (let tries = 0; ; tries++) {
      const response = await fetch(url, { ...init, body: sent.text })
      if (response.status < 400) return watched(response, sent.session)
      if (tries === TRIES) return response
      try {
        const error = { status: response.status, message: await response.clone().text() }
        sent = await conversation.sent(call, (session) => session.overflow(error))
      } catch (error) {
        // Most often, the error has another cause than the length.
        if (error instanceof StoreError || !(error instanceof LookbackError)) warn('no smaller request is sent', error)
        return response
      }
    }
  }
}

/** A model call that sends a history, with its body parsed and as text. */
interface Call {
  seam: Seam
  body: Body
  text: string
}

/** A body with a window, and the session that made it. */
interface Sent {
  text: string
  session: Session
}

/** A conversation, with a session for each dialect and model. The sessions share a log, so their calls take turns. */
class Conversation {
  readonly #name: string
  readonly #options: SessionOptions
  readonly #queue = new Queue()
  readonly #sessions = new Map<string, Session>()

  constructor(name: string, options: SessionOptions) {
    this.#name = name
    this.#options = options
  }

  /** Takes over the history of a call, and returns its body with the window that `make` creates. */
  sent({ seam, body, text }: Call, make: (session: Session) => Promise<Window>): Promise<Sent> {
    return this.#queue.do(async () => {
      const session = await this.#session(seam.dialect, body.model)
      await session.preamble({ system: seam.system && body[seam.system], tools: body.tools })
      const { positions } = await session.sync(body[seam.history])
      const window = await make(session)
      const sources = window.sources
      const isWhole =
        sources.length === positions.length &&
        sources.every(({ kind, positions: [at] }, index) => kind === 'unchanged' && at === positions[index])
      return { session, text: isWhole ? text : JSON.stringify({ ...body, [seam.history]: window.messages }) }
    })
  }

  async #session(dialect: string, asked: unknown): Promise<Session> {
    const model = typeof asked === 'string' ? asked : undefined
    const key = `${dialect} ${model}`
    const session = this.#sessions.get(key) ?? (await Session.open(this.#name, { ...this.#options, dialect, model }))
    this.#sessions.set(key, session)
    return session
  }
}

/** Returns the beginning of the conversation with this name: that in the store, or otherwise this one. */
async function named(name: string, store: string | undefined, dialect: string, begins: string): Promise<string | undefined> {
  if (store === undefined) return begins
  try {
    const said = await (await Session.open(name, { store, dialect })).messages()
    return said.length > 0 ? beginning(said) : begins
  } catch (error) {
    // A conversation that this dialect cannot express is another one. A later call may find out which.
    if (error instanceof DecodeError) return undefined
    throw error
  }
}

/**
 * Returns a hash that identifies a conversation: that of its first message. Skips the system prompt, which may differ
 * between calls, and ignores differences in how dialects write the same text.
 */
function beginning(history: any[]): string {
  const { type, content, ...rest } = history.find(({ role }) => !['system', 'developer'].includes(role)) ?? history[0]
  const told = { ...rest, type: type === 'message' ? undefined : type, content: contentOf(content) }
  return digest(sorted(told))
}

/** Returns the text of a content that consists of one text, and any other content unchanged. */
function contentOf(content: unknown): unknown {
  if (!Array.isArray(content) || content.length !== 1) return content
  const { type, text, cache_control, ...more } = content[0]
  return ['text', 'input_text'].includes(type) && Object.keys(more).length === 0 ? text : content
}

/**
 * Writes a value like Python's `json.dumps(value, sort_keys=True)`, because programs in both languages can share a
 * store. Leaves out cache markers, because clients move them.
 */
function sorted(value: any): string {
  if (Array.isArray(value)) return `[${value.map(sorted).join(', ')}]`
  if (typeof value !== 'object' || value === null) {
    const escaped = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
    return JSON.stringify(value).replace(/[\u007f-\uffff]/g, escaped)
  }
  const names = Object.keys(value).filter((name) => name !== 'cache_control' && value[name] !== undefined)
  return `{${names.sort().map((name) => `${sorted(name)}: ${sorted(value[name])}`).join(', ')}}`
}

/** Returns the model call that a request makes, if it sends its whole history. Otherwise `undefined`. */
function callOf(url: any, init: any): Call | undefined {
  const { pathname } = new URL(typeof url === 'string' || url instanceof URL ? url : url.url)
  const seam = SEAMS.find(({ path }) => pathname.endsWith(path))
  const body = seam && read(init?.body)
  if (!body || STORED.some((name) => body[name])) return undefined
  const history: unknown = body[seam.history]
  return Array.isArray(history) && history.length > 0 ? { seam, body, text: init.body } : undefined
}

function read(body: unknown): Body | undefined {
  if (typeof body !== 'string') return undefined
  try {
    return JSON.parse(body) as Body
  } catch {
    return undefined
  }
}

/** Records the tokens that the provider reports, once the client has read the response. */
function watched(response: Response, session: Session): Response {
  if (!response.body) return response
  const decoder = new TextDecoder()
  let text = ''
  const record = async (): Promise<void> => {
    const usage = reported(text + decoder.decode())
    if (usage) await session.usage(...usage).catch((error: unknown) => warn('the usage is not recorded', error))
  }
  const through = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      controller.enqueue(chunk)
      text += decoder.decode(chunk, { stream: true })
      // Of a stream, keeps only the events that report tokens or the model.
      if (text.startsWith('event:') || text.startsWith('data:')) text = unfinished(text)
    },
    flush: record,
  })
  const { status, statusText, headers } = response
  const made = new Response(response.body.pipeThrough(through), { status, statusText, headers })
  // Errors and logs of the client name the URL.
  Object.defineProperty(made, 'url', { value: response.url })
  return made
}

/** Returns the end of a stream's text: the last events that report tokens or the model, and the unfinished line. */
function unfinished(text: string): string {
  const lines = text.split('\n')
  const last = lines.pop()!
  const kept = lines.filter((line) => line.startsWith('data:') && /"usage"|"model"/.test(line)).slice(-4)
  return [...kept, last].join('\n')
}

/** Returns the model and the input tokens that a response reports, including cached ones. */
function reported(text: string): [model: string, tokens: number] | undefined {
  const values = text.trimStart().startsWith('{') ? [text] : text.split('\n').map((line) => line.replace(/^data:\s*/, ''))
  let model: string | undefined
  let tokens = 0
  for (const value of values.map(read)) {
    const told = value?.response ?? value?.message ?? value
    const usage = told?.usage
    model = typeof told?.model === 'string' ? told.model : model
    const counts = [usage?.prompt_tokens, usage?.input_tokens, usage?.cache_read_input_tokens, usage?.cache_creation_input_tokens]
    tokens = Math.max(tokens, counts.filter(Number.isInteger).reduce((sum: number, count: number) => sum + count, 0))
  }
  return model && tokens > 0 ? [model, tokens] : undefined
}

function warn(what: string, error: unknown): void {
  process.emitWarning(`${what}: ${error instanceof Error ? error.message : String(error)}`, 'LookbackWarning')
}
