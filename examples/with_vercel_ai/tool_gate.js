import { asSchema, jsonSchema, tool } from "ai";

/**
 * What `generateText` takes: the tools with a search for those that are cut, and a `prepareStep` that asks `camdf serve`.
 *
 * @template {import("ai").ToolSet} Tools
 * @param {string} url where the service is
 * @param {Tools} tools
 * @param {{ token?: string, seconds?: number, route?: string, keep?: string[], forced?: string[] }} settings
 */
export function toolGate(url, tools, settings = {}) {
  const { token, seconds = 1, ...request } = settings;
  const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
  const sent = Promise.all(Object.entries(tools).map(async ([name, tool]) => (
    { name, description: tool.description, input_schema: await asSchema(tool.inputSchema).jsonSchema })));
  /** @param {string} path @param {object} body */
  async function ask(path, body) {
    const options = { method: "POST", headers, signal: AbortSignal.timeout(1000 * seconds) };
    const answer = await fetch(url + path, { ...options, body: JSON.stringify({ ...body, tools: await sent }) }).catch(() => undefined);
    return answer?.ok ? answer.json() : undefined;
  }
  /** @param {string} name @param {string} description @param {Record<string, { type: "string" | "object" }>} properties */
  const search = (name, description, properties) => tool({
    description,
    inputSchema: jsonSchema({ type: "object", properties, required: Object.keys(properties) }),
    execute: async (input, options) => {
      const answer = await ask("/v1/answer", { call: { id: options.toolCallId, name, input } });
      if (!answer?.run) return answer?.text ?? "The search does not answer. Go on with the tools that you have.";
      const meant = tools[answer.run.name], checked = await asSchema(meant.inputSchema).validate?.(answer.run.arguments);
      return checked?.success === false ? checked.error.message : meant.execute?.(answer.run.arguments, options);
    },
  });
  const find_tool = search("find_tool", "Find a tool for what you want to do next, where none of yours fits.", { query: { type: "string" } });
  const call_tool = search("call_tool", "Run a tool that find_tool found.", { name: { type: "string" }, arguments: { type: "object" } });
  return {
    tools: { ...tools, find_tool, call_tool },
    /** @param {{ messages: import("ai").ModelMessage[] }} step */
    prepareStep: async ({ messages }) => {
      const decision = await ask("/v1/decide", { ...request, messages });
      const loaded = decision ? [...decision.tools, ...(decision.search ?? [])].map((each) => each.name) : Object.keys(tools);
      return { activeTools: loaded };
    },
  };
}
