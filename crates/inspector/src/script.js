// Moves through the calls of a page. The page contains each row's states, so only rows that differ are updated.
'use strict'

const find = (selector) => document.querySelector(selector)
const data = JSON.parse(find('#data').textContent)
const list = find('#rows')
// The elements of the rows. Those in `noscript` elements are text until `wake` inserts them.
const rows = []
const slider = find('#call')
const picture = find('#picture svg')
const calls = data.calls.length
const last = Math.max(calls, 1)
const digits = new Intl.NumberFormat('en-US')
// A served page gets contents from its server.
const served = find('#served')
async function ask(what) {
  const { name, edition } = served.dataset
  const response = await fetch(`${what}&name=${encodeURIComponent(name)}&edition=${edition}`)
  if (!response.ok) throw new Error((await response.text()).trim())
  return response
}
// Browsers restore the position of the slider, but not what the page showed there.
let now = Number(slider.defaultValue)

// The state of a row: [first call, index of the reason, tokens, index of the form].
function stateAt(row, call) {
  const all = data.rows[row]
  let at = all.length - 1
  while (at >= 0 && all[at][0] > call) at--
  return all[at]
}
const isSent = (state) => data.reasons[state[1]][0]
const fateOf = (state) => data.reasons[state[1]][1]
const whyOf = (state) => data.reasons[state[1]][2]

// What each row shows now: its state, whether it is folded into its run, and whether the state is new at this call.
const current = data.rows.map((_, row) => stateAt(row, now))
const folded = data.rows.map(() => false)
const fresh = data.rows.map(() => false)
const fates = new Set(['sent', 'gone', 'later', ...data.reasons.map((reason) => reason[1])])

function show(call) {
  now = Math.min(Math.max(call, 1), last)
  for (const element of shown) element.classList.remove('shown')
  shown.clear()
  for (let row = 0; row < rows.length; row++) {
    const state = stateAt(row, now)
    if (state !== current[row]) paint(row, state)
    const isNew = state !== undefined && state[0] === now
    if (isNew !== fresh[row]) {
      fresh[row] = isNew
      rows[row].classList.toggle('new', isNew)
    }
  }
  fold()
  slider.value = now
  slider.setAttribute('aria-valuetext', `call ${now} of ${last}`)
  find('#at').textContent = now
  // Our own HTML, in which all contents are escaped.
  if (calls > 0) find('#told').innerHTML = data.calls[now - 1]
  const cursor = picture.querySelector('.cursor')
  const left = Number(picture.dataset.left)
  if (calls > 0) cursor?.setAttribute('x', left + ((1000 - left) * (now - 1)) / calls)
  if (words.length > 0) tell()
  remember()
}

// The facts as they were at the call.
const facts = [...document.querySelectorAll('#facts tbody tr')]
function remember() {
  const isGone = ({ dataset: { from, until } }) => Number(from) > now || Number(until ?? Infinity) <= now
  for (const fact of facts) fact.classList.toggle('gone', isGone(fact))
  const known = facts.filter((fact) => !isGone(fact)).length
  if (facts.length > 0) find('#known').textContent = `${known} of ${facts.length} were known at call ${now}.`
}

function paint(row, state) {
  const element = rows[row]
  const [line, why] = element.children
  const fate = state ? fateOf(state) : 'later'
  const kind = state ? (isSent(state) ? 'sent' : 'gone') : 'later'
  element.className = [...element.classList].filter((name) => !fates.has(name)).join(' ') + ` ${kind} ${fate}`
  line.children[3].textContent = fate
  if (state) line.children[4].textContent = digits.format(state[2])
  why.textContent = state ? whyOf(state) : `not there yet: it comes at call ${data.rows[row][0]?.[0]}`
  current[row] = state
  if (element.open) fill(row)
  else delete element.dataset.filled
}

