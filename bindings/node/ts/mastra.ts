// A processor for the agents of Mastra, which keeps a window of each thread.

import type {
  ProcessAPIErrorArgs,
  ProcessAPIErrorResult,
  ProcessInputStepArgs,
  ProcessLLMRequestArgs,
  Processor,
} from '@mastra/core/processors'
import { type AdapterOptions, type Format, Mirror, Mirrors, type Shown } from './adapter.js'

/** A message of a prompt. */
type Message = ProcessLLMRequestArgs['prompt'][number]

/** A part of a message. Its members are others in each version of the prompt's format. */
interface Part {
  type: string
  [member: string]: any
}

/** The prompt of a request, and the session that keeps its thread. */
interface Call {
  mirror: Mirror<Message>
  messages: Message[]
}

/**
 * Has the model see a window of each thread's messages.
 *
 * The agent's messages stay as they are, also in its storage: only the model sees less of them. There is a session for each
 * thread; a run without one has a session of its own, in memory. A request that the provider refuses as too long is made again
 * with less if the processor is one of the `errorProcessors`, too.
 */
export class LookbackProcessor implements Processor<'lookback'> {
  readonly id = 'lookback'
  readonly #options: AdapterOptions
  readonly #mirrors = new Mirrors<Message>()
  /** The newest call of each run, by the state that Mastra has for it. */
  readonly #calls = new WeakMap<object, Call>()
  readonly #tools = new WeakMap<object, object[]>()

  constructor(options: AdapterOptions = {}) {
    this.#options = options
  }

  /** Notes the tools, which are not in the prompt. */
  processInputStep({ tools = {}, activeTools, state }: ProcessInputStepArgs): void {
    const active = Object.entries(tools).filter(([name]) => !activeTools || activeTools.includes(name))
    this.#tools.set(state, active.map(definition))
  }

