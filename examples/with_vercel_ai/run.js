// An agent of the AI SDK with a dozen tools, whose model gets those that
// `camdf serve` keeps, and a search. Runs offline: camdf serve camdf.toml,
// then in another terminal: npm ci && node run.js http://127.0.0.1:8080
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
  Object.entries(catalogue).map(([name, description]) => [name, tool({
    description,
    inputSchema,
    execute: ({ query }) => `${name} ran for ${query}`,
  })]),
);

// Stands in for the model: says which tools reached it, searches for one that
// was cut, runs it, then answers.
const usage = { inputTokens: { total: 0 }, outputTokens: { total: 0 } };
const song = { name: "play_music", arguments: { query: "Azzurro" } };
const calls = [["find_tool", { query: "play a song" }], ["call_tool", song]];
const model = new MockLanguageModelV3({
  /**
   * @param {{ prompt: any[], tools?: any[] }} request
   * @returns {Promise<any>}
   */
  doGenerate: async ({ prompt, tools: offered = [] }) => {
    const names = offered.map((each) => each.name).join(", ");
    console.log(`  ${offered.length} tools: ${names}`);
    const results = prompt.filter((message) => message.role === "tool");
    if (results.length) {
      const value = results.at(-1).content[0].output.value;
      console.log(`  ${JSON.stringify(value).slice(0, 60)}`);
    }
    const [toolName, input] = calls[results.length] ?? [];
    const call = {
      type: "tool-call",
      toolCallId: String(results.length),
      toolName,
      input: JSON.stringify(input),
    };
    return {
      content: [toolName ? call : { type: "text", text: "Done." }],
      finishReason: { unified: toolName ? "tool-calls" : "stop" },
      usage,
      warnings: [],
    };
  },
});

/** @type {import("ai").ModelMessage[]} */
const messages = [
  { role: "user", content: "Search flights to Rome and book a flight" },
];
const gated = toolGate(process.argv[2], tools);
await generateText({ model, messages, ...gated, stopWhen: stepCountIs(5) });