// Shows the reason as a tooltip, so that the row need not be opened.
list.addEventListener('pointerover', (event) => {
  if (event.target.matches('.fate')) event.target.title = event.target.closest('.row').children[1].textContent
})

// Consecutive rows that are not sent are folded into one line, which a click opens.
const bars = new Map()
const opened = new Set()
function fold() {
  const runs = new Map()
  let run = []
  const end = () => {
    if (run.length > 1) runs.set(run[0], run)
    const isFolded = run.length > 1 && !opened.has(run[0])
    for (const row of run) setFolded(row, isFolded)
    run = []
  }
  for (let row = 0; row < rows.length; row++) {
    const state = current[row]
    // Rows that arrive later do not end a run.
    if (state === undefined) setFolded(row, false)
    else if (!isSent(state)) run.push(row)
    else {
      end()
      setFolded(row, false)
    }
  }
  end()
  for (const [row, bar] of bars) {
    if (!runs.has(row)) {
      bar.remove()
      bars.delete(row)
    }
  }
  for (const [row, run] of runs) {
    if (!bars.has(row)) bars.set(row, newBar(row))
    const bar = bars.get(row)
    const text = describe(run)
    if (bar.textContent !== text) bar.textContent = text
    bar.setAttribute('aria-expanded', opened.has(row))
  }
}
function setFolded(row, is) {
  if (is === folded[row]) return
  folded[row] = is
  rows[row].classList.toggle('fold', is)
}
function newBar(row) {
  const bar = newButton('', () => {
    opened.delete(row) || opened.add(row)
    fold()
  })
  bar.className = 'run'
  rows[row].before(bar)
  return bar
}
function newButton(text, onClick) {
  const button = document.createElement('button')
  button.type = 'button'
  button.textContent = text
  button.addEventListener('click', onClick)
  return button
}
/** Describes what a run leaves out, and why if there is only one reason. */
function describe(run) {
  const whys = new Set()
  const counts = new Map()
  let tokens = 0
  for (const row of run) {
    const state = current[row]
    whys.add(state[1])
    counts.set(fateOf(state), (counts.get(fateOf(state)) ?? 0) + 1)
    tokens += state[2]
  }
  const [one] = whys.size === 1 ? [whyOf(current[run[0]])] : []
  const many = [...counts].map(([fate, count]) => `${digits.format(count)} ${fate}`).join(', ')
  return `${digits.format(run.length)} messages are missing here, ${digits.format(tokens)} tokens: ${one ?? many}`
}

// Packed contents, which are unpacked when a row is opened.
const packs = [...document.querySelectorAll('script.pack')].map((element) => ({ first: Number(element.dataset.first), element }))
// Whether the page has contents to show.
const hasContents = Boolean(served) || packs.length > 0
// A served page contains only the contents of short sessions. Otherwise it asks the server.
const isAsked = served && packs.length === 0
let everything
async function forms(row) {
  if (isAsked) return everything?.[row] ?? (await ask(`part?row=${row}`)).json()
  const pack = packs.findLast(({ first }) => first <= row)
  pack.rows ??= unpack(pack.element)
  return (await pack.rows)[row - pack.first]
}
async function unpack(element) {
  const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0))
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
  return JSON.parse(await new Response(stream).text())
}
// The rows that show the whole message instead of the form that was sent.
const wholes = new Set()
async function fill(row) {
  const element = rows[row]
  if (!element) return
  if (!hasContents) return
  const body = element.querySelector(':scope > .body') ?? element.appendChild(document.createElement('div'))
  body.className = 'body'
  const state = current[row]
  const isCut = state && state[3] > 0
  const isWhole = wholes.has(row)
  const form = isCut && !isWhole ? state[3] : 0
  if (element.dataset.filled === `${form} ${isCut}`) return
  let html
  try {
    html = (await forms(row))[form]
  } catch (error) {
    if (current[row] !== state || wholes.has(row) !== isWhole) return
    delete element.dataset.filled
    body.textContent = error.message
    return
  }
  // Another call may be shown by now.
  if (current[row] !== state || wholes.has(row) !== isWhole) return
  body.innerHTML = html
  element.dataset.filled = `${form} ${isCut}`
  body.querySelectorAll('pre').forEach(clip)
  if (!isCut) return
  const text = isWhole ? 'Show it as it was sent' : 'Show the whole message'
  body.prepend(newButton(text, async () => {
    wholes.delete(row) || wholes.add(row)
    await fill(row)
    body.firstElementChild?.focus()
  }))
}
/** Cuts long text, which browsers lay out slowly. Makes scrollable text reachable with the keyboard. */
function clip(block) {
  const text = block.textContent
  if (text.length > 1_000) block.tabIndex = 0
  if (text.length <= 40_000) return
  block.textContent = `${text.slice(0, 40_000)}…`
  block.after(newButton(`Show all ${digits.format(text.length)} characters`, (event) => {
    block.textContent = text
    event.target.remove()
    block.focus()
  }))
}
const numberOf = (element) => Number(element.id.slice(1))
list.addEventListener('toggle', ({ target }) => target.matches('.row') && target.open && fill(numberOf(target)), true)

