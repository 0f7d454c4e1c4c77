// Converts prompts of the AI SDK's models, which the agents of Mastra send too, to messages of a session and back.

import type { LanguageModelV4Message, LanguageModelV4ToolResultOutput } from '@ai-sdk/provider'
import type { Format, Shown } from './adapter.js'

type Block = Record<string, any>

/** A message of a prompt, with its element of the session. */
export interface Item {
  /** The message, or the messages that a window shows for it and adjacent ones. */
  messages: LanguageModelV4Message[]
  element: { role: string; content: string | Block[] }
  parts: Part[]
  /** The items of the list from this one on. */
  rest: () => Item[]
}

/** A prompt, split into its instructions and the rest. */
interface Split {
  before: LanguageModelV4Message[]
  system: string | undefined
  items: Item[]
}

/** A part of a message, with its block of the element. */
interface Part {
  message: LanguageModelV4Message
  part: any
  block: Block
  json: string
}

/** Splits a prompt into its instructions, which may differ between calls, and the items of the rest. */
export function split(prompt: LanguageModelV4Message[]): Split {
  const start = prompt.findIndex(({ role }) => role !== 'system')
  const before = start < 0 ? prompt : prompt.slice(0, start)
  const system = before.map(({ content }) => content).join('\n\n') || undefined
  return { before, system, items: listed(prompt.slice(before.length)) }
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

/** Returns a value that identifies a message. Leaves out what may differ in the next call, such as a cache marker. */
export function keyOf({ element }: Item): string {
  return JSON.stringify(element)
}

/** Returns the parts of a message. The text of a system message is one part. */
function partsOf({ content }: LanguageModelV4Message): any[] {
  return typeof content === 'string' ? [{ type: 'text', text: content }] : content
}

/**
 * The messages of a conversation, in Anthropic's format. Only this format marks signed reasoning, so that no compaction
 * changes what precedes it. The format can also express the messages of other providers.
 */
export class Messages implements Format<Item> {
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
    // Adjacent messages of one role are one element of a window.
    return { ...item, messages: this.#messages(shown![1], item.rest()) }
  }

  make(shown: any): Item {
    return { messages: this.#messages(shown, []), element: shown, parts: [], rest: () => [] }
  }

  /** Returns the messages that an element shows, built from the parts of these items. */
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
      // A text next to the user's may be Lookback's own.
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

  /** Returns the part that a block shows: a changed one, or one that Lookback added. */
  #part(block: Block, was: any): object {
    if (block.type === 'tool_use') return { ...was, toolCallId: block.id, input: block.input }
    // The options of a text may refer to a stored text of the provider, which differs from the shown one.
    if (block.type !== 'tool_result') return { type: 'text', text: block.text }
    const toolName = was?.toolName ?? this.#tools.get(block.tool_use_id)
    return { ...was, type: 'tool-result', toolCallId: block.tool_use_id, toolName, output: outputOf(block, was?.output) }
  }
}

/** Returns the identifier of a call, or of the call that a result answers. */
function idOf(block: Block): string | undefined {
  return block.id ?? block.tool_use_id
}

/** Returns a part as a block. Parts that the format does not know are counted, and stay with their message. */
function blockOf(part: any, role: string): Block {
  const options: any[] = Object.values(part.providerOptions ?? {})
  const option = (name: string): unknown => options.find((each) => each?.[name])?.[name]
  switch (part.type) {
    case 'text':
      // A compaction of the provider replaces everything before it.
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

/** Leaves out the contents of files, such as pictures that the provider made: they are not counted like text. */
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
  if (item.type === 'text') return { type: 'text', text: item.text }
  return item.data || item.url ? fileOf(item) : { type: item.type }
}

/** Returns the output of a tool as a result shows it. */
function outputOf({ content, is_error }: Block, was: any): object {
  const list: Block[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  if (was?.type !== 'content') return { type: is_error ? 'error-text' : 'text', value: list.map(({ text }) => text).join('') }
  const known = new Map(was.value.map((item: any) => [JSON.stringify(itemOf(item)), item]))
  return { ...was, value: list.map((block) => known.get(JSON.stringify(block)) ?? { type: 'text', text: block.text }) }
}

function fileOf({ type, data, url, mediaType, filename }: any): Block {
  const kind = (mediaType ?? type).startsWith('image') ? 'image' : 'document'
  return { type: kind, source: sourceOf(data ?? url, mediaType), title: filename }
}

function sourceOf(file: any, media_type: string | undefined): object {
  switch (file.type) {
    case 'data':
      return sourceOf(file.data, media_type)
    case 'url':
      return { type: 'url', url: String(file.url) }
    case 'reference':
      return { type: 'file', file_id: Object.values(file.reference)[0] }
    case 'text':
      return { type: 'text', media_type: 'text/plain', data: file.text }
  }
  // Older versions of the format do not state the type.
  if (file instanceof URL || /^https?:/.test(file)) return { type: 'url', url: String(file) }
  return { type: 'base64', media_type, data: typeof file === 'string' ? file : Buffer.from(file).toString('base64') }
}
