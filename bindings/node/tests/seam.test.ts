// Vectors that restate the frameworks' own tests of their seams, with our adapters.

import { MockLanguageModelV4 } from 'ai/test'
import { APICallError, type LanguageModelV4, type LanguageModelV4Middleware, type LanguageModelV4Prompt } from '@ai-sdk/provider'
import { BaseChatModel } from '@langchain/core/language_models/chat_models'
import type { ChatResult } from '@langchain/core/outputs'
import { MemorySaver } from '@langchain/langgraph'
import { Mastra } from '@mastra/core'
import { Agent as MastraAgent } from '@mastra/core/agent'
import type { MastraModelConfig } from '@mastra/core/llm'
import type { ProcessLLMRequestArgs } from '@mastra/core/processors'
import { InMemoryStore } from '@mastra/core/storage'
import { createTool } from '@mastra/core/tools'
import { Memory } from '@mastra/memory'
import {
  Agent,
  type AgentInputItem,
  type Model,
  type ModelRequest,
  Runner,
  type Session as AgentsSession,
  setTracingDisabled,
  tool as agentsTool,
  Usage,
} from '@openai/agents'
import { generateText, isStepCount, type ModelMessage, simulateStreamingMiddleware, streamText, tool, wrapLanguageModel } from 'ai'
import {
  AIMessage,
  type BaseMessage,
  createAgent,
  createMiddleware,
  HumanMessage,
  SystemMessage,
  tool as langchainTool,
  ToolMessage,
} from 'langchain'
import { lookback } from 'lookback/ai-sdk'
import { lookbackMiddleware } from 'lookback/langchain'
import { LookbackProcessor } from 'lookback/mastra'
import { LookbackModels, LookbackSession } from 'lookback/openai-agents'
import { z } from 'zod'
import { allSaid, type Said, Seam, vectors } from './seam.js'

// Without this, some frameworks report to their makers what is used.
process.env.MASTRA_TELEMETRY_DISABLED = '1'
globalThis.AI_SDK_LOG_WARNINGS = false
setTracingDisabled(true)

const LOOK = { description: 'Looks.', inputSchema: z.object({ call: z.string() }) }

/** Returns a model of the AI SDK that answers as the vector says. */
function modelOf(seam: Seam): LanguageModelV4 {
  return new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      const { text, calls } = seam.answer(allSaid(prompt))
      const asked = calls.map((call) => {
        return { type: 'tool-call' as const, toolCallId: call, toolName: 'look', input: JSON.stringify({ call }) }
      })
      const usage = {
        inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
        outputTokens: { total: 1, text: 1, reasoning: 0 },
      }
      const finishReason = { unified: calls.length > 0 ? ('tool-calls' as const) : ('stop' as const), raw: undefined }
      return { content: [...(text ? [{ type: 'text' as const, text }] : []), ...asked], finishReason, usage, warnings: [] }
    },
  })
}

function refusalOf(words: string): Error {
  return new APICallError({ message: words, url: '', requestBodyValues: {}, statusCode: 400, responseBody: words })
}

/** Returns messages of the AI SDK. */
function modelMessages(said: Said[]): ModelMessage[] {
  return said.map(({ role, text, calls, call }): ModelMessage => {
    if (role === 'system') return { role, content: text }
    if (role === 'user') return { role, content: [{ type: 'text', text }] }
    if (role === 'tool') {
      const output = { type: 'text' as const, value: text }
      return { role, content: [{ type: 'tool-result', toolCallId: call!, toolName: 'look', output }] }
    }
    const asked = calls.map((id) => ({ type: 'tool-call' as const, toolCallId: id, toolName: 'look', input: { call: id } }))
    return { role, content: [...(text ? [{ type: 'text' as const, text }] : []), ...asked] }
  })
}

/** A middleware of the AI SDK that prefixes user messages with a mark. */
const MARK: LanguageModelV4Middleware = {
  specificationVersion: 'v4',
  transformParams: async ({ params }) => ({ ...params, prompt: params.prompt.map(marked) }),
}

function marked<T extends { role: string; content: any }>(message: T): T {
  if (message.role !== 'user') return message
  return { ...message, content: message.content.map((part: any) => ({ ...part, text: `[1] ${part.text}` })) }
}