// Navigation. Events are calls with a compaction, a prefix break, a cold cache or missed names.
const { events } = data
let wanted = now
let waits = true
let noted
function move(call) {
  wanted = call
  if (waits) return
  waits = true
  requestAnimationFrame(() => {
    waits = false
    show(wanted)
    // Browsers limit how often a page may change its address.
    clearTimeout(noted)
    noted = setTimeout(() => history.replaceState(null, '', `#call-${now}`), 200)
  })
}
// Steps start at the requested call, which may not be shown yet.
const from = () => (waits ? Math.min(Math.max(wanted, 1), last) : now)
slider.addEventListener('input', () => move(Number(slider.value)))
find('#back').addEventListener('click', () => move(from() - 1))
find('#forth').addEventListener('click', () => move(from() + 1))
find('#event-back').addEventListener('click', () => move(events.findLast((call) => call < from()) ?? from()))
find('#event-forth').addEventListener('click', () => move(events.find((call) => call > from()) ?? from()))
function point(event) {
  const box = picture.getBoundingClientRect()
  const left = Number(picture.dataset.left)
  const x = ((event.clientX - box.left) / box.width) * 1000
  if (calls > 0 && x >= left) move(Math.floor(((x - left) / (1000 - left)) * calls) + 1)
}
picture.addEventListener('click', point)
picture.addEventListener('pointermove', (event) => event.pointerType === 'mouse' && event.buttons === 1 && point(event))
document.addEventListener('keydown', (event) => {
  const isOther = event.altKey || event.ctrlKey || event.metaKey || event.shiftKey
  // Text fields and elements that scroll sideways use the arrow keys themselves.
  const scrolls = event.target.scrollWidth > event.target.clientWidth && event.target !== document.body
  if (isOther || scrolls || event.target.matches('[type=search], [type=range], textarea')) return
  if (event.key === 'ArrowLeft') move(from() - 1)
  if (event.key === 'ArrowRight') move(from() + 1)
})

