// Starts a server that stands in for the providers: it enforces their rules, counts tokens, and follows a script.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** The server's record of its requests. */
export interface Report {
  /** The model calls that were answered. */
  answered: number
  /** The rules that requests broke, with the place. */
  refused: string[]
  /** The requests that were too long. */
  too_long: number
  /** The tool calls that the model made, by their identifiers. */
  called: string[]
  /** The tool results that arrived, by the identifiers of their calls. */
  results: string[]
  /** The tokens of the requests, and how many of them were cached. */
  input: number
  cached: number
  requests: number
}

/** A running server. */
export interface StandIn {
  /** Its address, such as `http://127.0.0.1:40123`. */
  base: string
  report(): Promise<Report>
  stop(): Promise<void>
}

/**
 * Starts the server on a free port. Its options are those of the program, such as `'--window', '12000'`.
 *
 * The environment variable `LOOKBACK_STAND_IN` is the path of the program.
 */
export async function standIn(...options: string[]): Promise<StandIn> {
  const program = process.env.LOOKBACK_STAND_IN
  if (!program) throw new Error('LOOKBACK_STAND_IN has to be the path of the stand-in')
  const child = spawn(program, options, { stdio: ['ignore', 'ignore', 'pipe'] })
  const kill = (): void => void child.kill()
  process.once('exit', kill)
  const lines: string[] = []
  const base = await new Promise<string>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', () => reject(new Error(`the stand-in has ended: ${lines.join('\n')}`)))
    // Reads on after the first line, so that the server never blocks on a full pipe.
    createInterface({ input: child.stderr }).on('line', (line) => {
      const address = /^listening on (http:\S+)$/.exec(line)?.[1]
      if (address) resolve(address)
      else lines.push(line)
    })
  })
  return {
    base,
    report: async () => (await fetch(`${base}/stand-in/report`)).json() as Promise<Report>,
    async stop() {
      process.off('exit', kill)
      const ended = child.exitCode ?? child.signalCode ?? once(child, 'exit')
      kill()
      await ended
    },
  }
}
