// The AI SDK: a middleware for its models, which sends a window of each conversation.

import { createHash } from 'node:crypto'
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Message,
  LanguageModelV4Middleware,
  LanguageModelV4ToolResultOutput,
  SharedV4FileData,
} from '@ai-sdk/provider'
import { type AdapterOptions, type Format, Mirror, Mirrors, type Shown } from './adapter.js'

/** How conversations are kept. */
export interface LookbackOptions extends AdapterOptions {
  /**
   * The name of the conversation. What begins otherwise, such as the conversation of an agent that is a tool, has a session
   * beside it. Without a name, conversations are told by their first message, and are kept in memory.
   */
  session?: string | undefined
}

/** A call of a model. */
interface Call {
  params: LanguageModelV4CallOptions
  model: LanguageModelV4
}

/**
 * Returns a middleware for `wrapLanguageModel`, so that each call of the model sends a window of its prompt.
 *
 * A call can name its conversation: `providerOptions: { lookback: { session: 'chat-1' } }`. If the provider refuses a request
 * as too long, a smaller one is sent, at most three times.
 */
export function lookback(options: LookbackOptions = {}): LanguageModelV4Middleware {
  const mirrors = new Mirrors<Item>()
  /** How the first conversation begins, which has the name. */
  let first: string | undefined
  const conversation = (items: Item[], { params, model }: Call): Mirror<Item> => {
    const begins = createHash('sha256').update(keyOf(items[0]!)).digest('hex').slice(0, 16)
    const asked = params.providerOptions?.lookback?.session
    let name = typeof asked === 'string' ? asked : options.session
    if (name !== undefined && name !== asked && begins !== (first ??= begins)) name = `${name}/${begins}`
    const { store, policy } = options
    const kept = { store: name === undefined ? undefined : store, model: options.model ?? model.modelId, policy }
    const make = (): Mirror<Item> => new Mirror(`ai-sdk/${name ?? begins}`, new Messages(), kept)
    return mirrors.of(name === undefined ? `begins ${begins}` : `is ${name}`, make)
  }
  const windowed = async <R>(call: Call, send: (params: LanguageModelV4CallOptions) => PromiseLike<R>): Promise<R> => {
    const { params } = call
    // The system prompt may be another one in each call.
    const start = params.prompt.findIndex(({ role }) => role !== 'system')
    if (start < 0) return send(params)
    const before = params.prompt.slice(0, start)
    const system = before.map(({ content }) => content).join('\n\n') || undefined
    const tools = params.tools?.map((tool) =>
      tool.type === 'function' ? { name: tool.name, description: tool.description, input_schema: tool.inputSchema } : tool,
    )
    const items = listed(params.prompt.slice(start))
    return conversation(items, call).call(items, { system, tools: tools?.length ? tools : undefined }, (window) =>
      send({ ...params, prompt: [...before, ...window.flatMap(({ messages }) => messages)] }),
    )
  }
  return {
    specificationVersion: 'v4',
    wrapGenerate: (call) => windowed(call, (params) => call.model.doGenerate(params)),
    wrapStream: (call) => windowed(call, (params) => call.model.doStream(params)),
  }
}

type Block = Record<string, any>

/** A message of a list, with its element of the session. */
interface Item {
  /** The message, or what a window shows of it and of its neighbors. */
  messages: LanguageModelV4Message[]
  element: { role: string; content: string | Block[] }
  parts: Part[]
  /** What follows in the list, beginning with this. */
  rest: () => Item[]
}

/** A part of a message, with its block of the element. */
interface Part {
  message: LanguageModelV4Message
  part: any
  block: Block
  json: string
}

function listed(messages: LanguageModelV4Message[]): Item[] {
  const list: Item[] = messages.map((message, index) => {
    const parts = partsOf(message).map((part): Part => {
      const block = blockOf(part, message.role)
      return { message, part, block, json: JSON.stringify(block) }
    })
    const element = { role: message.role === 'tool' ? 'user' : message.role, content: parts.map(({ block }) => block) }
    return { messages: [message], element, parts, rest: () => list.slice(index) }
  })
  return list
}

function keyOf({ element }: Item): string {
  return JSON.stringify(element)
}

/** Returns the parts of a message. The text of a system message is one. */
function partsOf({ content }: LanguageModelV4Message): any[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content
}

/**
 * The messages of a conversation, in Anthropic's format: the one that says which reasoning is signed, so that no cut comes
 * before it. What other providers say has a form in it, too.
 */
class Messages implements Format<Item> {
  readonly dialect = 'anthropic'
  /** The tools, by the identifiers of their calls. */
  readonly #tools = new Map<string, string>()

  key(item: Item): string {
    return keyOf(item)
  }

  encode({ element, parts }: Item): object[] {
    for (const { block } of parts) if (block.type === 'tool_use') this.#tools.set(block.id, block.name)
    return [element]
  }

