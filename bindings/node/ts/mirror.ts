// The shared part of all adapters: it mirrors a framework's list of messages in a session.

import { createHash } from 'node:crypto'

import { LookbackError } from './errors.js'
import type { PolicySource } from './policy.js'
import { Session } from './session.js'
import type { Source, Window } from './window.js'

/** How often a window is made smaller if the provider refuses it as too long. */
export const TRIES = 3

/** The most conversations that an adapter keeps open. */
const MOST_OPEN = 256

/** Returns the name of a conversation that has no other: a hash of its beginning. */
export function digest(beginning: string): string {
  return createHash('sha256').update(beginning).digest('hex').slice(0, 16)
}

/** A queue that runs asynchronous work one after another. */
export class Queue {
  #last: Promise<unknown> = Promise.resolve()

  /** Runs work after all earlier work has finished or failed. */
  do<R>(work: () => Promise<R>): Promise<R> {
    const done = this.#last.then(work)
    this.#last = done.catch(() => undefined)
    return done
  }
}

/** The options of all adapters. */
export interface AdapterOptions {
  /** The store: the path of a file, a folder that ends in `/`, or the URL of a server. By default, in memory. */
  store?: string | undefined
  /** The model whose tokens are counted. */
  model?: string | undefined
  /** The policy. */
  policy?: PolicySource | undefined
}

/** The origin of a session's element: the index of the message, and the element's index in the encoded message. */
interface Place {
  item: number
  element: number
}

/** An element of a message that a window shows, with its index in the encoded message. */
export type Shown = [element: number, shown: any]

/** The conversion between a framework's messages and those of a session. */
export interface Format<T> {
  /** The dialect of the session's messages. */
  dialect: string
  /** Returns a value that identifies a message when the framework sends it again. */
  key(item: T): string
  /** Returns a message in the session's dialect, as several elements if one is not enough. */
  encode(item: T): object[]
  /** Returns a copy of a message with only these elements. */
  revive(item: T, shown: Shown[]): T
  /** Returns a message that Lookback adds, with a stable name. */
  make(shown: any, name: string): T
}

/**
 * A framework's list of messages, and the session that keeps them.
 *
 * New messages of the list are pushed. Messages that a window leaves unchanged are returned as the framework's own
 * objects, so nothing is lost that only the framework knows.
 */
export class Mirror<T> {
  readonly #format: Format<T>
  readonly #open: () => Promise<Session>
  readonly #queue = new Queue()
  #session: Session | undefined
  /** The keys of the list's messages. `undefined` if the tables may be incomplete. */
  #keys: string[] | undefined
  #encoded: object[][] = []
  #places = new Map<number, Place[]>()

  constructor(session: string, format: Format<T>, options: AdapterOptions) {
    const { store, model, policy } = options
    this.#format = format
    this.#open = () => Session.open(session, { store, model, policy, dialect: format.dialect })
  }

