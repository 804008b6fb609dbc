import { Client } from "@camdf/client";
import { asSchema, jsonSchema, tool } from "ai";

/**
 * What `generateText` takes: the tools with a search for those that are cut,
 * and a `prepareStep` that asks `camdf serve`.
 *
 * @template {import("ai").ToolSet} Tools
 * @param {string} url where the service is
 * @param {Tools} tools
 * @param {ConstructorParameters<typeof Client>[1]} [settings]
 */
export function toolGate(url, tools, settings) {
  const client = new Client(url, settings);
  const known = Promise.all(
    Object.entries(tools).map(async ([name, { description, inputSchema }]) => {
      const input_schema = await asSchema(inputSchema).jsonSchema;
      return { name, description, input_schema };
    }),
  );
  /**
   * @param {string} name
   * @param {string} description
   * @param {Record<string, { type: "string" | "object" }>} properties
   */
  const search = (name, description, properties) => tool({
    description,
    inputSchema: jsonSchema({
      type: "object", properties, required: Object.keys(properties),
    }),
    execute: async (input, options) => {
      const call = { id: options.toolCallId, name, input };
      const answer = await client.answer(call, await known);
      if (!answer.run) return answer.text;
      const meant = tools[answer.run.name], given = answer.run.arguments;
      const checked = await asSchema(meant.inputSchema).validate?.(given);
      if (checked?.success === false) return checked.error.message;
      return meant.execute?.(given, options);
    },
  });
  const find_tool = search(
    "find_tool",
    "Find a tool for what you want to do next, where none of yours fits.",
    { query: { type: "string" } },
  );
  const call_tool = search(
    "call_tool",
    "Run a tool that find_tool found, or that a message describes.",
    { name: { type: "string" }, arguments: { type: "object" } },
  );
  return {
    tools: { ...tools, find_tool, call_tool },
    /** @param {{ messages: import("ai").ModelMessage[] }} step */
    prepareStep: async ({ messages }) => {
      const request = await client.decide(messages, await known);
      const activeTools = request.tools.map((each) => each.name);
      return { activeTools, messages: request.messages };
    },
  };
}
