// The engine of Lookback for browsers and the edge. `index.d.ts` says what the functions are for.

export class LookbackError extends Error {
  name = 'LookbackError'

  constructor(where, message) {
    super(message)
    this.where = where
  }
}

export async function load({ exact = false, source } = {}) {
  const module = await compiled(source ?? new URL(exact ? './lookback-exact.wasm' : './lookback.wasm', import.meta.url))
  const { exports } = await WebAssembly.instantiate(module)
  const call = (name, options) => answer(exports, { call: name, ...options })
  return {
    check: (request, { dialect, model, path } = {}) => call('check', { request: text(request), dialect, model, path }),
    fit: (request, options = {}) => call('fit', { request: text(request), ...chosen(options) }),
    plan: (request, options = {}) => call('plan', { request: text(request), ...chosen(options) }),
    count: (text, { model } = {}) => call('count', { text, model }),
  }
}

const chosen = ({ dialect, model, policy }) => ({ dialect, model, policy })

/** Text is JSON already. */
const text = (request) => (typeof request === 'string' ? request : JSON.stringify(request))

async function compiled(source) {
  if (source instanceof WebAssembly.Module) return source
  if (source instanceof URL && source.protocol === 'file:') {
    const { readFile } = await import('node:fs/promises')
    return WebAssembly.compile(await readFile(source))
  }
  if (source instanceof URL || typeof source === 'string') source = await fetch(source)
  if (source instanceof Response) source = await source.arrayBuffer()
  return WebAssembly.compile(source)
}

/** Writes a call into the engine's memory, and reads the answer: four bytes of length, and then UTF-8. */
function answer({ memory, allocate, call, release }, asked) {
  const bytes = new TextEncoder().encode(JSON.stringify(asked))
  const given = allocate(bytes.length)
  new Uint8Array(memory.buffer, given + 4, bytes.length).set(bytes)
  const answered = call(given)
  const length = new DataView(memory.buffer).getUint32(answered, true)
  const { ok, error } = JSON.parse(new TextDecoder().decode(new Uint8Array(memory.buffer, answered + 4, length)))
  release(answered)
  if (error) throw new LookbackError(error.where, error.message)
  return ok
}
