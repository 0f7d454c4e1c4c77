// The interface of the native part, which takes and returns JSON text. Programs use the classes in `ts/` instead.

declare namespace native {
  interface Opening {
    store?: string | undefined
    model?: string | undefined
    dialect?: string | undefined
    policy?: string | undefined
  }
  interface Model {
    model?: string | undefined
    dialect?: string | undefined
    provider?: string | undefined
    path?: string | undefined
  }
  interface Waiting {
    give(summary: string): void
    fail(why: string): void
  }
  interface NativeWindow {
    readonly tokens: number
    readonly compacted: boolean
    json(): string
    message(index: number): string | null
    sources(): Uint32Array
    over(): string
    why(): string
    html(): string
  }
  interface NativeMemory {
    remember(statement: string): Promise<string>
    facts(): Promise<string>
    search(query: string, limit: number): Promise<string>
    resolve(id: string, by: string): Promise<void>
    forget(id: string, why?: string): Promise<void>
    history(id: string): Promise<string>
    sheet(budget?: number, model?: string): Promise<string>
    tools(dialect: string): Promise<string>
    call(tool: string, args: string): Promise<string>
  }
  /** The calls of a session. Each exists twice: synchronous, and as a promise. */
  interface Calls {
    push(messages: string): number[]
    sync(history: string): string
    preamble(system?: string, tools?: string): void
    window(): NativeWindow
    answered(response: string): void
    usage(model: string, tokens: number): void
    overflow(status?: number, body?: string): NativeWindow | null
    search(query: string, limit: number): string
    history(): string
    messages(): string
    why(): string
    receipt(price: string): string
    setPolicy(policy: string): void
    resume(task: string, turns?: number): string
    memory(workspace?: string): NativeMemory
    html(): string
  }
  type NativeSession = { [K in keyof Calls as `${K}Now`]: Calls[K] } & {
    [K in keyof Calls]: (...args: Parameters<Calls[K]>) => Promise<ReturnType<Calls[K]>>
  } & { readonly dialect: string; waitForSummary(): Promise<void> }
}

declare const native: {
  openSession(
    name: string,
    opening: native.Opening,
    summarizer?: (system: string, prompt: string, budget: number, waiting: native.Waiting) => void,
    onEvent?: (event: string, told: string) => void,
  ): Promise<native.NativeSession>
  openMemory(session: string, store?: string, workspace?: string): Promise<native.NativeMemory>
  fit(request: string, model: native.Model, policy?: string): native.NativeWindow
  repair(request: string, model: native.Model): native.NativeWindow
  check(request: string, model: native.Model): string
  replay(recording: string, isFile: boolean, model: native.Model, policy: string | undefined, price: string): string
  policyDocument(text?: string): string
  policyToml(text?: string): string
  presets(): string
  prices(): string
  commandLine(args: string[]): number
  onWarning(told: (sentence: string) => void): void
}

export = native
