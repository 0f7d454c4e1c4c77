/**
 * Decides what a language model sees of a long conversation.
 *
 * @packageDocumentation
 */

export {
  DecodeError,
  type Excess,
  FactRefused,
  HardLimitExceeded,
  Irreducible,
  LookbackError,
  type Pinned,
  PolicyError,
  StoreError,
} from './errors.js'
export {
  check,
  type Finding,
  fit,
  type ModelOptions,
  type Preset,
  presets,
  prices,
  repair,
  type Replay,
  replay,
  type Replayed,
  type TargetOptions,
} from './functions.js'
export type { Message } from './json.js'
export {
  type By,
  type Fact,
  type FactEvent,
  type FactKind,
  type FactOptions,
  Memory,
  type Reply,
  type Sheet,
  type Stated,
  type Statement,
  type Trust,
} from './memory.js'
export { Policy, type PolicySource } from './policy.js'
export {
  type Ask,
  type CompactEnd,
  type CompactStart,
  type Found,
  type Receipt,
  type Resumed,
  type Said,
  Session,
  type SessionOptions,
  type SummaryRefused,
  type Synced,
} from './session.js'
export { type Outcome, type Source, Window } from './window.js'
export { type Client, windowed, wrap, type WrapOptions } from './wrap.js'