  /** Has the request send a window of the prompt. */
  async processLLMRequest({ prompt, requestContext, state }: ProcessLLMRequestArgs): Promise<{ prompt: Message[] }> {
    // The instructions stand first, with what Mastra has found in its memory, and can be others in each request.
    const first = prompt.findIndex(({ role }) => role !== 'system')
    const messages = first < 0 ? [] : prompt.slice(first)
    const system = prompt.slice(0, prompt.length - messages.length)
    const text = system.map(({ content }) => content).join('\n\n')
    const mirror = this.#calls.get(state)?.mirror ?? this.#mirror(requestContext)
    this.#calls.set(state, { mirror, messages })
    const window = await mirror.window(messages, { system: text ? { text } : undefined, tools: this.#tools.get(state) })
    return { prompt: [...system, ...window] }
  }

  /** Has the request be made again with less, if the provider refuses it as too long. */
  async processAPIError({ error, state }: ProcessAPIErrorArgs): Promise<ProcessAPIErrorResult> {
    const call = this.#calls.get(state)
    if (!call) return { retry: false }
    try {
      await call.mirror.smaller(error, call.messages)
      return { retry: true }
    } catch (failed) {
      if (failed !== error) throw failed
      return { retry: false }
    }
  }

  #mirror(context: ProcessLLMRequestArgs['requestContext']): Mirror<Message> {
    const memory = context?.get('MastraMemory') as { thread?: { id?: string } } | undefined
    const thread = (context?.get('mastra__threadId') as string | undefined) || memory?.thread?.id
    if (!thread) return new Mirror('mastra/run', new Prompt(), { ...this.#options, store: undefined })
    return this.#mirrors.of(thread, () => new Mirror(`mastra/${thread}`, new Prompt(), this.#options))
  }
}

/** The messages of prompts. The session has their texts, calls and results in OpenAI's format, each result as a message. */
class Prompt implements Format<Message> {
  readonly dialect = 'openai-chat'
  /** The tools, by the identifiers of their calls. */
  readonly #tools = new Map<string, string>()

  key(item: Message): string {
    // What it does not have, such as a cache marker, is another in the next request.
    return JSON.stringify(this.encode(item))
  }

  encode({ role, content }: Message): object[] {
    if (role === 'system') return [{ role, content }]
    const parts: Part[] = content
    if (role === 'user') return [{ role, content: said(parts) }]
    if (role === 'tool') return parts.map(result)
    const message = { role, content: said(parts.filter(({ type }) => type === 'text')) }
    const calls = parts.filter(isCall).map(call)
    for (const { id, function: { name } } of calls) this.#tools.set(id, name)
    // It is counted here, and sent as Mastra does.
    const beside = parts.filter((part) => part.type !== 'text' && !isCall(part)).map(aside).join('\n')
    return [{ ...message, ...(beside && { reasoning_content: beside }), ...(calls.length > 0 && { tool_calls: calls }) }]
  }

  revive(item: Message, shown: Shown[]): Message {
    const parts = item.content as Part[]
    if (item.role === 'tool') return { ...item, content: shown.map(([at, message]) => shownResult(parts[at]!, message)) as any }
    // Only the identifiers and the arguments of its calls can be shown in another way.
    const calls = [...(shown[0]![1].tool_calls ?? [])]
    for (const { id, function: { name } } of calls) this.#tools.set(id, name)
    const content = parts.map((part) => (isCall(part) ? shownCall(part, calls.shift()) : part))
    return { ...item, content: content as any }
  }

  make({ role, content, tool_call_id: toolCallId }: any): Message {
    if (role === 'system') return { role, content }
    if (role !== 'tool') return { role, content: [{ type: 'text', text: content }] }
    const output = { type: 'text', value: content } as const
    return { role, content: [{ type: 'tool-result', toolCallId, toolName: this.#tools.get(toolCallId) ?? '', output }] }
  }
}

/** Returns a tool as OpenAI's format has it. Mastra has made it ready for the model. */
function definition([name, tool]: [string, any]): object {
  const parameters = tool.parameters ?? tool.inputSchema
  return { type: 'function', function: { name, description: tool.description, parameters: parameters?.jsonSchema } }
}

function said(parts: Part[]): string | object[] {
  return parts.length === 1 && parts[0]!.type === 'text' ? parts[0]!['text'] : parts.map(block)
}

/** Returns a part that a person or a tool says. */
function block(part: Part): object {
  const { type, text, mediaType, filename } = part
  if (type === 'text') return { type, text }
  const url = address(part)
  if (url === undefined) return { type: 'text', text: JSON.stringify(part) }
  if (mediaType?.startsWith('image/') ?? type.startsWith('image')) return { type: 'image_url', image_url: { url } }
  return { type: 'file', file: { filename, file_data: url } }
}

/** Returns where a file is, or what it holds. Only its provider knows one that has but a name. */
function address({ data, url, mediaType }: Part): string | undefined {
  // The newest version of the format says what kind of data it is.
  const file = data?.data ?? data?.url ?? data ?? url
  if (file instanceof URL) return file.href
  if (file instanceof Uint8Array) return `data:${mediaType};base64,${Buffer.from(file).toString('base64')}`
  if (typeof file !== 'string') return undefined
  return /^(https?|data):/.test(file) ? file : `data:${mediaType};base64,${file}`
}

/** Returns what stands beside the text and the calls of an answer. */
function aside(part: Part): string {
  if (part.type === 'reasoning') return part['text']
  return part['mediaType'] ?? JSON.stringify(part)
}

/** Returns whether a part is a call that has its result in a message of its own. */
function isCall(part: Part): boolean {
  return part.type === 'tool-call' && !part['providerExecuted']
}

function call({ toolCallId, toolName, input }: Part) {
  const id: string = toolCallId
  const name: string = toolName
  return { type: 'function', id, function: { name, arguments: JSON.stringify(input ?? {}) } }
}

function shownCall(part: Part, shown: any): Part {
  return { ...part, toolCallId: shown.id, input: JSON.parse(shown.function.arguments) }
}

function result(part: Part): { role: string; content: string | object[]; tool_call_id?: string } {
  // An answer about what the provider runs belongs to no call here.
  if (part.type !== 'tool-result') return { role: 'assistant', content: JSON.stringify(part) }
  return { role: 'tool', tool_call_id: part['toolCallId'], content: returned(part['output']) }
}

function returned(output: Part): string | object[] {
  const { type, value } = output
  if (type === 'text' || type === 'error-text') return value
  return type === 'content' ? value.map(block) : JSON.stringify(value ?? output)
}

function shownResult(part: Part, { tool_call_id: toolCallId, content }: any): Part {
  if (part.type !== 'tool-result') return part
  const { type, value } = part['output']
  let output = part['output']
  if (type === 'content') {
    const own = new Map(value.map((item: Part) => [JSON.stringify(block(item)), item]))
    output = { type, value: content.map((item: object) => own.get(JSON.stringify(item)) ?? item) }
  } else if (content !== returned(output)) {
    output = { type: type.startsWith('error') ? 'error-text' : 'text', value: content }
  }
  return { ...part, toolCallId, output }
}
