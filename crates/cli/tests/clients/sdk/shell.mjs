// The tool of all clients here, which runs a command, and the folder in which their packages are installed.

import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

export const FIRST = "Please run the steps 1 to 12, each with the tool.";
export const SECOND = "Now run the steps 13 to 24, each with the tool.";
export const LAST = "All steps up to 24 are done.";
export const SCHEMA = { type: "object", properties: { command: { type: "string" } }, required: ["command"] };
export const URL = process.env.URL;

export const run = (command) => execFileSync("bash", ["-c", command], { encoding: "utf8" });

const require = createRequire(`${process.env.NPM}/package.json`);
export const load = (name) => import(pathToFileURL(require.resolve(name)));

export function must(condition, what) {
  if (!condition) throw new Error(JSON.stringify(what));
}
