// A middleware for the agents of LangChain, which sends a window of each thread.

import { convertToOpenAITool } from '@langchain/core/utils/function_calling'
import {
  type AgentMiddleware,
  AIMessage,
  type BaseMessage,
  createMiddleware,
  HumanMessage,
  type ModelRequest,
  SystemMessage,
  ToolMessage,
} from 'langchain'
import { type AdapterOptions, Mirror, Mirrors } from './adapter.js'
import { type Item, Messages, split } from './prompt.js'

/** The types of blocks that repeat the calls of a message. */
const CALLS = ['tool_call', 'tool_use', 'functionCall']

/** A block of a message's content. LangChain and the providers have many forms of it. */
interface Block {
  type: string
  [member: string]: any
}

/**
 * Returns a middleware that shows the model a window of each thread's messages.
 *
 * The state of the agent is unchanged: only the model sees fewer messages. There is a session for each `thread_id`, and
 * one for each agent that is a tool or a part of a graph. A run without a thread gets its own session, in memory. If
 * the provider refuses a request as too long, a smaller one is sent, at most three times.
 */
export function lookbackMiddleware(options: AdapterOptions = {}): AgentMiddleware {
  const mirrors = new Mirrors<Item>()
  return createMiddleware({
    name: 'LookbackMiddleware',
    wrapModelCall: (request, handler) => {
      const thread = threadOf(request)
      // The graph gives each message a unique identifier.
      const key = thread ? `thread/${thread}` : `run/${request.messages[0]?.id}`
      const kept = thread ? options : { ...options, store: undefined }
      const mirror = mirrors.of(key, () => new Mirror(`langchain/${thread ?? 'run'}`, new Messages(), kept))
      const tools = request.tools.map((tool) => {
        const made: any = convertToOpenAITool(tool)
        // The provider's own tools are not converted.
        const { name, description, parameters } = made.function ?? {}
        return name ? { name, description, input_schema: parameters } : made
      })
      const known = new Map(request.messages.map((message) => [asPrompt(message), message]))
      const { before, system, items } = split([...known.keys()])
      if (items.length === 0) return handler(request)
      const instructions = [request.systemMessage?.text, system].filter(Boolean).join('\n\n') || undefined
      const preamble = { system: instructions, tools: tools.length > 0 ? tools : undefined }
      return mirror.call(items, preamble, async (window) => {
        const shown = [...before, ...window.flatMap(({ messages }) => messages)]
        return handler({ ...request, messages: shown.flatMap((message) => known.get(message) ?? shownAs(message)) })
      })
    },
  })
}

/** Returns the name of a request's thread. Agents within the thread share its identifier, and add their own place. */
function threadOf({ runtime, messages }: ModelRequest): string | undefined {
  const { thread_id: thread, checkpoint_ns: place } = runtime.configurable ?? {}
  if (!thread) return undefined
  // The last part of the place is the model's own. Each part ends with an identifier that differs between runs.
  const nodes = String(place ?? '').split('|').slice(0, -1).map((part) => part.split(':')[0])
  return nodes.length > 0 ? [thread, ...nodes, messages[0]?.id].join('/') : thread
}

/** Returns a message in the form of the AI SDK. It and its parts keep references to the originals. */
function asPrompt(was: BaseMessage): any {
  const calls = AIMessage.isInstance(was) ? [...(was.tool_calls ?? [])] : []
  const said = typeof was.content === 'string' ? (was.content ? [{ type: 'text', text: was.content }] : []) : was.content
  const parts = (said as Block[]).flatMap((block) => {
    if (!CALLS.includes(block.type)) return [asPart(block)]
    // The block repeats one of the calls.
    const at = calls.findIndex(({ id }) => id === block['id'])
    return at < 0 ? [] : [{ ...asCall(calls.splice(at, 1)[0]!), was: block }]
  })
  if (SystemMessage.isInstance(was)) return { was, role: 'system', content: was.text }
  if (!ToolMessage.isInstance(was)) {
    const role = AIMessage.isInstance(was) ? 'assistant' : 'user'
    return { was, role, content: [...parts, ...calls.map(asCall)] }
  }
  const kind = was.status === 'error' ? 'error-text' : 'text'
  const output = typeof was.content === 'string' ? { type: kind, value: was.content } : { type: 'content', value: parts }
  return { was, role: 'tool', content: [{ type: 'tool-result', toolCallId: was.tool_call_id, toolName: was.name, output }] }
}

function asCall({ id, name, args }: { id?: string | undefined; name: string; args: object }): object {
  return { type: 'tool-call', toolCallId: id, toolName: name, input: args }
}

function asPart(block: Block): object {
  const { type, text, thinking, signature, data } = block
  if (type === 'text') return { type, text, was: block }
  const anthropic = type === 'thinking' ? { signature } : type === 'redacted_thinking' && { redactedData: data }
  if (anthropic) return { type: 'reasoning', text: thinking ?? '', providerOptions: { anthropic }, was: block }
  const file = fileIn(block)
  // Blocks of single providers are counted as text.
  if (!file) return { type: 'text', text: JSON.stringify(block), was: block }
  const mediaType = file.mediaType ?? (type.includes('image') ? 'image/*' : 'application/octet-stream')
  return { type: 'file', data: file.data, mediaType, was: block }
}

/** Returns the location or the contents of a picture or a file. */
function fileIn(block: Block): { data: string | Uint8Array; mediaType?: string } | undefined {
  const file = block['image_url'] ?? block['file'] ?? block['input_audio'] ?? block['source'] ?? block
  const place: unknown = typeof file === 'string' ? file : (file.data ?? file.url ?? file.file_data)
  if (place instanceof Uint8Array) return { data: place, mediaType: file.mimeType }
  if (typeof place !== 'string') return undefined
  const [, given, content] = /^data:([^;,]*)[^,]*,(.*)$/s.exec(place) ?? []
  const { mimeType, mime_type, media_type } = file
  return { data: content ?? place, mediaType: given ?? mimeType ?? mime_type ?? media_type }
}

/** Returns the messages that a window changes, or that Lookback added. */
function shownAs({ was, role, content }: any): BaseMessage[] {
  const same = was && pick(was, ['id', 'name', 'additional_kwargs', 'response_metadata', 'status', 'metadata'])
  if (role === 'tool') {
    return content.map(({ toolCallId, toolName, output: { type, value } }: Block) => {
      // Leaves out the artifact of a result, which is not sent and may be large.
      return new ToolMessage({
        name: toolName,
        ...same,
        tool_call_id: toolCallId,
        content: type === 'content' ? value.map(asBlock) : value,
      })
    })
  }
  const parts: Block[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
  const calls = parts.filter(({ type }) => type === 'tool-call')
  const blocks = parts.filter((part) => !calls.includes(part) || part['was']).map(asBlock)
  const isList = typeof was?.content === 'object'
  const shown = { ...same, content: isList ? blocks : blocks.map(({ text }) => text).join('\n\n') }
  if (role === 'system') return [new SystemMessage(shown)]
  if (role === 'user') return [new HumanMessage(shown)]
  const tool_calls = calls.map(({ toolCallId, toolName, input }) => {
    return { type: 'tool_call' as const, id: toolCallId, name: toolName, args: input }
  })
  return [new AIMessage({ ...shown, tool_calls })]
}

function asBlock({ was, toolCallId, ...part }: Block): Block {
  return was && toolCallId ? { ...was, id: toolCallId } : (was ?? part)
}

function pick(from: any, names: string[]): object {
  return Object.fromEntries(names.filter((name) => from[name]).map((name) => [name, from[name]]))
}