class AiSdk extends Seam {
  readonly session: [string, string] = ['ai-sdk/chat', 'anthropic']
  #messages: ModelMessage[] = []
  #instructions: string | undefined
  #model!: LanguageModelV4

  make(): void {
    const { beside } = this.options
    const middleware = [
      ...(beside === 'before' ? [MARK] : []),
      lookback({ session: 'chat', ...this.adapter }),
      ...(beside === 'behind' ? [MARK] : []),
      simulateStreamingMiddleware(),
    ]
    this.#model = wrapLanguageModel({ model: modelOf(this), middleware })
  }

  past(...said: Said[]): void {
    this.#messages = modelMessages(said)
  }

  instruct({ text }: Said): void {
    this.#instructions = text
  }

  async run(...said: Said[]): Promise<void> {
    this.#messages.push(...modelMessages(said))
    const settings = {
      model: this.#model,
      messages: this.#messages,
      instructions: this.#instructions,
      tools: { look: tool({ ...LOOK, execute: async (input) => this.look(input) }) },
      stopWhen: isStepCount(20),
      maxRetries: 0,
      prepareStep: ({ stepNumber }: { stepNumber: number }) => {
        return this.options.prepared === undefined || stepNumber > 0
          ? {}
          : { messages: [{ role: 'user' as const, content: String(this.options.prepared) }] }
      },
    }
    let failed: unknown
    const result = this.options.streamed
      ? streamText({ ...settings, onError: ({ error }) => void (failed = error) })
      : await generateText(settings)
    if ('consumeStream' in result) await result.consumeStream()
    if (failed !== undefined) throw failed
    this.#messages.push(...(await result.responseMessages))
  }

  /** Sends a prompt without the SDK's own checks. */
  async request(...said: Said[]): Promise<void> {
    await this.#model.doGenerate({ prompt: modelMessages(said) as LanguageModelV4Prompt })
  }

  refusal = refusalOf

  async kept(): Promise<Said[]> {
    return allSaid(this.#messages)
  }
}

vectors('ai-sdk', (vector) => new AiSdk(vector))

class MastraSeam extends Seam {
  readonly session: [string, string] = ['mastra/t', 'anthropic']
  readonly #memory = new Memory({ storage: new InMemoryStore(), options: { messageHistory: { maxTokens: 1_000_000 } } })
  #past: ModelMessage[] = []
  #instructions = 'Be brief.'
  #agent!: MastraAgent
  #processor!: LookbackProcessor

