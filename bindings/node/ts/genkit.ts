// A middleware for Genkit, which sends a window of each conversation.

import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type GenerateMiddleware,
  generateMiddleware,
  type GenkitError,
  type MessageData,
  type Part,
  type ToolRequest,
  type ToolResponse,
  z,
} from 'genkit'
import { type AdapterOptions, type Format, Mirror, Mirrors, type Shown } from './adapter.js'

/** The configuration of a call of `generate`: its conversation. */
const CONFIG = z.object({ session: z.string().optional() })

/** The agent's session that a call of `generate` continues. Calls of its tools do not belong to it. */
const within = new AsyncLocalStorage<string | undefined>()

/**
 * Returns a middleware that shows the model a window of each conversation's messages.
 *
 * A call of `generate` names its conversation: `use: [window({ session: 'chat-1' })]`, where `window` is the result of
 * this function. The conversation of an agent has the name of the agent's session. Any other call has its own
 * conversation, in memory. The messages of the response stay whole: only the model sees fewer of them. If the provider
 * refuses a request as too long, a smaller one is sent, at most three times.
 */
export function lookback(options: AdapterOptions = {}): GenerateMiddleware<typeof CONFIG> {
  const mirrors = new Mirrors<MessageData>()
  const about = { name: 'lookback', description: 'Sends a window of the conversation.', configSchema: CONFIG }
  return generateMiddleware(about, ({ config, ai }) => {
    const agent = sessionOf(ai)
    const session = config?.session ?? (agent === within.getStore() ? undefined : agent)
    const mirror = session
      ? mirrors.of(session, () => new Mirror(`genkit/${session}`, new Messages(), options))
      : new Mirror('genkit/call', new Messages(), { ...options, store: undefined })
    return {
      generate: (envelope, context, next) => within.run(agent, () => next(envelope, context)),
      model: (request, context, next) => {
        // The instructions come first, and may differ between requests.
        const first = request.messages.findIndex(({ role }) => role !== 'system')
        const messages = first < 0 ? [] : request.messages.slice(first)
        const system = request.messages.slice(0, request.messages.length - messages.length)
        const text = system.flatMap(({ content }) => content.map(({ text }) => text ?? '')).join('\n')
        const tools = request.tools?.map(({ name, description, inputSchema: parameters }) => {
          return { type: 'function', function: { name, description, parameters } }
        })
        const preamble = { system: text ? { text } : undefined, tools: tools?.length ? tools : undefined }
        return mirror.call(messages, preamble, (window) => next({ ...request, messages: [...system, ...window] }, context))
      },
    }
  })
}

/** Returns the identifier of the agent's session. `undefined` outside an agent. */
function sessionOf(ai: { currentSession(): { sessionId: string } }): string | undefined {
  try {
    return ai.currentSession().sessionId
  } catch (error) {
    if ((error as GenkitError).status !== 'FAILED_PRECONDITION') throw error
    return undefined
  }
}

/** The messages of a conversation. The session keeps them in OpenAI's format, each result as a message. */
class Messages implements Format<MessageData> {
  readonly dialect = 'openai-chat'
  /** The calls, by their identifiers. */
  readonly #calls = new Map<string, ToolRequest>()

  key(item: MessageData): string {
    // Leaves out what may differ in the next request, such as a cache marker.
    return JSON.stringify(this.encode(item))
  }

