// The JavaScript SDK of Google.

import { URL, FIRST, LAST, SCHEMA, SECOND, load, must, run } from "./shell.mjs";

const { GoogleGenAI } = await load("@google/genai");
const client = new GoogleGenAI({ apiKey: "x", httpOptions: { baseUrl: URL } });
const declared = { name: "run", description: "Runs a command.", parametersJsonSchema: SCHEMA };
const config = { systemInstruction: "You help.", tools: [{ functionDeclarations: [declared] }] };
const contents = [];
let parts;
for (const [turn, text] of [FIRST, SECOND].entries()) {
  contents.push({ role: "user", parts: [{ text }] });
  let calls;
  do {
    const request = { model: "gemini-3-pro", contents, config };
    if (turn === 0) {
      parts = (await client.models.generateContent(request)).candidates[0].content.parts;
    } else {
      parts = [];
      for await (const chunk of await client.models.generateContentStream(request)) {
        parts.push(...(chunk.candidates[0].content.parts ?? []));
      }
    }
    contents.push({ role: "model", parts });
    calls = parts.map((part) => part.functionCall).filter(Boolean);
    if (calls.length) {
      const answer = ({ id, name, args }) => ({ functionResponse: { id, name, response: { output: run(args.command) } } });
      contents.push({ role: "user", parts: calls.map(answer) });
    }
  } while (calls.length);
}
must(parts.map((part) => part.text ?? "").join("") === LAST, parts);
