// What all adapters for frameworks share: a framework's list of messages, and the session that keeps them.

import { createHash } from 'node:crypto'

import { LookbackError } from './errors.js'
import type { PolicySource } from './policy.js'
import { Session } from './session.js'
import type { Source, Window } from './window.js'

/** How often a window is made smaller because the provider refuses it as too long. */
export const TRIES = 3

/** The most conversations that are kept open. */
const MOST_OPEN = 256

/** What a conversation that begins so is named by, if nothing else names it. */
export function digest(beginning: string): string {
  return createHash('sha256').update(beginning).digest('hex').slice(0, 16)
}

/** Work in several steps that must not mix with that of others: it is done one after another. */
export class Queue {
  #last: Promise<unknown> = Promise.resolve()

  /** Does this after all that came before, also if that has failed. */
  do<R>(work: () => Promise<R>): Promise<R> {
    const done = this.#last.then(work)
    this.#last = done.catch(() => undefined)
    return done
  }
}

/** What every adapter can be told. */
export interface AdapterOptions {
  /** Where sessions are kept: the path of a file, a folder that ends in `/`, or the URL of a server. Without it, in memory. */
  store?: string | undefined
  /** The model, whose tokens are counted. */
  model?: string | undefined
  /** The policy. Without it, the default. */
  policy?: PolicySource | undefined
}

/** An element of the session: which message it comes from, and which of the elements that this was encoded as. */
interface Place {
  item: number
  element: number
}

/** An element of a message that a window shows: its place in what the message was encoded as, and the element. */
export type Shown = [element: number, shown: any]

/** How a framework's messages become those of a session, and back. */
export interface Format<T> {
  /** The format of the session's messages. */
  dialect: string
  /** Returns what a message is recognized by when the framework has it again. */
  key(item: T): string
  /** Returns a message in the format of the session: several elements if the framework has in one what the format has not. */
  encode(item: T): object[]
  /** Returns a copy of a message that shows these elements of it instead of all. */
  revive(item: T, shown: Shown[]): T
  /** Returns a message of Lookback's own, with a name that it always has. */
  make(shown: any, name: string): T
}

/**
 * A framework's list of messages, and the session that keeps them.
 *
 * What is new in the list is pushed. What a window has unchanged comes back as the framework's own objects, so nothing is lost
 * that only the framework knows.
 */
export class Mirror<T> {
  readonly #format: Format<T>
  readonly #open: () => Promise<Session>
  readonly #queue = new Queue()
  #session: Session | undefined
  /** What the messages of the list are recognized by, if all of them are in the tables. */
  #keys: string[] | undefined
  #encoded: object[][] = []
  #places = new Map<number, Place[]>()

  constructor(session: string, format: Format<T>, options: AdapterOptions) {
    const { store, model, policy } = options
    this.#format = format
    this.#open = () => Session.open(session, { store, model, policy, dialect: format.dialect })
  }

  /** Takes over the framework's list, and returns what the model is to see of it. */
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
   * An error that says something else is thrown again, and so is one after which nothing is left that may go.
   */
  smaller(error: unknown, items: readonly T[]): Promise<T[]> {
    return this.#after(async (session) => {
      // Another run may have taken over another list meanwhile.
      await this.#take(session, items)
      try {
        return this.#revived(await session.overflow(error), items)
      } catch (failed) {
        throw failed instanceof LookbackError ? error : failed
      }
    })
  }

  /** Calls a model with a window of the list, and with smaller ones if it is refused as too long. */
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
    // A store that could not be opened may be there the next time.
    return this.#queue.do(async () => work((this.#session ??= await this.#open())))
  }

  async #take(session: Session, items: readonly T[]): Promise<void> {
    const keys = items.map((item) => this.#format.key(item))
    const seen = this.#keys
    // If this fails, nothing is known of the tables and the session, and the whole list is taken over the next time.
    this.#keys = undefined
    if (seen && seen.length <= keys.length && seen.every((key, at) => key === keys[at])) {
      const fresh = items.slice(seen.length)
      if (fresh.length > 0) await this.#place(fresh, (elements) => session.push(elements))
    } else {
      // The list was rewritten, or the store may have the session already.
      this.#encoded = []
      this.#places.clear()
      await this.#place(items, async (elements) => (await session.sync(elements)).positions)
    }
    this.#keys = keys
  }

  /** Gives new messages to the session, and notes where it has put them. */
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
    // The message whose elements are being collected, and those that the window shows of it.
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

  /** Returns where a message of a window comes from: nowhere if it is Lookback's own. */
  #found(source: Source, window: Window, index: number, taken: Set<Place>): Place | undefined {
    const places = source.positions.map((position) => this.#places.get(position)).find((places) => places)
    if (!places) return undefined
    const free = places.filter((place) => !taken.has(place))
    let found = free[0] ?? places[0]!
    if (source.kind === 'changed' && places.length > 1) {
      // Of several elements that are one message, some are left out, and the others are as they were.
      const shown = JSON.stringify(window.messages[index])
      found = free.find(({ item, element }) => JSON.stringify(this.#encoded[item]![element]) === shown) ?? found
    }
    taken.add(found)
    return found
  }
}

/** What is kept of each conversation while it is open: of those that were used last. */
export class Conversations<V> {
  readonly #open = new Map<string, V>()

  /** Returns what is kept of a conversation, and makes it if there is nothing. */
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
