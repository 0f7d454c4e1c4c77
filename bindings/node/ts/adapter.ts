// The imports of a framework's module, in one place, so that a module of another package can use them too.

export { type AdapterOptions, digest, type Format, Mirror, Mirrors, type Shown, TRIES } from './mirror.js'
