// Shows the calls of a conversation when it is opened, because all of them at once would be slow.
'use strict'

const data = JSON.parse(document.querySelector('#data').textContent)
const digits = new Intl.NumberFormat('en-US')
const heads = ['message', 'time (UTC)', 'model', 'new', 'from cache', 'written', 'output', 'cost', 'window saves', 'cache missed after', 'for', '']
const words = new Set([2, 9, 11])
const money = (dollars) => (dollars === null ? '–' : `$${dollars.toFixed(4)}`)

function row(name, cells) {
  const line = document.createElement('tr')
  cells.forEach((text, index) => {
    const cell = document.createElement(name)
    if (words.has(index)) cell.className = 'words'
    cell.textContent = text
    line.append(cell)
  })
  return line
}

function cells([message, time, model, input, read, written, output, cost, saved, miss, kind]) {
  const when = time === null ? '' : new Date(time).toISOString().slice(0, 19).replace('T', ' ')
  const numbers = [input, read, written, output].map((tokens) => digits.format(tokens))
  const [cause, more] = miss ?? ['', undefined]
  return [message, when, data.models[model], ...numbers, money(cost), saved ? money(saved) : '', cause, cause && money(more), kind]
}

// Builds the table when it is needed, and not after the browser has said that the conversation is open.
function fill(conversation) {
  if (conversation.querySelector('table')) return
  const table = document.createElement('table')
  table.createTHead().append(row('th', heads))
  table.createTBody().append(...data.calls[conversation.dataset.index].map((call) => row('td', cells(call))))
  const around = document.createElement('div')
  around.className = 'wide'
  // Arrow keys scroll what has the focus.
  around.tabIndex = 0
  around.append(table)
  conversation.append(around)
}

for (const conversation of document.querySelectorAll('details.conversation')) {
  conversation.addEventListener('toggle', () => conversation.open && fill(conversation))
}

// A link opens a conversation, and marks the call behind one of its messages: `#c12/34`.
function open() {
  const [id, message] = location.hash.slice(1).split('/')
  const wanted = id.startsWith('c') && document.getElementById(id)
  if (!wanted || !wanted.classList.contains('conversation')) return
  fill(wanted)
  wanted.open = true
  wanted.querySelectorAll('tr.this').forEach((line) => line.classList.remove('this'))
  const lines = [...wanted.querySelectorAll('tbody tr')]
  const line = message && lines.find((one) => Number(one.cells[0].textContent) >= Number(message))
  line?.classList.add('this')
  ;(line ?? wanted).scrollIntoView({ block: 'center' })
}
addEventListener('hashchange', open)
open()
