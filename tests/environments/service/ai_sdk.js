// A conversation through the real AI SDK, from JSON on standard input; prints the tools that reached the model, step by
// step, and what the user said there, notes among it. `says[n]` is what the model does in step n: calls a tool of that name, or of [name, input], or answers where it
// is null.
import { readFileSync } from "node:fs";

import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { MockLanguageModelV3, convertArrayToReadableStream } from "ai/test";

import { toolGate } from "./tool_gate.js";

const { url, catalogue, messages, says, settings, streams } = JSON.parse(readFileSync(0, "utf-8"));
const inputSchema = jsonSchema({ type: "object", properties: {} });
const tools = Object.fromEntries(
  Object.entries(catalogue).map(([name, description]) => [name, tool({ description, inputSchema, execute: () => `${name} ran` })]),
);
const seen = [];
const told = [];
const usage = { inputTokens: { total: 0 }, outputTokens: { total: 0 } };
function said(offered, prompt) {
  const [name, input = {}] = [says[seen.length]].flat();
  seen.push((offered ?? []).map((each) => each.name));
  told.push(prompt.filter(({ role }) => role === "user").map(({ content }) => content.map(({ text }) => text).join("")));
  const call = { type: "tool-call", toolCallId: `call-${seen.length}`, toolName: name, input: JSON.stringify(input) };
  return { part: name ? call : null, finishReason: { unified: name ? "tool-calls" : "stop" } };
}
const model = new MockLanguageModelV3({
  doGenerate: async ({ tools: offered, prompt }) => {
    const { part, finishReason } = said(offered, prompt);
    return { content: [part ?? { type: "text", text: "Done." }], finishReason, usage, warnings: [] };
  },
  doStream: async ({ tools: offered, prompt }) => {
    const { part, finishReason } = said(offered, prompt);
    const text = [{ type: "text-start", id: "1" }, { type: "text-delta", id: "1", delta: "Done." }, { type: "text-end", id: "1" }];
    const finish = { type: "finish", finishReason, usage };
    return { stream: convertArrayToReadableStream([{ type: "stream-start", warnings: [] }, ...(part ? [part] : text), finish]) };
  },
});
const asked = { model, messages, ...toolGate(url, tools, settings), stopWhen: stepCountIs(says.length) };
const { response } = streams ? { response: await streamText(asked).response } : await generateText(asked);
console.log(JSON.stringify({ seen, told, messages: response.messages }));
