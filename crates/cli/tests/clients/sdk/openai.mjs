// The JavaScript SDK of OpenAI, with Chat Completions or Responses.

import { URL, FIRST, LAST, SCHEMA, SECOND, load, must, run } from "./shell.mjs";

const { default: OpenAI } = await load("openai");
const client = new OpenAI({ baseURL: URL, apiKey: "x" });
const described = { name: "run", description: "Runs a command.", parameters: SCHEMA };

async function chat() {
  const messages = [{ role: "system", content: "You help." }];
  let message;
  for (const [turn, content] of [FIRST, SECOND].entries()) {
    messages.push({ role: "user", content });
    do {
      const request = { model: "m1", messages, tools: [{ type: "function", function: described }] };
      message =
        turn === 0
          ? (await client.chat.completions.create(request)).choices[0].message
          : await client.chat.completions.stream(request).finalMessage();
      messages.push(message);
      for (const call of message.tool_calls ?? []) {
        const output = run(JSON.parse(call.function.arguments).command);
        messages.push({ role: "tool", tool_call_id: call.id, content: output });
      }
    } while (message.tool_calls?.length);
  }
  must(message.content === LAST, message);
}

async function responses() {
  const input = [];
  let response;
  for (const [turn, content] of [FIRST, SECOND].entries()) {
    input.push({ role: "user", content });
    let calls;
    do {
      const request = {
        model: "m1", instructions: "You help.", input, tools: [{ type: "function", strict: false, ...described }],
        store: false, include: ["reasoning.encrypted_content"],
      };
      response = turn === 0 ? await client.responses.create(request) : await client.responses.stream(request).finalResponse();
      input.push(...response.output);
      calls = response.output.filter((item) => item.type === "function_call");
      for (const call of calls) {
        const output = run(JSON.parse(call.arguments).command);
        input.push({ type: "function_call_output", call_id: call.call_id, output });
      }
    } while (calls.length);
  }
  must(response.output_text === LAST, response);
}

await (process.argv[2] === "chat" ? chat() : responses());