  revive(item: Item, [shown]: Shown[]): Item {
    // Neighbors of one role are one element of a window.
    return { ...item, messages: this.#messages(shown![1], item.rest()) }
  }

  make(shown: any): Item {
    return { messages: this.#messages(shown, []), element: shown, parts: [], rest: () => [] }
  }

  /** Returns the messages that an element shows. They are made of the parts of these items. */
  #messages({ role, content }: Item['element'], items: Item[]): LanguageModelV4Message[] {
    const blocks: Block[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    const left = items.flatMap(({ element, parts }) => (element.role === role ? parts : []))
    const take = (is: (part: Part) => boolean): Part | undefined => {
      const at = left.findIndex(is)
      return at < 0 ? undefined : left.splice(at, 1)[0]
    }
    const unchanged = blocks.map((block) => take(({ json }) => json === JSON.stringify(block)))
    const said: { of: LanguageModelV4Message | undefined; role: string; parts: any[] }[] = []
    blocks.forEach((block, at) => {
      // A text beside the user's may be Lookback's own.
      const isAlike = (part: Part): boolean => part.block.type === block.type && (block.type !== 'text' || role === 'assistant')
      const was = unchanged[at] ?? take((part) => isAlike(part) && idOf(part.block) === idOf(block)) ?? take(isAlike)
      const part = was && was === unchanged[at] ? was.part : this.#part(block, was?.part)
      const speaker = was?.message.role ?? (block.type === 'tool_result' ? 'tool' : role)
      const last = said.at(-1)
      if (last?.of === was?.message && last?.role === speaker) last.parts.push(part)
      else said.push({ of: was?.message, role: speaker, parts: [part] })
    })
    return said.map(({ of, role, parts }) => {
      const whole = items.find(({ messages }) => messages[0] === of)?.parts
      if (of && whole?.length === parts.length && whole.every(({ part }, at) => part === parts[at])) return of
      const content = role === 'system' ? parts.map(({ text }) => text).join('\n\n') : parts
      return { ...of, role, content } as LanguageModelV4Message
    })
  }

  /** Returns the part that a block shows: a changed one, or one that Lookback made. */
  #part(block: Block, was: any): object {
    if (block.type === 'tool_use') return { ...was, toolCallId: block.id, input: block.input }
    // The options of a text may name what the provider has stored, which is not what is shown.
    if (block.type !== 'tool_result') return { type: 'text', text: block.text }
    const toolName = was?.toolName ?? this.#tools.get(block.tool_use_id)
    return { ...was, type: 'tool-result', toolCallId: block.tool_use_id, toolName, output: outputOf(block, was?.output) }
  }
}

/** Returns the identifier of a call, or of the call that a result answers. */
function idOf(block: Block): string | undefined {
  return block.id ?? block.tool_use_id
}

/** Returns a part as a block. What the format does not know is counted, and stays with its message. */
function blockOf(part: any, role: string): Block {
  const options: any[] = Object.values(part.providerOptions ?? {})
  const option = (name: string): unknown => options.find((each) => each?.[name])?.[name]
  switch (part.type) {
    case 'text':
      // What the provider has compacted stands for all that came before it.
      return option('type') === 'compaction' ? { type: 'compaction', content: part.text } : { type: 'text', text: part.text }
    case 'reasoning': {
      const [signature, data] = [option('signature'), option('redactedData')]
      if (signature) return { type: 'thinking', thinking: part.text, signature }
      return data ? { type: 'redacted_thinking', data } : { type: 'reasoning', text: part.text }
    }
    case 'tool-call':
      if (part.providerExecuted) break
      return { type: 'tool_use', id: part.toolCallId, name: part.toolName, input: part.input }
    case 'tool-result':
      if (role !== 'tool') break
      return { type: 'tool_result', tool_use_id: part.toolCallId, ...resultOf(part.output) }
    case 'file':
      if (role !== 'user') break
      return fileOf(part)
  }
  const { providerOptions, data, ...rest } = part
  return { type: part.type, text: JSON.stringify(rest, withoutFiles) }
}

/** Leaves out the contents of files, such as a picture that the provider has drawn: their tokens are not those of a text. */
function withoutFiles(_: string, value: unknown): unknown {
  const isLong = typeof value === 'string' && value.length > 10_000 && !value.includes(' ')
  return isLong || ArrayBuffer.isView(value) ? undefined : value
}

/** Returns the output of a tool as the content of a result. */
function resultOf(output: LanguageModelV4ToolResultOutput): Block {
  if (output.type === 'content') return { content: output.value.map(itemOf) }
  if (output.type === 'execution-denied') return { content: output.reason ?? 'Tool execution denied.' }
  const content = typeof output.value === 'string' ? output.value : JSON.stringify(output.value)
  return output.type.startsWith('error') ? { content, is_error: true } : { content }
}

function itemOf(item: any): Block {
  if (item.type === 'file') return fileOf(item)
  return item.type === 'text' ? { type: 'text', text: item.text } : { type: item.type }
}

/** Returns the output that a result shows of another one. */
function outputOf({ content, is_error }: Block, was: any): object {
  const list: Block[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  if (was?.type !== 'content') return { type: is_error ? 'error-text' : 'text', value: list.map(({ text }) => text).join('') }
  const known = new Map(was.value.map((item: any) => [JSON.stringify(itemOf(item)), item]))
  return { ...was, value: list.map((block) => known.get(JSON.stringify(block)) ?? { type: 'text', text: block.text }) }
}

function fileOf({ data, mediaType, filename }: { data: SharedV4FileData; mediaType: string; filename?: string }): Block {
  return { type: mediaType.startsWith('image') ? 'image' : 'document', source: sourceOf(data, mediaType), title: filename }
}

function sourceOf(file: SharedV4FileData, media_type: string): object {
  switch (file.type) {
    case 'data': {
      const data = typeof file.data === 'string' ? file.data : Buffer.from(file.data).toString('base64')
      return { type: 'base64', media_type, data }
    }
    case 'url':
      return { type: 'url', url: String(file.url) }
    case 'reference':
      return { type: 'file', file_id: Object.values(file.reference)[0] }
    case 'text':
      return { type: 'text', media_type: 'text/plain', data: file.text }
  }
}
