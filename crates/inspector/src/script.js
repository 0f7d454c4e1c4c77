// Moves through the calls of the page: what became of each row at a call is in the page, and only what differs is touched.
'use strict'

const find = (selector) => document.querySelector(selector)
const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? 'null')

const data = read('data')
const rows = [...document.querySelectorAll('#rows > .row')]
const list = find('#rows')
const slider = find('#call')
const picture = find('#picture svg')
const calls = data.calls.length
let now = Math.max(calls, 1)

for (const element of document.querySelectorAll('.script')) element.hidden = false

// What became of a row: [from which call, the number of the reason, tokens, form]. Forms are ways in which it is sent.
const states = data.rows
function stateAt(row, call) {
  const all = states[row]
  let at = all.length - 1
  while (at >= 0 && all[at][0] > call) at--
  return all[at]
}
const isSent = (state) => state !== undefined && data.reasons[state[1]][0]

// What each row shows at the moment: its state, and how many rows of its run are gone, if it is the first of one.
const current = rows.map((_, row) => stateAt(row, now))
const folds = rows.map(() => -1)
const fates = new Set(data.reasons.map((reason) => reason[1]))

function show(call) {
  now = Math.min(Math.max(call, 1), Math.max(calls, 1))
  let first = -1
  const runs = new Map()
  for (let row = 0; row < rows.length; row++) {
    const state = stateAt(row, now)
    let fold = -1
    if (state === undefined) {
      // Not there yet, and so not between others.
    } else if (isSent(state)) {
      first = -1
    } else {
      if (first < 0) first = row
      fold = first === row ? 0 : 1
      runs.set(first, (runs.get(first) ?? 0) + 1)
    }
    if (state !== current[row] || fold !== folds[row]) paint(row, state, fold)
  }
  for (const row of counted) if (!runs.has(row)) count(row, 1)
  counted.clear()
  for (const [row, gone] of runs) count(row, gone)
  mark()
  slider.value = now
  find('#at').textContent = now
  // Our own HTML, in which all contents are escaped.
  if (calls > 0) find('#told').innerHTML = data.calls[now - 1]
  const cursor = picture.querySelector('.cursor')
  if (cursor && calls > 0) {
    const left = Number(picture.dataset.left)
    cursor.setAttribute('x', left + ((1000 - left) * (now - 1)) / calls)
  }
  if (changed.checked || words.length > 0) filter()
}

function paint(row, state, fold) {
  const element = rows[row]
  const kinds = element.classList
  if (state !== current[row]) {
    kinds.remove('later', 'sent', 'gone', ...fates)
    kinds.add(state === undefined ? 'later' : isSent(state) ? 'sent' : 'gone')
    const [, fate, why] = state ? data.reasons[state[1]] : [false, '', '']
    if (fate) kinds.add(fate)
    const line = element.firstElementChild
    line.children[3].textContent = fate
    line.children[3].title = why
    if (state) line.children[4].textContent = state[2]
    element.children[1].textContent = why
    current[row] = state
    if (element.open) fill(row)
    else delete element.dataset.filled
  }
  folds[row] = fold
  kinds.toggle('fold', fold === 1 && !opened.has(row))
}

// Runs of rows that are gone are one line, until somebody looks.
const counted = new Set()
const opened = new Set()
function count(row, gone) {
  const element = rows[row]
  let button = element.querySelector(':scope > summary > .fate > button')
  if (gone < 2) return button?.remove()
  counted.add(row)
  if (!button) {
    button = document.createElement('button')
    button.type = 'button'
    button.addEventListener('click', (event) => {
      event.preventDefault()
      for (let next = row + 1; next < rows.length && folds[next] !== 0 && !isSent(current[next]); next++) {
        if (folds[next] === 1) opened.add(next), rows[next].classList.remove('fold')
      }
      button.remove()
    })
    element.firstElementChild.children[3].append(' ', button)
  }
  button.textContent = `+${gone - 1}`
  button.title = `${gone - 1} more are missing here`
  button.setAttribute('aria-label', button.title)
}

// The contents of a row are unpacked when it is opened.
const packs = [...document.querySelectorAll('script.pack')].map((element) => ({ first: Number(element.dataset.first), element }))
async function forms(row) {
  const pack = packs.findLast(({ first }) => first <= row)
  pack.rows ??= (async () => {
    const bytes = Uint8Array.from(atob(pack.element.textContent), (character) => character.charCodeAt(0))
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
    return JSON.parse(await new Response(stream).text())
  })()
  return (await pack.rows)[row - pack.first]
}
async function fill(row, whole = false) {
  const element = rows[row]
  const body = element.querySelector(':scope > .body')
  if (!body) return
  const state = current[row]
  const form = whole || !state || state[3] < 0 ? 0 : state[3]
  if (element.dataset.filled !== String(form)) {
    if (packs.length > 0) {
      const html = (await forms(row))[form]
      if (current[row] !== state) return
      body.innerHTML = html
    }
    element.dataset.filled = form
  }
  let button = element.querySelector(':scope > button')
  button?.remove()
  if (packs.length > 0 && state && state[3] > 0) {
    button = document.createElement('button')
    button.type = 'button'
    button.textContent = whole ? 'Show it as it was sent' : 'Show the whole message'
    button.addEventListener('click', () => fill(row, !whole))
    element.append(button)
  }
}
rows.forEach((element, row) => element.addEventListener('toggle', () => element.open && fill(row)))

