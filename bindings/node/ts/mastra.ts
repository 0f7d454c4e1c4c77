// A processor for the agents of Mastra, which sends a window of each thread.

import type {
  ProcessAPIErrorArgs,
  ProcessAPIErrorResult,
  ProcessInputStepArgs,
  ProcessLLMRequestArgs,
  Processor,
} from '@mastra/core/processors'
import { type AdapterOptions, Mirror, Mirrors } from './adapter.js'
import { type Item, Messages, split } from './prompt.js'

/** The prompt of a model call. Its format is the AI SDK's, in the version of the model. */
type Prompt = ProcessLLMRequestArgs['prompt']

/** The newest call of a run, and the mirror of its thread. */
interface Call {
  mirror: Mirror<Item>
  items: Item[]
}

/**
 * Shows the model a window of each thread's messages.
 *
 * The agent's messages are unchanged, also in its storage: only the model sees fewer of them. There is a session for
 * each thread. A run without a thread gets its own session, in memory. If the provider refuses a request as too long,
 * it is sent again with a smaller window, provided that the processor is also one of the `errorProcessors`.
 */
export class LookbackProcessor implements Processor<'lookback'> {
  readonly id = 'lookback'
  readonly #options: AdapterOptions
  readonly #mirrors = new Mirrors<Item>()
  /** The newest call and the tools of each run, by Mastra's state of the run. */
  readonly #calls = new WeakMap<object, Call>()
  readonly #tools = new WeakMap<object, object[]>()

  constructor(options: AdapterOptions = {}) {
    this.#options = options
  }

  /** Records the tools, which are not in the prompt. */
  processInputStep({ tools = {}, activeTools, state }: ProcessInputStepArgs): void {
    const active = Object.entries(tools).filter(([name]) => !activeTools || activeTools.includes(name))
    this.#tools.set(state, active.map(definition))
  }

  /** Replaces the prompt of the request by a window. */
  async processLLMRequest({ prompt, requestContext, state }: ProcessLLMRequestArgs): Promise<{ prompt: Prompt }> {
    // Messages from Mastra's memory come first, too.
    const { before, system, items } = split(prompt as any)
    if (items.length === 0) return { prompt }
    const mirror = this.#calls.get(state)?.mirror ?? this.#mirror(requestContext)
    this.#calls.set(state, { mirror, items })
    const window = await mirror.window(items, { system, tools: this.#tools.get(state) })
    return { prompt: [...before, ...window.flatMap(({ messages }) => messages)] as Prompt }
  }

  /** Sends the request again with a smaller window, if the provider refuses it as too long. */
  async processAPIError({ error, state }: ProcessAPIErrorArgs): Promise<ProcessAPIErrorResult> {
    const call = this.#calls.get(state)
    if (!call) return { retry: false }
    try {
      await call.mirror.smaller(error, call.items)
      return { retry: true }
    } catch (failed) {
      if (failed !== error) throw failed
      return { retry: false }
    }
  }

  #mirror(context: ProcessLLMRequestArgs['requestContext']): Mirror<Item> {
    const memory = context?.get('MastraMemory') as { thread?: { id?: string } } | undefined
    const thread = (context?.get('mastra__threadId') as string | undefined) || memory?.thread?.id
    if (!thread) return new Mirror('mastra/run', new Messages(), { ...this.#options, store: undefined })
    return this.#mirrors.of(thread, () => new Mirror(`mastra/${thread}`, new Messages(), this.#options))
  }
}

/** Returns a tool in the session's format. Mastra has already prepared it for the model. */
function definition([name, tool]: [string, any]): object {
  return { name, description: tool.description, input_schema: (tool.parameters ?? tool.inputSchema)?.jsonSchema }
}
