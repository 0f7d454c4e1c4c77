// OpenAI's Agents SDK: models that send a window of each conversation's items, and a session that keeps all items.

import type {
  AgentInputItem,
  Model,
  ModelProvider,
  ModelRequest,
  Session as AgentsSession,
  StreamEvent,
} from '@openai/agents'
import { type AdapterOptions, digest, type Format, Mirror, Mirrors, type Shown } from './adapter.js'
import { Session } from './session.js'

const DIALECT = 'openai-responses'

/** The type of an element that is kept unconverted, because the session's format cannot express it. */
const FOREIGN = 'lookback_foreign'

/** The types with another name in the session's format, and their names there. */
const TYPES: Record<string, string> = {
  function_call_result: 'function_call_output',
  computer_call_result: 'computer_call_output',
  program: 'program_call',
  program_output: 'program_call_output',
}

/** A picture of one pixel. A screenshot call can only be answered with a picture. */
const PIXEL =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII='

/** An item, in the SDK's form or in the session's. */
type Item = Record<string, any>

/**
 * Makes models send a window of a conversation's items.
 *
 * Each conversation that begins differently, such as that of an agent that is a tool, gets its own session. If the
 * provider refuses a request as too long, a smaller one is sent, at most three times. A call that continues a
 * conversation kept by the provider is left alone.
 */
export class LookbackModels {
  readonly #name: string
  readonly #options: AdapterOptions
  readonly #mirrors = new Mirrors<Item>()
  /** The beginning of the first conversation. */
  #first: string | undefined

  /** Opens the session of a conversation, whose name is `session`. */
  constructor(session: string, options: AdapterOptions = {}) {
    this.#name = `openai-agents/${session}`
    this.#options = options
  }

  /** Returns a provider whose models send windows, for agents that name a model. */
  provider(provider: ModelProvider): ModelProvider {
    return { getModel: async (name) => this.model(await provider.getModel(name)) }
  }

  /** Returns a model that sends windows. */
  model(model: Model): Model {
    const opened = async (request: ModelRequest) => {
      const events = model.getStreamedResponse(request)[Symbol.asyncIterator]()
      // The provider refuses a request before the first event.
      return { events, first: await events.next() }
    }
    return {
      supportsPromptModelSelection: model.supportsPromptModelSelection ?? false,
      getResponse: (request) => this.#call(request, (sent) => model.getResponse(sent)),
      getStreamedResponse: (request) => streamed(() => this.#call(request, opened)),
      getRetryAdvice: (args) => model.getRetryAdvice?.(args),
    }
  }

  #call<R>(request: ModelRequest, send: (request: ModelRequest) => Promise<R>): Promise<R> {
    const { input, systemInstructions: system, tools, handoffs } = request
    const items: Item[] = typeof input === 'string' ? [{ role: 'user', content: input }] : input
    if (items.length === 0 || request.previousResponseId || request.conversationId) return send(request)
    const asTools = handoffs.map(({ toolName, toolDescription, inputJsonSchema }) => {
      return { type: 'function', name: toolName, description: toolDescription, parameters: inputJsonSchema }
    })
    const all = [...tools, ...asTools]
    return this.#mirror(items[0]!).call(items, { system, tools: all.length > 0 ? all : undefined }, (window) =>
      send({ ...request, input: window as AgentInputItem[] }),
    )
  }

  #mirror(first: Item): Mirror<Item> {
    const begins = digest(keyOf(first))
    this.#first ??= begins
    const name = begins === this.#first ? this.#name : `${this.#name}/${begins}`
    return this.#mirrors.of(begins, () => new Mirror(name, new Items(), this.#options))
  }
}

async function* streamed(
  open: () => Promise<{ events: AsyncIterator<StreamEvent>; first: IteratorResult<StreamEvent> }>,
): AsyncIterable<StreamEvent> {
  const { events, first } = await open()
  if (first.done) return
  try {
    yield first.value
    yield* { [Symbol.asyncIterator]: () => events }
  } finally {
    await events.return?.()
  }
}

