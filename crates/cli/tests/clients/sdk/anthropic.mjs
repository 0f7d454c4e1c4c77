// The JavaScript SDK of Anthropic.

import { URL, FIRST, LAST, SCHEMA, SECOND, load, must, run } from "./shell.mjs";

const { default: Anthropic } = await load("@anthropic-ai/sdk");
const client = new Anthropic({ baseURL: URL, apiKey: "x" });
const tools = [{ name: "run", description: "Runs a command.", input_schema: SCHEMA }];
const messages = [];
let answer;
for (const [turn, content] of [FIRST, SECOND].entries()) {
  messages.push({ role: "user", content });
  let calls;
  do {
    const request = { model: "claude-opus-4-6", max_tokens: 4096, system: "You help.", messages, tools };
    answer = turn === 0 ? await client.messages.create(request) : await client.messages.stream(request).finalMessage();
    messages.push({ role: "assistant", content: answer.content });
    calls = answer.content.filter((block) => block.type === "tool_use");
    if (calls.length) {
      const result = (call) => ({ type: "tool_result", tool_use_id: call.id, content: run(call.input.command) });
      messages.push({ role: "user", content: calls.map(result) });
    }
  } while (calls.length);
}
must(answer.content.at(-1).text === LAST, answer);