// Links to rows and calls.
document.addEventListener('click', (event) => {
  // With these keys, a click opens the link elsewhere.
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return
  const link = event.target.closest('a[href^="#"], a[data-call]')
  const target = link?.dataset.call ? `#call-${link.dataset.call}` : link?.getAttribute('href')
  const [, row] = /^#r(\d+)$/.exec(target) ?? []
  // The sent form may lack the part with the missed name, so show the whole message.
  if (row && link.closest('#told')) wholes.add(Number(row))
  if (link && go(target)) event.preventDefault()
})
window.addEventListener('hashchange', () => go(location.hash))
// Rows that a link led to. They stay visible until another call is shown.
const shown = new Set()
function go(target, isFirst = false) {
  if (rows.length === 0) return false
  let [, kind, number] = /^#(call-|r|e)(\d+)$/.exec(target) ?? []
  if (kind === 'e') number = rows.findIndex((row) => row.matches(':not(.own)') && row.querySelector('.entry').textContent === number)
  const element = kind !== 'call-' && rows[number]
  if (kind === 'call-') {
    move(Number(number))
    if (!isFirst) find('#call-title').scrollIntoView()
  } else if (element) {
    let first = Number(number)
    while (first > 0 && folded[number] && !bars.has(first)) first--
    if (folded[number]) {
      opened.add(first)
      fold()
    }
    shown.add(element)
    element.classList.add('shown', 'flash')
    setTimeout(() => element.classList.remove('flash'), 1500)
    if (element.open) fill(Number(number))
    element.open = true
    element.scrollIntoView({ block: 'center' })
    element.firstElementChild.focus({ preventScroll: true })
  }
  return kind === 'call-' || Boolean(element)
}

