// Loads the native part for this platform. It is a separate package, which npm installs together with this one.
'use strict'

const { platform, arch } = process
const triple = { linux: `linux-${arch}-gnu`, darwin: `darwin-${arch}`, win32: `win32-${arch}-msvc` }[platform]

try {
  module.exports = require(`@lookback/native-${triple ?? `${platform}-${arch}`}`)
} catch (cause) {
  throw new Error(
    `lookback has no native part for ${platform} on ${arch}, or it was not installed: ` +
      'install without --omit=optional, or build it from a checkout (docs/start/packages.md)',
    { cause },
  )
}
