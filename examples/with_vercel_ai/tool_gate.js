import { asSchema } from "ai";

/** A `prepareStep` that hands the model the tools which `camdf serve` keeps; all of them where it does not answer. */
export function toolGate(url, tools, settings = {}) {
  const { token, seconds = 1, ...request } = settings;
  const headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
  const sent = Promise.all(Object.entries(tools).map(async ([name, tool]) => (
    { name, description: tool.description, input_schema: await asSchema(tool.inputSchema).jsonSchema })));
  return async ({ messages }) => {
    const body = JSON.stringify({ ...request, messages, tools: await sent });
    const options = { method: "POST", headers, body, signal: AbortSignal.timeout(1000 * seconds) };
    const answer = await fetch(`${url}/v1/decide`, options).catch(() => undefined);
    return answer?.ok ? { activeTools: (await answer.json()).tools.map((tool) => tool.name) } : {};
  };
}