// Search and filters.
const search = find('#find')
const found = find('#found')
let words = []
let typed
const choose = () => {
  list.classList.toggle('gone-hidden', !find('#gone').checked)
  list.classList.toggle('changed', find('#changed').checked)
}
find('#gone').addEventListener('change', choose)
find('#changed').addEventListener('change', choose)
search.addEventListener('input', () => {
  clearTimeout(typed)
  typed = setTimeout(filter, 120)
})
let texts
let reading
async function filter() {
  const asked = search.value
  const wanted = asked.toLowerCase().split(/\s+/).filter(Boolean)
  if (wanted.length > 0 && !texts) {
    found.textContent = 'searching…'
    try {
      reading ??= plain()
      texts = await reading
    } catch (error) {
      reading = undefined
      found.textContent = error.message
      return
    }
    // More may have been typed by now.
    if (search.value !== asked) return
  }
  words = wanted
  list.classList.toggle('filtered', words.length > 0)
  rows.forEach((element, row) => element.classList.toggle('unfound', !has(row)))
  tell()
}
/** Returns the lowercase text of every message, for the search. */
async function plain() {
  // Our own HTML: everything between `<` and `>` is a tag.
  const signs = { lt: '<', gt: '>', quot: '"', amp: '&' }
  const text = (html) => html.replace(/<[^>]*>/g, ' ').replace(/&(lt|gt|quot|amp);/g, (_, name) => signs[name])
  const texts = []
  if (isAsked) everything = await (await ask('part?')).json()
  for (let row = 0; row < rows.length; row++) {
    // Includes the row's line, so that tool names are found. `#20` finds entry 20.
    const [entry, role, says] = [...rows[row].firstElementChild.children].map((cell) => cell.textContent)
    const body = hasContents ? text((await forms(row))[0]) : ''
    texts.push(`#${entry} ${role} ${says} ${body}`.toLowerCase())
  }
  return texts
}
const has = (row) => words.every((word) => (/^#\d+$/.test(word) ? texts[row].startsWith(`${word} `) : texts[row].includes(word)))
function tell() {
  const hits = rows.flatMap((_, row) => (has(row) ? [row] : []))
  const sent = hits.filter((row) => current[row] && isSent(current[row])).length
  const later = hits.filter((row) => !current[row]).length
  const parts = [`${sent} sent`, `${hits.length - sent - later} missing`, ...(later > 0 ? [`${later} come later`] : [])]
  found.textContent = words.length > 0 ? `found in ${hits.length} of ${rows.length}: ${parts.join(', ')}` : ''
}

// A button that opens all visible rows, for reading or printing.
const all = newButton('Open all', () => {
  const isOpen = all.textContent === 'Open all'
  all.textContent = isOpen ? 'Close all' : 'Open all'
  for (const element of rows) element.open = isOpen && (element.classList.contains('shown') || element.checkVisibility())
})
find('.tools').insertBefore(all, find('#copy') ?? found)

// Copies the exact request: the messages of the call, byte for byte.
find('#copy')?.addEventListener('click', () => {
  const call = now
  copy(() => request(call), found, `the request of call ${call} is copied`)
})
find('#copy-toml')?.addEventListener('click', () => copy(() => find('#toml').textContent, find('#copied'), 'copied'))
async function copy(what, told, says) {
  try {
    const text = await what()
    try {
      await navigator.clipboard.writeText(text)
      told.textContent = says
    } catch {
      told.textContent = 'the browser does not allow it: it allows copying from files, from this machine and over https'
    }
  } catch (error) {
    told.textContent = error.message
  }
}
async function request(call) {
  if (served) return (await ask(`request?call=${call}`)).text()
  const { messages, calls: all } = await unpack(find('#requests'))
  let sent = []
  for (const [same, more] of all.slice(0, call)) sent = sent.slice(0, same).concat(more)
  const [, beside] = data.preambles.findLast(([since]) => since <= call) ?? [0, []]
  // Joins JSON texts, because parsing would reformat them.
  const list = [data.list, `[${sent.map((number) => messages[number]).join(',')}]`]
  return `{${[...beside, list].map(([name, json]) => `"${name}":${json}`).join(',')}}`
}

// Follows a session that grows. Browsers allow few connections to a server, so a hidden page does not listen.
if (served) {
  const follow = find('#follow')
  const address = new URL(location)
  follow.checked = address.searchParams.has('follow')
  // Loads the page again, at the newest call if that one is shown.
  const renew = () => {
    clearTimeout(noted)
    address.hash = now < last ? `#call-${now}` : ''
    for (const name of ['call', 'follow']) address.searchParams.delete(name)
    // Replaying a policy at every step would be slow.
    if (follow.checked) address.searchParams.delete('policy')
    if (follow.checked) address.searchParams.set('follow', '1')
    history.replaceState(null, '', address)
    location.reload()
  }
  let hasGrown = false
  // Waits a moment, because a busy session grows often, and while the user types.
  const renewSoon = () => setTimeout(() => {
    if (!follow.checked) return
    if (document.activeElement.matches('textarea, [type=search]') || search.value) renewSoon()
    else renew()
  }, 1000)
  follow.addEventListener('change', () => hasGrown && renewSoon())
  const grown = (event) => {
    if (hasGrown || event.data === served.dataset.edition) return
    hasGrown = true
    if (follow.checked) renewSoon()
    find('#grown').replaceChildren('the session has changed: ', newButton('show it as it is now', renew))
  }
  let source
  const listen = () => {
    source?.close()
    source = undefined
    if (document.hidden) return
    source = new EventSource(`live?name=${encodeURIComponent(served.dataset.name)}`)
    source.addEventListener('message', grown)
  }
  document.addEventListener('visibilitychange', listen)
  listen()
}

// Makes sections that scroll reachable with the keyboard.
function reach() {
  for (const section of document.querySelectorAll('section')) {
    if (section.scrollWidth > section.clientWidth) section.tabIndex = 0
    else section.removeAttribute('tabindex')
  }
}
window.addEventListener('resize', reach)

// Inserts the rows of `noscript` elements in blocks, so that the rows that were sent appear first.
async function wake() {
  list.classList.add('waking')
  for (const asleep of list.querySelectorAll('noscript')) {
    await new Promise((done) => setTimeout(done))
    asleep.insertAdjacentHTML('beforebegin', asleep.textContent)
    asleep.remove()
  }
  list.classList.remove('waking')
  for (const element of list.querySelectorAll('.row')) rows.push(element)
}
wake().then(() => {
  for (const element of document.querySelectorAll('.script')) element.hidden = false
  list.classList.add('scripted')
  waits = false
  show(wanted)
  for (const element of list.querySelectorAll('.row[open]')) fill(numberOf(element))
  // Browsers restore the state of checkboxes.
  choose()
  if (search.value) filter()
  reach()
  if (location.hash) go(location.hash, true)
})
