// Shows the calls of a conversation when it is opened, because all of them at once would be slow.
'use strict'

const data = JSON.parse(document.querySelector('#data').textContent)
const digits = new Intl.NumberFormat('en-US')
const heads = ['message', 'time (UTC)', 'model', 'new', 'from cache', 'written', 'output', 'cost', 'cache missed after', '']
const words = new Set([2, 8, 9])

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

function cells([message, time, model, input, read, written, output, cost, miss, kind]) {
  const when = time === null ? '' : new Date(time).toISOString().slice(0, 19).replace('T', ' ')
  const numbers = [input, read, written, output].map((tokens) => digits.format(tokens))
  return [message, when, data.models[model], ...numbers, cost === null ? '–' : `$${cost.toFixed(4)}`, miss ?? '', kind]
}

for (const conversation of document.querySelectorAll('details.conversation')) {
  conversation.addEventListener('toggle', () => {
    if (!conversation.open || conversation.querySelector('table')) return
    const table = document.createElement('table')
    table.createTHead().append(row('th', heads))
    table.createTBody().append(...data.calls[conversation.dataset.index].map((call) => row('td', cells(call))))
    const around = document.createElement('div')
    around.className = 'wide'
    around.append(table)
    conversation.append(around)
  })
}

// A link to a conversation opens it.
function open() {
  const wanted = location.hash.startsWith('#c') && document.getElementById(location.hash.slice(1))
  if (wanted) wanted.open = true
}
addEventListener('hashchange', open)
open()
