// A middleware for the agents of LangChain, which keeps a window of each thread.

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
import { type AdapterOptions, type Format, Mirror, Mirrors, type Shown } from './adapter.js'

/** A block of a message's content. LangChain and the providers have many forms of it. */
interface Block {
  type: string
  [member: string]: any
}

/**
 * Returns a middleware that has the model see a window of each thread's messages.
 *
 * The state of the agent stays as it is: only the model sees less of it. There is a session for each `thread_id`, and one for
 * each agent that is a tool or a part of a graph; a run without a thread has a session of its own, in memory. If the provider
 * refuses a request as too long, a smaller one is sent, at most three times.
 */
export function lookbackMiddleware(options: AdapterOptions = {}): AgentMiddleware {
  const mirrors = new Mirrors<BaseMessage>()
  return createMiddleware({
    name: 'LookbackMiddleware',
    wrapModelCall: (request, handler) => {
      const thread = threadOf(request)
      // The graph gives each message an identifier of its own.
      const key = thread ? `thread/${thread}` : `run/${request.messages[0]?.id}`
      const kept = thread ? options : { ...options, store: undefined }
      const mirror = mirrors.of(key, () => new Mirror(`langchain/${thread ?? 'run'}`, new Messages(), kept))
      const system = request.systemMessage?.text
      const tools = request.tools.map((tool) => convertToOpenAITool(tool))
      const preamble = { system: system ? { text: system } : undefined, tools: tools.length > 0 ? tools : undefined }
      return mirror.call(request.messages, preamble, async (messages) => handler({ ...request, messages }))
    },
  })
}

/** Returns the name of the thread of a request. What runs in it has its identifier, too, and a place of its own. */
function threadOf({ runtime, messages }: ModelRequest): string | undefined {
  const { thread_id: thread, checkpoint_ns: place } = runtime.configurable ?? {}
  if (!thread) return undefined
  // The last part of the place is the model's own. A part ends with an identifier that is another in each run.
  const nodes = String(place ?? '').split('|').slice(0, -1).map((part) => part.split(':')[0])
  return nodes.length > 0 ? [thread, ...nodes, messages[0]?.id].join('/') : thread
}

/** The messages of a thread. The session has their texts, calls and results in OpenAI's format. */
class Messages implements Format<BaseMessage> {
  readonly dialect = 'openai-chat'

  key(item: BaseMessage): string {
    // A message can be streamed into, and replaced by one with its identifier.
    return JSON.stringify(this.encode(item))
  }

  encode(item: BaseMessage): object[] {
    const content = said(item)
    if (ToolMessage.isInstance(item)) return [{ role: 'tool', tool_call_id: item.tool_call_id, content }]
    if (!AIMessage.isInstance(item)) return [{ role: SystemMessage.isInstance(item) ? 'system' : 'user', content }]
    const tool_calls = (item.tool_calls ?? []).map(({ id, name, args }) => {
      return { type: 'function', id, function: { name, arguments: JSON.stringify(args) } }
    })
    return [{ role: 'assistant', content, ...(tool_calls.length > 0 && { tool_calls }) }]
  }

  revive(item: BaseMessage, all: Shown[]): BaseMessage {
    const shown = all[0]![1]
    const { id, name, content, additional_kwargs, response_metadata } = item
    const same = { ...(id && { id }), ...(name && { name }), additional_kwargs, response_metadata }
    if (!ToolMessage.isInstance(item)) {
      // Only the identifiers of its calls can be shown in another way.
      return new AIMessage({ ...same, content, tool_calls: calls(shown) })
    }
    const { status, metadata } = item
    // What is not sent of a result, its artifact, may be large.
    return new ToolMessage({
      ...same,
      ...(status && { status }),
      ...(metadata && { metadata }),
      tool_call_id: shown.tool_call_id,
      content: shownContent(content, shown.content),
    })
  }

  make(shown: any, name: string): BaseMessage {
    const { role, tool_call_id } = shown
    const same = { id: name, content: shown.content ?? '' }
    if (role === 'tool') return new ToolMessage({ ...same, tool_call_id })
    if (role === 'assistant') return new AIMessage({ ...same, tool_calls: calls(shown) })
    return role === 'system' ? new SystemMessage(same) : new HumanMessage(same)
  }
}

/** Returns the content of a message, with what only some providers have as text, so that it is counted. */
function said({ content }: BaseMessage): string | object[] {
  if (typeof content === 'string') return content
  // These are its calls once more.
  return (content as Block[]).filter(({ type }) => !['tool_call', 'tool_use', 'functionCall'].includes(type)).map(block)
}

function block(block: Block): object {
  const { type, text } = block
  if (type === 'text') return { type, text }
  const url = address(block)
  if (url === undefined) return { type: 'text', text: JSON.stringify(block) }
  return type.includes('image') ? { type: 'image_url', image_url: { url } } : { type: 'file', file: { file_data: url } }
}

/** Returns where a picture or a file is, or what it holds. */
function address(block: Block): string | undefined {
  const file = block['image_url'] ?? block['file'] ?? block['input_audio'] ?? block['source'] ?? block
  if (typeof file === 'string') return file
  const { data, mimeType, mime_type, media_type, format } = file
  if (data === undefined) return file.url ?? file.file_data
  const base64 = typeof data === 'string' ? data : Buffer.from(data).toString('base64')
  return `data:${mimeType ?? mime_type ?? media_type ?? format};base64,${base64}`
}

/** Returns the content that a window shows of a result. What it has unchanged is the result's own. */
function shownContent(content: BaseMessage['content'], shown: string | object[]): any {
  if (typeof shown === 'string' || typeof content === 'string') return shown
  const own = new Map((content as Block[]).map((each) => [JSON.stringify(block(each)), each]))
  return shown.map((each) => own.get(JSON.stringify(each)) ?? each)
}

function calls(shown: any): { type: 'tool_call'; id: string; name: string; args: Record<string, any> }[] {
  const all: any[] = shown.tool_calls ?? []
  return all.map(({ id, function: { name, arguments: args } }) => ({ type: 'tool_call', id, name, args: JSON.parse(args) }))
}
