// A conversation whose older part is replaced by a summary, which a function of the program writes.

import { Session } from 'lookback'

const session = await Session.open('chat-1', {
  policy: 'rolling-summary:window_size=6',
  // A model would get `system` and `prompt` here, and have `budget` tokens for the answer.
  summarizer: async ({ prompt }) => `They spoke about ${prompt.split('user:').length - 1} questions.`,
})
for (let number = 1; number <= 10; number++) {
  await session.push({ role: 'user', content: `What is ${number} times ${number}?` })
  await session.window()
  await session.push({ role: 'assistant', content: `It is ${number * number}.` })
  await session.waitForSummary()
}

for (const { role, content } of (await session.window()).messages) console.log(`${role}: ${content}`)
console.log((await session.messages()).length, 'messages are kept')