// What is new at the call.
let marked = []
function mark() {
  for (const row of marked) rows[row].classList.remove('new')
  marked = []
  for (let row = 0; row < rows.length; row++) {
    if (current[row]?.[0] === now) {
      rows[row].classList.add('new')
      marked.push(row)
    }
  }
}

// Events are calls with a compaction, a break or a missed name: those whose description has such a line.
const events = data.calls.flatMap((html, index) => (html.includes('class="event') ? [index + 1] : []))

let wanted = 0
let waits = false
function ask(call) {
  wanted = call
  if (waits) return
  waits = true
  requestAnimationFrame(() => {
    waits = false
    show(wanted)
    history.replaceState(null, '', `#call-${now}`)
  })
}
slider.addEventListener('input', () => ask(Number(slider.value)))
find('#back').addEventListener('click', () => ask(now - 1))
find('#forth').addEventListener('click', () => ask(now + 1))
find('#event-back').addEventListener('click', () => ask(events.findLast((call) => call < now) ?? now))
find('#event-forth').addEventListener('click', () => ask(events.find((call) => call > now) ?? now))
picture.addEventListener('click', (event) => {
  const box = picture.getBoundingClientRect()
  const left = Number(picture.dataset.left)
  const x = ((event.clientX - box.left) / box.width) * 1000
  if (calls > 0 && x >= left) ask(Math.floor(((x - left) / (1000 - left)) * calls) + 1)
})
document.addEventListener('keydown', (event) => {
  if (event.target.matches('input, textarea, summary') || event.altKey || event.ctrlKey || event.metaKey) return
  if (event.key === 'ArrowLeft') ask(now - 1)
  if (event.key === 'ArrowRight') ask(now + 1)
})

// Links name rows and calls.
document.addEventListener('click', (event) => {
  const link = event.target.closest('a[href^="#"]')
  if (link) go(link.getAttribute('href'), event)
})
function go(target, event) {
  const call = /^#call-(\d+)$/.exec(target)
  const row = /^#r(\d+)$/.exec(target)
  if (call) {
    event?.preventDefault()
    ask(Number(call[1]))
    if (event) find('#call-title').scrollIntoView()
  } else if (row && rows[row[1]]) {
    event?.preventDefault()
    const element = rows[row[1]]
    element.classList.remove('fold', 'unfound', 'same')
    opened.add(Number(row[1]))
    if (!current[row[1]]) element.classList.add('shown')
    element.open = true
    element.scrollIntoView({ block: 'center' })
    element.firstElementChild.focus()
    element.classList.add('flash')
    setTimeout(() => element.classList.remove('flash', 'shown'), 1500)
  }
}

// Filters.
const changed = find('#changed')
const search = find('#find')
let words = []
let texts
find('#gone').addEventListener('change', (event) => list.classList.toggle('gone-hidden', !event.target.checked))
changed.addEventListener('change', filter)
let typed
search.addEventListener('input', () => {
  clearTimeout(typed)
  typed = setTimeout(async () => {
    words = search.value.toLowerCase().split(/\s+/).filter(Boolean)
    if (words.length > 0) texts ??= await plain()
    filter()
  }, 120)
})
/** The text of every message, for the search. */
async function plain() {
  const parser = new DOMParser()
  const text = (html) => parser.parseFromString(html, 'text/html').body.textContent.toLowerCase()
  if (packs.length === 0) return rows.map((element) => element.textContent.toLowerCase())
  return Promise.all(rows.map(async (_, row) => text((await forms(row))[0])))
}
function filter() {
  let found = 0
  for (let row = 0; row < rows.length; row++) {
    const hit = words.length === 0 || words.every((word) => texts[row].includes(word))
    found += hit && words.length > 0
    rows[row].classList.toggle('unfound', !hit)
    if (words.length > 0 && hit) rows[row].classList.remove('fold')
    else if (folds[row] === 1 && !opened.has(row)) rows[row].classList.add('fold')
    rows[row].classList.toggle('same', changed.checked && current[row]?.[0] !== now)
  }
  find('#found').textContent = words.length > 0 ? `${found} of ${rows.length} messages` : ''
}

// The exact request: the messages of the call, byte for byte.
find('#copy')?.addEventListener('click', async () => {
  const requests = document.getElementById('requests').textContent
  const told = find('#found')
  try {
    await navigator.clipboard.writeText(request(requests))
    told.textContent = `the request of call ${now} is copied`
  } catch {
    told.textContent = 'the browser does not allow it; open the page from a server or another browser'
  }
})
function request(text) {
  const { messages, calls: all } = JSON.parse(text)
  let sent = []
  for (const [same, more] of all.slice(0, now)) sent = [...sent.slice(0, same), ...more]
  const [, system, tools] = data.preambles.findLast(([call]) => call <= now) ?? []
  // Texts of JSON, which are put together and not written anew.
  const members = [system && `"system":${system}`, tools && `"tools":${tools}`]
  const list = `"messages":[${sent.map((number) => messages[number]).join(',')}]`
  return `{${[...members.filter(Boolean), list].join(',')}}`
}

const count0 = () => {
  let first = -1
  const runs = new Map()
  rows.forEach((element, row) => {
    if (isSent(current[row])) first = -1
    else if (current[row]) {
      if (first < 0) first = row
      folds[row] = first === row ? 0 : 1
      runs.set(first, (runs.get(first) ?? 0) + 1)
    }
  })
  for (const [row, gone] of runs) count(row, gone)
  mark()
}
count0()
if (location.hash) go(location.hash)
