// An agent of the AI SDK with a dozen tools, whose model gets those that `camdf serve` keeps. Runs offline:
//   camdf serve camdf.toml, then in another terminal: npm ci && node run.js http://127.0.0.1:8080
import { generateText, stepCountIs, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";

import { toolGate } from "./tool_gate.js";

const catalogue = {
  get_weather: "Weather forecast for a city",
  send_email: "Send an email to a person",
  search_flights: "Search flights between two cities on a date",
  book_flight: "Book a flight for a passenger",
  find_hotel: "Find a hotel in a city",
  book_hotel: "Book a hotel room",
  convert_currency: "Convert an amount between currencies",
  create_event: "Create an event in the calendar",
  translate_text: "Translate a text into another language",
  stock_price: "Price of a stock today",
  play_music: "Play a song",
  run_sql: "Run a query against the database",
};
const inputSchema = z.object({ query: z.string() });
const tools = Object.fromEntries(
  Object.entries(catalogue).map(([name, description]) => [name, tool({ description, inputSchema, execute: () => "ran" })]),
);

// Stands in for the model: says which tools reached it, calls the first one, then answers.
const usage = { inputTokens: { total: 0 }, outputTokens: { total: 0 } };
const model = new MockLanguageModelV3({
  doGenerate: async ({ prompt, tools: offered = [] }) => {
    console.log(`  ${offered.length} of ${Object.keys(tools).length} tools: ${offered.map((each) => each.name).join(", ")}`);
    const call = { type: "tool-call", toolCallId: "1", toolName: offered[0].name, input: '{"query": "Rome"}' };
    const calls = prompt.at(-1).role === "user";
    const finishReason = { unified: calls ? "tool-calls" : "stop" };
    return { content: [calls ? call : { type: "text", text: "Done." }], finishReason, usage, warnings: [] };
  },
});

const prepareStep = toolGate(process.argv[2], tools);
const messages = [];
for (const content of ["Search flights to Rome and book a flight", "And then play me a quiet song on a speaker"]) {
  console.log(content);
  messages.push({ role: "user", content });
  const { response } = await generateText({ model, tools, messages, prepareStep, stopWhen: stepCountIs(5) });
  messages.push(...response.messages);
}