  /** Takes over the framework's list, and returns the window that the model should see. */
  window(items: readonly T[], preamble: { system?: unknown; tools?: unknown } = {}): Promise<T[]> {
    return this.#after(async (session) => {
      await session.preamble(preamble)
      await this.#take(session, items)
      return this.#revived(await session.window(), items)
    })
  }

  /**
   * Returns a smaller window of the same list, because the provider refused the last one as too long.
   *
   * Throws an error with another cause again. Also throws the error again if nothing more can be dropped.
   */
  smaller(error: unknown, items: readonly T[]): Promise<T[]> {
    return this.#after(async (session) => {
      // Another run may have taken over another list since then.
      await this.#take(session, items)
      try {
        return this.#revived(await session.overflow(error), items)
      } catch (failed) {
        throw failed instanceof LookbackError ? error : failed
      }
    })
  }

  /** Calls a model with a window of the list, and with smaller ones if the provider refuses it as too long. */
  async call<R>(
    items: readonly T[],
    preamble: { system?: unknown; tools?: unknown },
    model: (window: T[]) => PromiseLike<R>,
  ): Promise<R> {
    let window = await this.window(items, preamble)
    for (let tries = 0; tries < TRIES; tries++) {
      try {
        return await model(window)
      } catch (error) {
        window = await this.smaller(error, items)
      }
    }
    return model(window)
  }

  #after<R>(work: (session: Session) => Promise<R>): Promise<R> {
    // Retries opening a store that could not be opened before.
    return this.#queue.do(async () => work((this.#session ??= await this.#open())))
  }

  async #take(session: Session, items: readonly T[]): Promise<void> {
    const keys = items.map((item) => this.#format.key(item))
    const seen = this.#keys
    // If this fails, the tables are unreliable, and the next call takes over the whole list.
    this.#keys = undefined
    if (seen && seen.length <= keys.length && seen.every((key, at) => key === keys[at])) {
      const fresh = items.slice(seen.length)
      if (fresh.length > 0) await this.#place(fresh, (elements) => session.push(elements))
    } else {
      // The list was rewritten, or the store may already have the session.
      this.#encoded = []
      this.#places.clear()
      await this.#place(items, async (elements) => (await session.sync(elements)).positions)
    }
    this.#keys = keys
  }

  /** Gives new messages to the session, and records their positions. */
  async #place(items: readonly T[], give: (elements: object[]) => Promise<number[]>): Promise<void> {
    const encoded = items.map((item) => this.#format.encode(item))
    const before = this.#encoded.length
    const places = encoded.flatMap((elements, item) => elements.map((_, element) => ({ item: before + item, element })))
    const positions = await give(encoded.flat())
    positions.forEach((position, at) => {
      const known = this.#places.get(position)
      if (known) known.push(places[at]!)
      else this.#places.set(position, [places[at]!])
    })
    this.#encoded.push(...encoded)
  }

  #revived(window: Window, items: readonly T[]): T[] {
    const revived: T[] = []
    const taken = new Set<Place>()
    // The message whose elements are being collected, and the elements that the window shows.
    let item = -1
    let shown: Shown[] = []
    let isWhole = true
    const finish = (): void => {
      if (item < 0) return
      const whole = isWhole && shown.length === this.#encoded[item]!.length
      revived.push(whole ? items[item]! : this.#format.revive(items[item]!, shown))
    }
    window.sources.forEach((source, index) => {
      const place = this.#found(source, window, index, taken)
      if (place === undefined || place.item !== item || place.element <= shown.at(-1)![0]) {
        finish()
        item = place?.item ?? -1
        shown = []
        isWhole = true
      }
      if (place === undefined) {
        revived.push(this.#format.make(window.messages[index], ['lookback', ...source.positions].join('-')))
      } else if (source.kind === 'unchanged') {
        shown.push([place.element, this.#encoded[item]![place.element]])
      } else {
        isWhole = false
        shown.push([place.element, window.messages[index]])
      }
    })
    finish()
    return revived
  }

  /** Returns the origin of a window's message. `undefined` if Lookback added it. */
  #found(source: Source, window: Window, index: number, taken: Set<Place>): Place | undefined {
    const places = source.positions.map((position) => this.#places.get(position)).find((places) => places)
    if (!places) return undefined
    const free = places.filter((place) => !taken.has(place))
    let found = free[0] ?? places[0]!
    if (source.kind === 'changed' && places.length > 1) {
      // Some of the message's elements are left out, and the others are unchanged.
      const shown = JSON.stringify(window.messages[index])
      found = free.find(({ item, element }) => JSON.stringify(this.#encoded[item]![element]) === shown) ?? found
    }
    taken.add(found)
    return found
  }
}

/** Values that are kept for open conversations: those that were used last. */
export class Conversations<V> {
  readonly #open = new Map<string, V>()

  /** Returns the value of a conversation, and creates it if necessary. */
  of(conversation: string, make: () => V): V {
    const kept = this.#open.get(conversation) ?? make()
    this.#open.delete(conversation)
    this.#open.set(conversation, kept)
    if (this.#open.size > MOST_OPEN) this.#open.delete(this.#open.keys().next().value!)
    return kept
  }
}

/** The open mirrors of an adapter. */
export class Mirrors<T> extends Conversations<Mirror<T>> {}
