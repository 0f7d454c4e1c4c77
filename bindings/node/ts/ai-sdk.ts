// The AI SDK: a middleware for its models, which sends a window of each conversation.

import type { LanguageModelV4, LanguageModelV4CallOptions, LanguageModelV4Middleware } from '@ai-sdk/provider'
import { type AdapterOptions, digest, Mirror, Mirrors } from './adapter.js'
import { type Item, keyOf, Messages, split } from './prompt.js'

/** The options for keeping conversations. */
export interface LookbackOptions extends AdapterOptions {
  /**
   * The name of the conversation. A conversation that begins differently, such as that of an agent that is a tool, gets
   * its own session. Without a name, conversations are identified by their first message, and are kept in memory.
   */
  session?: string | undefined
}

/** A call of a model. */
interface Call {
  params: LanguageModelV4CallOptions
  model: LanguageModelV4
}

/**
  * Returns a middleware for `wrapLanguageModel` that sends a window of each call's prompt.
  *
  * A call can name its conversation: `providerOptions: { lookback: { session: 'chat-1' } }`. If the provider refuses a
  * request as too long, a smaller one is sent, at most three times.
 */
export function lookback(options: LookbackOptions = {}): LanguageModelV4Middleware {
  const mirrors = new Mirrors<Item>()
  /** The beginning of the first conversation, which gets the plain name. */
  let first: string | undefined
  const conversation = (items: Item[], { params, model }: Call): Mirror<Item> => {
    const begins = digest(keyOf(items[0]!))
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
    const { before, system, items } = split(params.prompt)
    if (items.length === 0) return send(params)
    const tools = params.tools?.map((tool) =>
      tool.type === 'function' ? { name: tool.name, description: tool.description, input_schema: tool.inputSchema } : tool,
    )
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
