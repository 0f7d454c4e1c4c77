// The native part: it is loaded once, and what it warns of becomes warnings of the process.

import native from '../native.cjs'

native.onWarning((sentence) => process.emitWarning(sentence, 'LookbackWarning'))

export default native
