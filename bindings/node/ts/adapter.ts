// What a module for a framework imports: one place, so that a module of another package can do the same.

export { type AdapterOptions, digest, type Format, Mirror, Mirrors, type Shown, TRIES } from './mirror.js'
