// Clients of providers whose model calls keep a window.

import { LookbackError } from './errors.js'
import { TRIES } from './mirror.js'
import type { PolicySource } from './policy.js'
import { Session } from './session.js'
import type { Window } from './window.js'

type Fetch = (url: any, init?: any) => Promise<Response>

/** A client of `openai` or `@anthropic-ai/sdk`: what they have in common. */
export interface Client {
  withOptions(options: { fetch: Fetch }): this
}

/** How the conversation of a client is kept. */
export interface WrapOptions {
  /** Where sessions are kept: the path of a file, a folder that ends in `/`, or the URL of a server. Without it, in memory. */
  store?: string | undefined
  /** The policy. Without it, the default. */
  policy?: PolicySource | undefined
}

/** A call of a model that sends a history: the end of its path, the format, and where the body has what is needed. */
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

/** Members of a body that name a history which the provider has. What is sent with them is not all of it. */
const STORED = ['previous_response_id', 'conversation']

/**
 * Returns a client of `openai` or `@anthropic-ai/sdk` whose model calls keep a window of one conversation.
 *
 * The program goes on sending its whole history with each call, and nothing else changes: without `wrap` it works as before.
 * `session` is the name of the conversation. If the provider refuses a request as too long, a smaller one is sent, at most three
 * times. If Lookback fails, the request is sent as it is, and the process is warned.
 */
export function wrap<C extends Client>(client: C, session: string, options: WrapOptions = {}): C {
  const own = (client as { fetch?: Fetch }).fetch ?? globalThis.fetch
  return client.withOptions({ fetch: windowed(own, session, options) })
}

/** Returns a `fetch` that sends windows: for any client that takes one. */
export function windowed(fetch: Fetch, name: string, options: WrapOptions = {}): Fetch {
  const sessions = new Map<string, Promise<Session>>()
  const open = (dialect: string, model: string | undefined): Promise<Session> => {
    const key = `${dialect} ${model}`
    const session = sessions.get(key) ?? Session.open(name, { ...options, dialect, model })
    sessions.set(key, session)
    session.catch(() => sessions.delete(key))
    return session
  }
  return async (url, init) => {
    const { pathname } = new URL(typeof url === 'string' || url instanceof URL ? url : url.url)
    const seam = SEAMS.find(({ path }) => pathname.endsWith(path))
    const body = seam && read(init?.body)
    if (!body || !Array.isArray(body[seam.history]) || STORED.some((name) => body[name])) return fetch(url, init)
    let session: Session
    let window: Window
    try {
      session = await open(seam.dialect, typeof body.model === 'string' ? body.model : undefined)
      await session.preamble({ system: seam.system && body[seam.system], tools: body.tools })
      await session.sync(body[seam.history])
      window = await session.window()
    } catch (error) {
      warn('the request is sent as it is', error)
      return fetch(url, init)
    }
    for (let tries = 0; ; tries++) {
      const response = await fetch(url, { ...init, ...sent(body, seam, window, init) })
      if (response.status < 400) return watched(response, session)
      if (tries === TRIES) return response
      const smaller = await refused(response, session)
      if (!smaller) return response
      window = smaller
    }
  }
}

function read(body: unknown): Record<string, any> | undefined {
  if (typeof body !== 'string') return undefined
  try {
    return JSON.parse(body) as Record<string, any>
  } catch {
    return undefined
  }
}

/** Returns the body with the window in place of the history, unless that is all of it. */
function sent(body: Record<string, any>, seam: Seam, window: Window, init: any): { body: string } {
  const sources = window.sources
  const isWhole = sources.length === body[seam.history].length && sources.every(({ kind }) => kind === 'unchanged')
  return { body: isWhole ? init.body : JSON.stringify({ ...body, [seam.history]: window.messages }) }
}

/** Returns a smaller window if the provider says that the last one was too long. */
async function refused(response: Response, session: Session): Promise<Window | undefined> {
  try {
    const error = { status: response.status, message: await response.clone().text() }
    return await session.overflow(error)
  } catch (error) {
    if (error instanceof LookbackError) return undefined
    throw error
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
      // Of a stream, only what reports tokens is kept.
      if (text.startsWith('event:') || text.startsWith('data:')) text = unfinished(text)
    },
    flush: record,
  })
  const { status, statusText, headers } = response
  const made = new Response(response.body.pipeThrough(through), { status, statusText, headers })
  // What the client's errors and logs name.
  Object.defineProperty(made, 'url', { value: response.url })
  return made
}

/** Returns the end of a stream's text: its last events that report tokens or the model, and what is not finished. */
function unfinished(text: string): string {
  const lines = text.split('\n')
  const last = lines.pop()!
  const kept = lines.filter((line) => line.startsWith('data:') && /"usage"|"model"/.test(line)).slice(-4)
  return [...kept, last].join('\n')
}

/** Returns the model, and the input tokens that a response reports, cached ones included. */
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
