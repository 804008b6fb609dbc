// The same by what openapi-typescript writes from the document, with openapi-fetch; this file also has to type-check.
import { readFileSync } from "node:fs";

import createClient from "openapi-fetch";

import type { components, paths } from "./api.js";

const { url, token, refused, messages, tools, calls } = JSON.parse(readFileSync(0, "utf-8"));
const authorized = (key: string) => createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });
const client = authorized(token);

type Decision = components["schemas"]["Decision"];
type Message = { [key: string]: unknown };

async function conversation() {
  const { data, error, response } = await client.POST("/v1/decide", { body: { messages, tools } });
  if (error) return { failure: `${response.status}: ${error.error}` };
  const decision: Decision = Array.isArray(data) ? data[0]! : data;
  const sent: (Message | null)[] = [...messages];
  for (const { place, message } of decision.changed ?? []) sent[place] = message;
  const answers = [];
  for (const call of calls) {
    const answered = await client.POST("/v1/answer", { body: { call, tools } });
    answers.push({ run: answered.data?.run ?? null, text: answered.data?.text ?? "" });
  }
  const outcome = { decision: decision.id, called: ["book_flight"], success: true };
  const accepted = await client.POST("/v1/outcomes", { body: outcome });
  const failed = await authorized(refused).POST("/v1/decide", { body: { messages, tools } });
  const found = await client.POST("/v1/find", { body: { query: "play a song", tools } });
  return {
    messages: sent,
    tools: [...decision.tools, ...(decision.search ?? [])],
    failure: "",
    answers,
    reported: (accepted.data?.first ?? 0) > 0,
    refused: { status: failed.response.status, why: failed.error?.error, after: failed.response.headers.get("retry-after") },
    found: found.data?.tools[0]?.["name"],
  };
}
console.log(JSON.stringify(await conversation().catch((error: unknown) => ({ failure: String(error) }))));
