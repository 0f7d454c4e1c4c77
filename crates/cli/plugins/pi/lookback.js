// Lookback for pi: shortens long results, tells the model the facts of the project, and records conversations. Whatever
// fails, pi goes on as without it. `lookback hook pi` does the work.

import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'

const PROGRAM = 'lookback'
// In milliseconds. The program itself answers sooner.
const PATIENCE = 5_000

/** Passes an event to Lookback. Returns the text of its answer, if it has one. */
function pass(event) {
  return new Promise((done) => {
    const child = spawn(PROGRAM, ['hook', 'pi'], { stdio: ['pipe', 'pipe', 'ignore'], timeout: PATIENCE })
    let answer = ''
    child.stdout.setEncoding('utf8')
    child.stdout.on('data', (piece) => (answer += piece))
    child.on('error', () => done(undefined))
    child.stdin.on('error', () => {})
    child.on('close', () => {
      try {
        done(JSON.parse(answer).text)
      } catch {
        done(undefined)
      }
    })
    child.stdin.end(JSON.stringify(event))
  })
}

export default function (pi) {
  const ask = async (ctx, event) => {
    try {
      const session = ctx.sessionManager
      const about = { session_id: session.getSessionId(), cwd: ctx.cwd, transcript_path: session.getSessionFile() }
      return await pass({ ...about, ...event })
    } catch {
      return undefined
    }
  }
  pi.on('tool_result', async (event, ctx) => {
    const part = event.content.findLast((part) => part.type === 'text')
    if (!part || event.toolName === 'recall') return
    // pi keeps the whole output of its shell in a file.
    const whole = event.details?.fullOutputPath && (await readFile(event.details.fullOutputPath, 'utf8').catch(() => undefined))
    const call = { event: 'result', tool: event.toolName, call: event.toolCallId, arguments: event.input }
    const text = await ask(ctx, { ...call, text: whole || part.text })
    if (text === undefined) return
    return { content: event.content.map((other) => (other === part ? { ...part, text } : other)) }
  })
  pi.on('before_agent_start', async (_, ctx) => {
    const content = await ask(ctx, { event: 'asks' })
    if (content !== undefined) return { message: { customType: 'lookback', content, display: false } }
  })
  pi.on('session_compact', async (_, ctx) => void (await ask(ctx, { event: 'forgot' })))
  pi.on('agent_end', async (_, ctx) => void (await ask(ctx, { event: 'pauses' })))
  pi.on('session_shutdown', async (_, ctx) => void (await ask(ctx, { event: 'pauses' })))

  // pi has no MCP servers.
  pi.registerTool({
    name: 'recall',
    label: 'Recall',
    description:
      'Read what you no longer see. Where a result was cut, it names the entry that has all of it: read it with entry. Or search the results and conversations of this project with query.',
    parameters: {
      type: 'object',
      properties: {
        entry: { type: 'integer', description: 'The entry to read.' },
        query: { type: 'string', description: 'The words to search for.' },
        session: { type: 'string', description: 'The session of the entry, if a search has named one.' },
        offset: { type: 'integer', description: 'How many characters to skip.' },
      },
    },
    async execute(_, args, __, ___, ctx) {
      const text = await ask(ctx, { event: 'recall', arguments: args })
      return { content: [{ type: 'text', text: text ?? 'Lookback did not answer.' }], details: {} }
    },
  })
}