/** The options of a session of the SDK. */
export type LookbackSessionOptions = Pick<AdapterOptions, 'store'>

/**
 * The items of a conversation, as the `session` of its runs.
 *
 * Items that are popped or cleared leave the conversation, but stay in its log.
 */
export class LookbackSession implements AgentsSession {
  readonly #id: string
  readonly #store: string | undefined
  readonly #inMemory: Promise<Session> | undefined
  /** The previous call, which the next one waits for. */
  #last: Promise<unknown> = Promise.resolve()

  /** Opens the session of a conversation, whose name is `sessionId`. */
  constructor(sessionId: string, options: LookbackSessionOptions = {}) {
    this.#id = sessionId
    this.#store = options.store
    if (this.#store === undefined) this.#inMemory = this.#open()
  }

  /** Returns the name of the conversation. */
  async getSessionId(): Promise<string> {
    return this.#id
  }

  /** Returns the items in order, or only the newest ones if there is a limit. */
  async getItems(limit = Infinity): Promise<AgentInputItem[]> {
    const items = await this.#do(async (session) => (await session.messages()).map(kept))
    return items.slice(Math.max(items.length - Math.max(limit, 0), 0))
  }

  /** Appends items. */
  async addItems(items: AgentInputItem[]): Promise<void> {
    if (items.length > 0) await this.#do((session) => session.push(items.map(keeping)))
  }

  /** Removes the newest item from the conversation, and returns it. */
  async popItem(): Promise<AgentInputItem | undefined> {
    return this.#do(async (session) => {
      const elements = await session.messages()
      const last = elements.pop()
      if (last) await session.sync(elements)
      return last && kept(last)
    })
  }

  /** Removes all items from the conversation. */
  async clearSession(): Promise<void> {
    await this.#do((session) => session.sync([]))
  }

  #open(): Promise<Session> {
    return Session.open(`openai-agents/${this.#id}/items`, { store: this.#store, dialect: DIALECT, policy: 'none' })
  }

  #do<R>(work: (session: Session) => Promise<R>): Promise<R> {
    // Other processes may have written to the store since an open session read it.
    const done = this.#last.then(async () => work(await (this.#inMemory ?? this.#open())))
    this.#last = done.catch(() => undefined)
    return done
  }
}

/** Returns an element that keeps the whole item. */
function keeping(item: Item): Item {
  if (item.role !== undefined) return item
  if (item.type === 'function_call') return { ...item, call_id: item.callId }
  if (item.type === 'function_call_result') return { ...item, type: 'function_call_output', call_id: item.callId }
  return { type: FOREIGN, item }
}

function kept({ call_id, ...item }: Item): AgentInputItem {
  if (item.type === FOREIGN) return item.item
  if (item.type === 'function_call_output') return { ...item, type: 'function_call_result' } as AgentInputItem
  return item as AgentInputItem
}

/** The items of a conversation. The session keeps them in OpenAI's format, without members that mean nothing there. */
class Items implements Format<Item> {
  readonly dialect = DIALECT
  /** The function names, by the identifiers of their calls. */
  readonly #names = new Map<string, string>()

  key(item: Item): string {
    return keyOf(item)
  }

  encode(item: Item): object[] {
    if (item.type === 'function_call') this.#names.set(item.callId, item.name)
    return [elementOf(item)]
  }

  revive(item: Item, [shown]: Shown[]): Item {
    const { role, content, call_id: callId, output, arguments: written } = shown![1]
    if (role) return { ...item, content: contentOf(content, item.content, role) }
    if (item.type !== 'function_call') return { ...item, callId, output: outputOf(item.type, output, item.output) }
    this.#names.set(callId, item.name)
    return { ...item, callId, arguments: written }
  }

  make({ type, role, content, call_id: callId, output }: Item): Item {
    if (role) return { type: 'message', role, status: 'completed', content: contentOf(content, [], role) }
    const made = Object.keys(TYPES).find((key) => TYPES[key] === type) ?? type
    const name = this.#names.get(callId) ?? callId
    return { type: made, name, callId, status: 'completed', output: outputOf(made, output, []) }
  }
}

