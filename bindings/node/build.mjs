// Builds the npm packages into a folder: `lookback`, and the native part for this platform.
//
//   node build.mjs LIBRARY FOLDER
//
// LIBRARY is the result of `cargo build -p lookback-node`, such as target/release/liblookback_node.so.

import { execFileSync } from 'node:child_process'
import { copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const [library, folder] = process.argv.slice(2)
if (!library || !folder) throw new Error('usage: node build.mjs LIBRARY FOLDER')
const here = dirname(fileURLToPath(import.meta.url))
const root = resolve(here, '../..')
const { platform, arch } = process

/** The platforms with a native part in a release, by their npm names. */
const PLATFORMS = {
  'darwin-arm64': { os: 'darwin', cpu: 'arm64' },
  'darwin-x64': { os: 'darwin', cpu: 'x64' },
  'linux-arm64-gnu': { os: 'linux', cpu: 'arm64', libc: 'glibc' },
  'linux-x64-gnu': { os: 'linux', cpu: 'x64', libc: 'glibc' },
  'win32-x64-msvc': { os: 'win32', cpu: 'x64' },
}

const source = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'))
const workspace = /^version = "(.*)"$/m.exec(readFileSync(join(root, 'Cargo.toml'), 'utf8'))[1]
for (const place of [join(here, 'package.json'), join(here, '../wasm/package/package.json')]) {
  const { version } = JSON.parse(readFileSync(place, 'utf8'))
  if (version !== workspace) throw new Error(`${place} has version ${version}, and the workspace ${workspace}`)
}
const { devDependencies, private: _, ...published } = source
const common = join(folder, 'lookback')
rmSync(folder, { recursive: true, force: true })

/** Writes a package's description and its licenses. */
function describe(place, description) {
  mkdirSync(place, { recursive: true })
  writeFileSync(join(place, 'package.json'), `${JSON.stringify(description, null, 2)}\n`)
  for (const license of ['LICENSE-APACHE', 'LICENSE-MIT']) copyFileSync(join(root, license), join(place, license))
}

const natives = Object.keys(PLATFORMS).map((name) => [`@lookback/native-${name}`, source.version])
describe(common, { ...published, optionalDependencies: Object.fromEntries(natives) })
copyFileSync(join(here, 'README.md'), join(common, 'README.md'))
cpSync(join(here, 'bin'), join(common, 'bin'), { recursive: true })
for (const [kind, type] of [['esm', 'module'], ['cjs', 'commonjs']]) {
  const out = join(common, 'dist', kind)
  const tsc = join(here, 'node_modules/typescript/bin/tsc')
  const module = kind === 'esm' ? 'esnext' : 'commonjs'
  const options = ['--noEmit', 'false', '--rootDir', join(here, 'ts'), '--outDir', resolve(out), '--module', module]
  execFileSync(process.execPath, [tsc, '-p', here, ...options], { stdio: 'inherit' })
  writeFileSync(join(out, 'package.json'), `{ "type": "${type}" }\n`)
}
for (const name of ['native.cjs', 'native.d.cts']) copyFileSync(join(here, name), join(common, 'dist', name))

const triple = Object.keys(PLATFORMS).find((name) => name.startsWith(`${platform}-${arch}`))
if (!triple) throw new Error(`no package is known for ${platform} on ${arch}`)
const { os, cpu, libc } = PLATFORMS[triple]
const native = join(folder, `native-${triple}`)
const { version, description, license, engines } = source
const limits = { os: [os], cpu: [cpu], ...(libc && { libc: [libc] }) }
const name = `@lookback/native-${triple}`
const files = ['lookback.node', 'LICENSE-APACHE', 'LICENSE-MIT']
describe(native, { name, version, description: `${description}: the native part`, license, engines, type: 'commonjs', ...limits, main: 'lookback.node', files })
copyFileSync(library, join(native, 'lookback.node'))
