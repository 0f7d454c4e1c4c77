// Lookback for opencode: shortens long results, tells the model the facts of the project, and records conversations.
// Whatever fails, opencode goes on as without it. `lookback hook opencode` does the work.

import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'

const PROGRAM = 'lookback'
// In milliseconds. The program itself answers sooner.
const PATIENCE = 5_000
const LOG = join(process.env.XDG_DATA_HOME || join(homedir(), '.local', 'share'), 'opencode', 'opencode.db')

/** Passes an event to Lookback. Returns the text of its answer, if it has one. */
function ask(event) {
  return new Promise((done) => {
    const child = spawn(PROGRAM, ['hook', 'opencode'], { stdio: ['pipe', 'pipe', 'ignore'], timeout: PATIENCE })
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

export const Lookback = async ({ directory }) => {
  const about = (sessionID) => ({ session_id: sessionID, cwd: directory, transcript_path: LOG })
  return {
    'tool.execute.after': async (call, result) => {
      try {
        const event = { ...about(call.sessionID), event: 'result', tool: call.tool, call: call.callID, arguments: call.args }
        // A tool of an MCP server has a list of texts.
        const part = result.content?.find((part) => part.type === 'text')
        // opencode keeps the whole output of its own tools in a file.
        const whole = result.metadata?.outputPath && (await readFile(result.metadata.outputPath, 'utf8'))
        const text = await ask({ ...event, text: whole || part?.text || result.output })
        if (text === undefined) return
        if (part) part.text = text
        else result.output = text
      } catch {}
    },
    'chat.message': async ({ sessionID }, { message, parts }) => {
      try {
        const text = await ask({ ...about(sessionID), event: 'asks' })
        const part = { id: `prt_lookback${Date.now()}`, sessionID, messageID: message.id, type: 'text', text, synthetic: true }
        if (text !== undefined) parts.push(part)
      } catch {}
    },
    event: async ({ event: { type, properties } }) => {
      const sessionID = properties?.sessionID
      if (type === 'session.compacted') await ask({ ...about(sessionID), event: 'forgot' })
      if (type === 'session.idle') await ask({ ...about(sessionID), event: 'pauses' })
    },
  }
}
