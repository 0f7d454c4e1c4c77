// Runs Genkit's own tests, once unchanged, and once with our middleware in each call of `generate`.
//
// A copy of this file runs in a folder where Genkit is installed, because Genkit's packages contain their tests.
// `suites.json` has the expectations: `files` contain the tests that call the middleware, `tests` is the number of
// tests in them, `reach` the number that call it, and `original` and `ours` the numbers of these that pass. A test that
// fails only with ours must be listed among the `differences` with the reason, and a listed test must fail.

import { spawn } from 'node:child_process'
import { cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = dirname(fileURLToPath(import.meta.url))
const installed = join(folder, 'node_modules')

/** Adds our middleware after the others of each call. */
function patch(file) {
  const [before, after] = ['resolvedOptions.use\n', '[...(resolvedOptions.use ?? []), ...globalThis.lookback()]\n']
  const source = readFileSync(file, 'utf8')
  if (source.includes(after)) return
  if (source.split(before).length !== 2) throw new Error(`${file} is not as it was: it has no place for the middleware`)
  writeFileSync(file, source.replace(before, after))
}

/** Arranges the sources and the tests as in Genkit's repository. */
function prepare() {
  rmSync(join(folder, 'js'), { recursive: true, force: true })
  for (const [name, place] of [['@genkit-ai/ai', 'ai'], ['@genkit-ai/core', 'core'], ['genkit', 'genkit']]) {
    for (const part of ['src', 'tests', 'package.json']) {
      cpSync(join(installed, name, part), join(folder, 'js', place, part), { recursive: true })
    }
  }
  patch(join(folder, 'js/ai/src/generate.ts'))
  for (const file of ['generate.js', 'generate.mjs']) patch(join(installed, '@genkit-ai/ai/lib', file))
}

/** Runs the tests of a suite, and returns the result of each. */
async function run({ folder: place, files }, ours) {
  const cwd = join(folder, 'js', place)
  const record = join(folder, `${place}-${ours ? 'ours' : 'original'}.jsonl`)
  writeFileSync(record, '')
  const tests = files.map((name) => `tests/${name}_test.ts`)
  const options = ['--import', 'tsx', '--import', join(folder, 'record.mjs'), '--test', '--test-concurrency=1', ...tests]
  const env = { ...process.env, LOOKBACK_RECORD: record, LOOKBACK_OURS: ours ? '1' : '' }
  // This makes it an independent run, even when it is started from a test run.
  delete env.NODE_TEST_CONTEXT
  const child = spawn(process.execPath, options, { cwd, env, stdio: 'ignore' })
  await new Promise((ended) => child.once('close', ended))
  return readFileSync(record, 'utf8').trim().split('\n').map((line) => JSON.parse(line))
}

/** Counts the results, and returns the deviations from the table. */
function compared(suite, original, ours) {
  const passed = (list) => new Set(list.filter(({ passed }) => passed).map(({ test }) => test))
  const [before, after] = [passed(original), passed(ours)]
  const reach = new Set(ours.filter(({ reached }) => reached).map(({ test }) => test))
  const reached = [...reach].filter((test) => before.has(test))
  const counts = {
    tests: new Set(original.map(({ test }) => test)).size,
    reach: reach.size,
    original: reached.length,
    ours: reached.filter((test) => after.has(test)).length,
  }
  const broken = [...before].filter((test) => !after.has(test))
  const listed = suite.differences.flatMap(({ tests }) => tests)
  const wrong = [
    ...Object.keys(counts)
      .filter((name) => suite[name] !== counts[name])
      .map((name) => `${name}: expected ${suite[name]}, found ${counts[name]}`),
    ...broken.filter((test) => !listed.includes(test)).map((test) => `it fails with ours: ${test}`),
    ...listed.filter((test) => !broken.includes(test)).map((test) => `it is listed, and does not fail: ${test}`),
  ]
  return { counts, wrong }
}

prepare()
let failed = false
for (const suite of JSON.parse(readFileSync(join(folder, 'suites.json'), 'utf8'))) {
  const { counts, wrong } = compared(suite, ...(await Promise.all([run(suite, false), run(suite, true)])))
  const { tests, reach, original, ours } = counts
  console.log(`${suite.name}: ${tests} tests, ${reach} reach the middleware; of these ${original} pass with the original, ${ours} with ours`)
  for (const line of wrong) console.log(`    ${line}`)
  failed ||= wrong.length > 0
}
process.exitCode = failed ? 1 : 0
