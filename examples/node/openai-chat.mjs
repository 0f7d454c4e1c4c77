// A chat over OpenAI's API that goes on after a restart: each line of standard input is a question.

import { createInterface } from 'node:readline'
import { Session } from 'lookback'
import OpenAI from 'openai'

const client = new OpenAI()
const session = await Session.open('chat-1', { store: 'memory.db', model: 'gpt-4o' })

for await (const question of createInterface({ input: process.stdin })) {
  await session.push({ role: 'user', content: question })
  const { messages } = await session.window()
  const answer = await client.chat.completions.create({ model: 'gpt-4o', messages })
  await session.answered(answer)
  console.log(answer.choices[0].message.content)
}
