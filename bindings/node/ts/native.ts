// The native part. It is loaded once, and its warnings become warnings of the process.

import native from '../native.cjs'

native.onWarning((sentence) => process.emitWarning(sentence, 'LookbackWarning'))

export default native