function keyOf(item: Item): string {
  return JSON.stringify(elementOf(item))
}

/** Returns an item in the session's form: the members that the provider counts, and those that connect items. */
function elementOf(item: Item): Item {
  const { type = 'message', role, content, callId: call_id, output, providerData, ...rest } = item
  switch (type) {
    case 'message':
      return { type, role, content: partsOf(content) }
    case 'reasoning': {
      const encrypted_content = providerData?.encryptedContent ?? providerData?.encrypted_content
      return { type, id: item.id, summary: content.map(partOf), encrypted_content, content: item.rawContent?.map(partOf) }
    }
    case 'hosted_tool_call':
      return { id: item.id, ...providerData, type: providerData?.type ?? item.name }
    case 'unknown':
      return providerData?.type ? providerData : { type }
  }
  // Providers do not count identifiers, and models of other APIs give all items the same one.
  const { id, status, ...told } = rest
  return { type: TYPES[type] ?? type, call_id, output: output && partsOf(output), ...told }
}

function partsOf(content: string | Item | Item[]): string | Item[] {
  if (Array.isArray(content)) return content.map(partOf)
  return typeof content === 'string' ? content : content.type === 'text' ? content.text : [partOf(content)]
}

/** Returns a part of a message or of an output. */
function partOf(part: Item): Item {
  switch (part.type) {
    case 'text':
    case 'input_text':
    case 'output_text':
    case 'reasoning_text':
      return { type: part.type === 'text' ? 'input_text' : part.type, text: part.text }
    case 'image':
    case 'input_image': {
      const { file_id, data, url } = sourceOf(part.image)
      return { type: 'input_image', image_url: data ?? url, file_id }
    }
    case 'computer_screenshot':
      return { type: 'input_image', image_url: part.data }
    case 'file':
    case 'input_file': {
      const { file_id, data, url } = sourceOf(part.file)
      return { type: 'input_file', file_data: data, file_url: url, file_id, filename: part.filename }
    }
    case undefined:
      return { type: 'input_text', text: `${part.stdout}${part.stderr}` }
  }
  // Of all other parts, only the words are counted.
  return { type: part.type, text: part.refusal ?? part.transcript }
}

/** Returns the location or the contents of a picture or another file. */
function sourceOf(given: any): { file_id?: string; data?: string; url?: string } {
  if (typeof given === 'string') return /^https?:/.test(given) ? { url: given } : { data: given }
  if (given?.data === undefined) return { file_id: given?.id ?? given?.fileId, url: given?.url }
  const base64 = typeof given.data === 'string' ? given.data : Buffer.from(given.data).toString('base64')
  return { data: `data:${given.mediaType ?? ''};base64,${base64}` }
}

/** Returns the content of a message or the output of a tool as a window shows it. */
function contentOf(shown: string | Item[], was: string | Item | Item[], role = 'user'): string | Item[] {
  if (typeof shown === 'string' && role !== 'assistant') return shown
  const parts = typeof shown === 'string' ? [{ text: shown }] : shown
  const known = new Map(typeof was === 'string' ? [] : [was].flat().map((part) => [JSON.stringify(partOf(part)), part]))
  const type = role === 'assistant' ? 'output_text' : 'input_text'
  return parts.map((part) => known.get(JSON.stringify(part)) ?? { type, text: part.text })
}

function outputOf(type: string, shown: any, was: any): unknown {
  if (type === 'computer_call_result') {
    const screens = [shown].flat().map(({ image_url }) => image_url)
    return { type: 'computer_screenshot', data: screens[0] ?? PIXEL }
  }
  const output = contentOf(shown, was)
  if (type !== 'shell_call_output' || typeof output === 'string') return output
  const outcome = { type: 'exit', exitCode: 1 }
  return output.map((part, at) => (part.type ? { stdout: part.text, stderr: '', outcome: was[at]?.outcome ?? outcome } : part))
}
