// The types of the native part.

import type native from '../native.cjs'

export type NativeMemory = native.NativeMemory
export type NativeSession = native.NativeSession
export type NativeWindow = native.NativeWindow
export type Waiting = native.Waiting
