// A policy: the limits of a window, and how to keep them.

import { called, decodeError } from './errors.js'
import { text } from './json.js'
import native from './native.js'

/**
 * A source of a policy: a `Policy`, a preset with settings such as `turns:max_turns=8`, the path of a TOML or JSON
 * file, or an object with the members of such a file.
 */
export type PolicySource = Policy | string | Record<string, unknown>

/** The limits of a window, the messages to keep, and the ways to make it smaller. By default, the default policy. */
export class Policy {
  readonly #document: string

  constructor(source?: PolicySource) {
    this.#document = called(() => native.policyDocument(policyText(source)))
  }

  /** Returns all members as an object, including defaults. */
  toJSON(): Record<string, unknown> {
    return JSON.parse(this.#document) as Record<string, unknown>
  }

  /** Returns the policy as TOML. */
  toToml(): string {
    return called(() => native.policyToml(this.#document))
  }
}

/** Returns a policy as text for the native part, if there is one. */
export function policyText(source: PolicySource | undefined): string | undefined {
  return source === undefined ? undefined : writtenPolicy(source)
}

/** Returns a policy as text for the native part. */
export function writtenPolicy(source: PolicySource): string {
  const isOne = typeof source === 'string' || (typeof source === 'object' && source !== null)
  if (!isOne) throw decodeError('policy', 'neither a policy nor text nor an object')
  return text(source, 'policy')
}
