// The package's surface is that of the table which all packages share.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import * as lookback from 'lookback'
import { parse } from 'smol-toml'

const table: any = parse(readFileSync(process.env.LOOKBACK_SURFACE!, 'utf8'))
const types = join(dirname(createRequire(import.meta.url).resolve('lookback/package.json')), 'dist/esm')
const camel = (name: string): string => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())

/** Names that differ in JavaScript, because a word is reserved or another is usual. */
const OTHERWISE: Record<string, string> = { arguments: 'args', error: 'error', messages: 'given' }

/** Returns the parameters of a function, including the members of its options, from the type declarations. */
function parameters(file: string, name: string): string[] {
  const source = readFileSync(join(types, `${file}.d.ts`), 'utf8')
  const found = [...source.matchAll(new RegExp(`\\b${name}(?:<[^(]*>)?\\((.*?)\\): `, 'gs'))].at(-1)?.[1]
  assert.ok(found !== undefined, `${name} has no types`)
  const [, positional, options] = /^(.*?)(?:(?:options|given)\??: ((?:\w+Options|\{|ModelOptions).*))?$/s.exec(found)!
  const named = [...positional!.matchAll(/(\w+)\??: /g)].map(([, name]) => name!)
  return [...named, ...(options ? members(options, source) : [])]
}

/** Returns the members of an interface or of an inline type. */
function members(type: string, source: string): string[] {
  const all = `${source}\n${readFileSync(join(types, 'functions.d.ts'), 'utf8')}`
  const own = [...type.matchAll(/(\w+)\??: /g)].map(([, name]) => name!)
  const others = [...type.matchAll(/\b(\w+Options)\b/g)].flatMap(([, name]) => {
    const [, base, body] = new RegExp(`interface ${name} (?:extends (\\w+) )?\\{(.*?)\\n\\}`, 's').exec(all) ?? []
    const inherited = base ? members(base, source) : []
    return [...inherited, ...[...(body ?? '').matchAll(/^    (\w+)\??: /gm)].map(([, member]) => member!)]
  })
  return [...others, ...own]
}

const spelled = (names: string[]): string[] => names.map((name) => camel(OTHERWISE[name] ?? name)).sort()

for (const [name, expected] of Object.entries<string[]>(table.functions)) {
  test(`the function ${name} takes what the table says`, () => {
    assert.equal(typeof (lookback as any)[name], 'function')
    assert.deepEqual(parameters('functions', name).sort(), spelled(expected))
  })
}

for (const [name, { opened, properties, methods }] of Object.entries<any>(table.classes)) {
  test(`the class ${name} has what the table says`, () => {
    const { prototype } = (lookback as any)[name]
    const own = Object.getOwnPropertyNames(prototype).filter((member) => member !== 'constructor')
    const isGetter = (member: string): boolean => Boolean(Object.getOwnPropertyDescriptor(prototype, member)?.get)
    // Two methods exist only in this package: one for the HTML, and one for a single message.
    const known = [...Object.keys(methods).map(camel), 'html', 'message']
    assert.deepEqual(own.filter((member) => !isGetter(member) && !known.includes(member)), [])
    for (const method of Object.keys(methods).map(camel)) assert.ok(own.includes(method), method)
    const getters = own.filter(isGetter)
    for (const property of getters) assert.ok(properties.includes(property), property)
    const file = name.toLowerCase()
    if (opened) assert.deepEqual(parameters(file, 'open').sort(), spelled(opened))
    for (const [method, expected] of Object.entries<string[]>(methods)) {
      assert.deepEqual(parameters(file, camel(method)).sort(), spelled(expected), method)
    }
  })
}

test('the errors are those of the table', () => {
  for (const name of Object.keys(table.errors)) {
    const error = new (lookback as any)[name]('x')
    assert.ok(error instanceof lookback.LookbackError && error.name === name)
  }
})

test('there is nothing else', () => {
  const known = [...Object.keys(table.functions), ...Object.keys(table.classes), ...Object.keys(table.errors)]
  assert.deepEqual(Object.keys(lookback).sort(), [...known, 'Policy', 'windowed', 'wrap'].sort())
})
