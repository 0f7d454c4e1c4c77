// A policy: what a window may contain.

import { called, decodeError } from './errors.js'
import { text } from './json.js'
import native from './native.js'

/**
 * What says a policy: a `Policy`, a preset with settings such as `turns:max_turns=8`, the path of a TOML or JSON file, or an
 * object with the members of one.
 */
export type PolicySource = Policy | string | Record<string, unknown>

/** What a window may contain: limits, what to keep, and how to make it smaller. Without a source, it is the default. */
export class Policy {
  readonly #document: string

  constructor(source?: PolicySource) {
    this.#document = called(() => native.policyDocument(policyText(source)))
  }

  /** Returns all of its members as an object, also those that are defaults. */
  toJSON(): Record<string, unknown> {
    return JSON.parse(this.#document) as Record<string, unknown>
  }

  /** Returns it as TOML. */
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
