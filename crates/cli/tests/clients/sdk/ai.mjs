// Vercel's AI SDK, with each of its providers.

import { URL, FIRST, LAST, SCHEMA, SECOND, load, must, run } from "./shell.mjs";

const { generateText, jsonSchema, stepCountIs, streamText, tool } = await load("ai");
const models = {
  chat: async () =>
    (await load("@ai-sdk/openai-compatible")).createOpenAICompatible({ name: "x", baseURL: URL, apiKey: "x" })("m1"),
  responses: async () => (await load("@ai-sdk/openai")).createOpenAI({ baseURL: URL, apiKey: "x" }).responses("m1"),
  anthropic: async () =>
    (await load("@ai-sdk/anthropic")).createAnthropic({ baseURL: URL, apiKey: "x" })("claude-opus-4-6"),
  google: async () =>
    (await load("@ai-sdk/google")).createGoogleGenerativeAI({ baseURL: URL, apiKey: "x" })("gemini-3-pro"),
};
const model = await models[process.argv[2]]();
const shell = tool({ description: "Runs a command.", inputSchema: jsonSchema(SCHEMA), execute: async ({ command }) => run(command) });
const common = {
  model, system: "You help.", tools: { run: shell }, stopWhen: stepCountIs(40),
  providerOptions: { openai: { store: false, include: ["reasoning.encrypted_content"] } },
};
let messages = [{ role: "user", content: FIRST }];
const first = await generateText({ ...common, messages });
messages = [...messages, ...first.response.messages, { role: "user", content: SECOND }];
const second = streamText({ ...common, messages, onError: ({ error }) => { throw error; } });
const text = await second.text;
must((await second.steps).at(-1).text === LAST, text);
