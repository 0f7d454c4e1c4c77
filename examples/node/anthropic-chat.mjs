// A chat over Anthropic's API that goes on after a restart: each line of standard input is a question.

import { createInterface } from 'node:readline'
import Anthropic from '@anthropic-ai/sdk'
import { Session } from 'lookback'

const client = new Anthropic()
const model = 'claude-sonnet-5'
const session = await Session.open('chat-1', { store: 'memory.db', model })

for await (const question of createInterface({ input: process.stdin })) {
  await session.push({ role: 'user', content: question })
  const { messages } = await session.window()
  const answer = await client.messages.create({ model, max_tokens: 1024, messages })
  await session.answered(answer)
  console.log(answer.content[0].text)
}