  make(): void {
    const model = wrapLanguageModel({ model: modelOf(this), middleware: simulateStreamingMiddleware() })
    const look = createTool({ id: 'look', ...LOOK, execute: async (input) => this.look(input) })
    this.#processor = new LookbackProcessor(this.adapter)
    const helper = new MastraAgent({
      id: 'helper',
      name: 'helper',
      instructions: () => this.#instructions,
      model: model as MastraModelConfig,
      maxRetries: 0,
      tools: { look },
      memory: this.#memory,
      inputProcessors: [this.#processor],
      errorProcessors: [this.#processor],
    })
    this.#agent = new Mastra({ agents: { helper }, logger: false }).getAgent('helper')
  }

  past(...said: Said[]): void {
    this.#past = modelMessages(said)
  }

  instruct({ text }: Said): void {
    this.#instructions = text
  }

  override answer(sent: Said[]): Said {
    // Without instructions, Mastra does nothing. The instructions that each agent has are not part of a vector.
    return super.answer(sent.filter(({ text }) => text !== 'Be brief.'))
  }

  async run(...said: Said[]): Promise<void> {
    const messages = [...this.#past.splice(0), ...modelMessages(said)]
    const options = { maxSteps: 20, memory: { thread: 't', resource: 'me' } }
    if (this.options.streamed) await (await this.#agent.stream(messages as any, options)).consumeStream()
    else await this.#agent.generate(messages as any, options)
  }

  /** Returns the processor's window of a prompt. */
  async request(...said: Said[]): Promise<Said[]> {
    const args = { prompt: modelMessages(said), state: {} } as unknown as ProcessLLMRequestArgs
    return allSaid((await this.#processor.processLLMRequest(args)).prompt)
  }

  refusal = refusalOf

  async kept(): Promise<Said[]> {
    const { messages } = await this.#memory.recall({ threadId: 't', perPage: false })
    return messages.flatMap(({ role, content: { parts } }) => {
      const steps: Said[] = []
      for (const part of parts as any[]) {
        if (part.type === 'text') steps.push({ role: role as Said['role'], text: part.text, calls: [] })
        if (part.type !== 'tool-invocation') continue
        const { toolCallId: call, result } = part.toolInvocation
        steps.push({ role: 'assistant', text: '', calls: [call] }, { role: 'tool', text: result, calls: [], call })
      }
      return steps
    })
  }
}

vectors('mastra', (vector) => new MastraSeam(vector))

/** A model of LangChain that answers as the vector says. */
class LangChainModel extends BaseChatModel {
  readonly #seam: Seam

  constructor(seam: Seam) {
    super({})
    this.#seam = seam
  }

  _llmType(): string {
    return 'seam'
  }

  override bindTools(): any {
    return this
  }

  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const { text, calls } = this.#seam.answer(langchainSaid(messages))
    const message = langchainMessage({ role: 'assistant', text, calls })
    return { generations: [{ message, text }] }
  }
}

function langchainMessage({ role, text, calls, call }: Said): BaseMessage {
  if (role === 'system') return new SystemMessage(text)
  if (role === 'user') return new HumanMessage(text)
  if (role === 'tool') return new ToolMessage({ content: text, tool_call_id: call!, name: 'look' })
  return new AIMessage({ content: text, tool_calls: calls.map((id) => ({ id, name: 'look', args: { call: id } })) })
}

function langchainSaid(messages: BaseMessage[]): Said[] {
  return messages.map((message): Said => {
    if (ToolMessage.isInstance(message)) return { role: 'tool', text: message.text, calls: [], call: message.tool_call_id }
    const role = AIMessage.isInstance(message) ? 'assistant' : SystemMessage.isInstance(message) ? 'system' : 'user'
    const calls = AIMessage.isInstance(message) ? (message.tool_calls ?? []).map(({ id }) => id!) : []
    return { role, text: message.text, calls }
  })
}

class LangChain extends Seam {
  readonly session: [string, string] = ['langchain/t', 'anthropic']
  readonly #checkpointer = new MemorySaver()
  #past: BaseMessage[] = []
  #kept: BaseMessage[] = []
  #instructions: string | undefined
  #agent!: { invoke(input: any, config: any): Promise<{ messages: BaseMessage[] }> }

  make(): void {
    const instruct = createMiddleware({
      name: 'Instruct',
      wrapModelCall: (request, handler) => handler({ ...request, systemMessage: new SystemMessage(this.#instructions ?? '') }),
    })
    // An edit of the request, like that of the framework's own middleware for context editing.
    const edit = createMiddleware({
      name: 'Edit',
      wrapModelCall: (request, handler) => {
        const last = request.messages.findLast((message) => HumanMessage.isInstance(message))
        return handler({ ...request, messages: request.messages.filter((each) => !HumanMessage.isInstance(each) || each === last) })
      },
    })
    const edits = this.options.edits ? [edit] : []
    const settings: any = {
      model: new LangChainModel(this),
      tools: [langchainTool(this.look, { name: 'look', description: 'Looks.', schema: LOOK.inputSchema })],
      middleware: [...(this.#instructions === undefined ? [] : [instruct]), ...edits, lookbackMiddleware(this.adapter)],
      checkpointer: this.#checkpointer,
    }
    this.#agent = createAgent(settings)
  }

  past(...said: Said[]): void {
    this.#past = said.map(langchainMessage)
  }

  instruct({ text }: Said): void {
    this.#instructions = text
    this.make()
  }

  async run(...said: Said[]): Promise<void> {
    const messages = [...this.#past.splice(0), ...said.map(langchainMessage)]
    const config = { configurable: { thread_id: 't' }, recursionLimit: 50 }
    this.#kept = (await this.#agent.invoke({ messages }, config)).messages
  }

  refusal(words: string): Error {
    return Object.assign(new Error(words), { status: 400 })
  }

  async kept(): Promise<Said[]> {
    return langchainSaid(this.#kept)
  }
}

vectors('langchain-js', (vector) => new LangChain(vector))

/** Returns items of OpenAI's Agents SDK. */
function items(said: Said[]): AgentInputItem[] {
  return said.flatMap(({ role, text, calls, call }): AgentInputItem[] => {
    if (role === 'tool') {
      return [{ type: 'function_call_result', name: 'look', callId: call!, status: 'completed', output: { type: 'text', text } }]
    }
    if (role !== 'assistant') return [{ role, content: text }]
    const asked = calls.map((callId): AgentInputItem => {
      return { type: 'function_call', name: 'look', callId, status: 'completed', arguments: JSON.stringify({ call: callId }) }
    })
    const words: AgentInputItem = { type: 'message', role, status: 'completed', content: [{ type: 'output_text', text }] }
    return [...(text ? [words] : []), ...asked]
  })
}

class Agents extends Seam {
  readonly session: [string, string] = ['openai-agents/chat', 'openai-responses']
  #session!: AgentsSession
  #instructions: string | undefined
  #models!: LookbackModels

  make(): void {
    this.#models = new LookbackModels('chat', this.adapter)
    this.#session = new LookbackSession('chat', { store: this.adapter.store })
  }

  async past(...said: Said[]): Promise<void> {
    await this.#session.addItems(items(said))
  }

  instruct({ text }: Said): void {
    this.#instructions = text
  }

  async run(...said: Said[]): Promise<void> {
    const answer = ({ input, systemInstructions: system }: ModelRequest): AgentInputItem[] => {
      const given = typeof input === 'string' ? [{ role: 'user', content: input }] : input
      return items([this.answer(allSaid([...(system ? [{ role: 'system', content: system }] : []), ...given]))])
    }
    const model: Model = {
      getResponse: async (request) => ({ output: answer(request) as any, usage: new Usage() }),
      async *getStreamedResponse(request) {
        const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 }
        yield { type: 'response_done', response: { id: 'r', usage, output: answer(request) as any } }
      },
    }
    const look = agentsTool({ name: 'look', description: 'Looks.', parameters: LOOK.inputSchema, execute: async (input) => this.look(input as { call: string }) })
    const agent = new Agent({ name: 'helper', instructions: this.#instructions, model: this.#models.model(model), tools: [look] })
    const { filter } = this.options
    const runner = new Runner({
      ...(filter === 'last' && { callModelInputFilter: ({ modelData }) => ({ ...modelData, input: modelData.input.slice(-1) }) }),
      ...(filter === 'add' && {
        callModelInputFilter: ({ modelData }) => ({ ...modelData, input: [...modelData.input, { role: 'user', content: 'Added.' }] }),
      }),
      ...(filter === 'merge' && { sessionInputCallback: (history, input) => [...history.slice(-1), ...input] }),
    })
    const options = { session: this.#session, maxTurns: 20, ...(this.options.conversation ? { conversationId: 'c' } : {}) }
    if (!this.options.streamed) await runner.run(agent, items(said), options)
    else await (await runner.run(agent, items(said), { ...options, stream: true })).completed
  }

  async lastTwo(): Promise<Said[]> {
    return allSaid(await this.#session.getItems(2))
  }

  async pop(): Promise<Said[]> {
    const item = await this.#session.popItem()
    return allSaid(item ? [item] : [])
  }

  async clear(): Promise<void> {
    await this.#session.clearSession()
  }

  /** Changes the items that the session has returned, and those that were added to it. */
  async spoil(...said: Said[]): Promise<void> {
    const given = items(said)
    await this.#session.addItems(given)
    for (const item of [...given, ...(await this.#session.getItems())]) (item as any).content = 'spoiled'
  }

  refusal(words: string): Error {
    return Object.assign(new Error(words), { status: 400 })
  }

  async kept(): Promise<Said[]> {
    return allSaid(await this.#session.getItems())
  }
}

vectors('openai-agents-js', (vector) => new Agents(vector))