  encode({ role, content }: MessageData): object[] {
    const ids = identified(content)
    if (role === 'tool') return content.map((part, at) => result(part, ids[at]!))
    if (role !== 'model') return [{ role, content: said(content) }]
    const tool_calls = content.flatMap(({ toolRequest }, at) => (toolRequest ? [this.#call(ids[at]!, toolRequest)] : []))
    // For counting only. Genkit sends it in its own way.
    const beside = content.filter(({ text, toolRequest }) => text === undefined && !toolRequest).map(aside).join('\n')
    const message = { role: 'assistant', content: said(content.filter(({ text }) => text !== undefined)) }
    return [{ ...message, ...(beside && { reasoning_content: beside }), ...(tool_calls.length > 0 && { tool_calls }) }]
  }

  revive(item: MessageData, shown: Shown[]): MessageData {
    if (item.role === 'tool') return { ...item, content: shown.map(([at, message]) => shownResult(item.content[at]!, message)) }
    // A window can change only the identifiers of its calls.
    const calls = [...(shown[0]![1].tool_calls ?? [])]
    const content = item.content.map((part) => {
      if (!part.toolRequest) return part
      const toolRequest = named(part.toolRequest, calls.shift().id)
      this.#call(toolRequest.ref ?? '', toolRequest)
      return { ...part, toolRequest }
    })
    return { ...item, content }
  }

  make({ role, content, tool_call_id: id }: any): MessageData {
    if (role !== 'tool') return { role: role === 'assistant' ? 'model' : role, content: [{ text: content }] }
    const { name = '', ref } = this.#calls.get(id) ?? {}
    return { role, content: [{ toolResponse: { name, ...(ref && { ref }), output: content } }] }
  }

  /** Returns a call in the session's format, and records it. */
  #call(id: string, call: ToolRequest): object {
    this.#calls.set(id, call)
    const { name, input = {} } = call
    // The format allows only objects.
    const given = typeof input === 'object' && !Array.isArray(input) ? input : { input }
    return { type: 'function', id, function: { name, arguments: JSON.stringify(given) } }
  }
}

/** Returns the identifiers of a message's calls or results. Missing ones are made from the tool and a number. */
function identified(content: Part[]): string[] {
  const counts = new Map<string, number>()
  return content.map(({ toolRequest, toolResponse }) => {
    const { name = '', ref } = toolRequest ?? toolResponse ?? {}
    if (ref !== undefined) return ref
    const count = (counts.get(name) ?? 0) + 1
    counts.set(name, count)
    return `${name}-${count}`
  })
}

/** Returns a call or a result with another identifier, if it has one at all. */
function named<T extends ToolRequest | ToolResponse>(part: T, ref: string): T {
  return part.ref === undefined ? part : { ...part, ref }
}

function said(content: Part[]): string | object[] {
  const [{ text } = {}, more] = content
  return text !== undefined && !more ? text : content.map(block)
}

function block({ metadata, ...part }: Part): object {
  const { text, media } = part
  if (text !== undefined) return { type: 'text', text }
  if (!media) return { type: 'text', text: JSON.stringify(part) }
  const { url, contentType = url } = media
  // Without a type, it is most likely a picture.
  const isPicture = /^((data:)?image\/|https?:)/.test(contentType)
  return isPicture ? { type: 'image_url', image_url: { url } } : { type: 'file', file: { file_data: url } }
}

/** Returns the text of an answer's part that is neither text nor a call. */
function aside({ metadata, ...part }: Part): string {
  return part.reasoning ?? (part.media ? (part.media.contentType ?? 'media') : JSON.stringify(part))
}

function result({ metadata, ...part }: Part, id: string): object {
  // A part that is not a result belongs to no call.
  if (!part.toolResponse) return { role: 'assistant', content: JSON.stringify(part) }
  const { output, content = [] } = part.toolResponse
  const parts = [...(output === undefined && content.length > 0 ? [] : [{ text: written(output) }]), ...(content as Part[])]
  return { role: 'tool', tool_call_id: id, content: said(parts) }
}

/** Returns the output of a tool as a text. */
function written(output: unknown): string {
  return typeof output === 'string' ? output : JSON.stringify(output ?? null)
}

/** Returns a result as a window shows it. */
function shownResult(part: Part, shown: any): Part {
  if (!part.toolResponse) return part
  const { output, content, ...response } = named(part.toolResponse, shown.tool_call_id)
  const own = new Map((content as Part[] | undefined)?.map((each) => [JSON.stringify(block(each)), each]))
  const blocks: any[] = typeof shown.content === 'string' ? [{ type: 'text', text: shown.content }] : shown.content
  const kept = blocks.flatMap((each) => own.get(JSON.stringify(each)) ?? [])
  const texts = blocks.filter((each) => !own.has(JSON.stringify(each))).map(({ text }) => text)
  const text = texts.length === 0 || texts.join('\n') === written(output) ? output : texts.join('\n')
  return { ...part, toolResponse: { ...response, output: text, ...(kept.length > 0 && { content: kept }) } }
}
