import { asSchema, jsonSchema, tool } from "ai";

/**
 * What `generateText` takes: the tools with a search for those that are cut,
 * and a `prepareStep` that asks `camdf serve`.
 *
 * @template {import("ai").ToolSet} Tools
 * @param {string} url where the service is
 * @param {Tools} tools
 * @param {{ token?: string, seconds?: number, route?: string,
 *   keep?: string[], forced?: string[] }} settings
 */
export function toolGate(url, tools, settings = {}) {
  const { token, seconds = 1, ...request } = settings;
  const headers = {
    "content-type": "application/json",
    ...(token && { authorization: `Bearer ${token}` }),
  };
  const sent = Promise.all(
    Object.entries(tools).map(async ([name, { description, inputSchema }]) => {
      const input_schema = await asSchema(inputSchema).jsonSchema;
      return { name, description, input_schema };
    }),
  );
  /** @param {string} path @param {object} asked */
  async function ask(path, asked) {
    const body = JSON.stringify({ ...asked, tools: await sent });
    const signal = AbortSignal.timeout(1000 * seconds);
    const options = { method: "POST", headers, body, signal };
    const answer = await fetch(url + path, options).catch(() => undefined);
    return answer?.ok ? answer.json() : undefined;
  }
  /**
   * @param {string} name
   * @param {string} description
   * @param {Record<string, { type: "string" | "object" }>} properties
   */
  const search = (name, description, properties) => tool({
    description,
    inputSchema: jsonSchema({
      type: "object",
      properties,
      required: Object.keys(properties),
    }),
    execute: async (input, options) => {
      const call = { id: options.toolCallId, name, input };
      const answer = await ask("/v1/answer", { call });
      if (!answer) return "The search is away. Go on with your own tools.";
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
      const decision = await ask("/v1/decide", { ...request, messages });
      if (!decision) return { activeTools: Object.keys(tools) };
      const loaded = [...decision.tools, ...(decision.search ?? [])];
      const activeTools = loaded.map((each) => each.name);
      const sent = [...messages];
      for (const { place, message } of decision.changed ?? [])
        sent[place] = message; // null where nothing of it may be sent
      return { activeTools, messages: sent.filter(Boolean) };
    },
  };
}
