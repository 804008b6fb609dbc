// A conversation by our client, from JSON on standard input; prints what it came to.
import { readFileSync } from "node:fs";

import { Client } from "../../../../clients/typescript/client.js";

const { url, token, refused, messages, tools, calls } = JSON.parse(readFileSync(0, "utf-8"));
const client = new Client(url, { token, seconds: 30 });
const request = await client.decide(messages, tools);
const answers = [];
for (const call of calls) answers.push(await client.answer(call, tools, request));
const reported = await client.report(request, ["book_flight"], true);
const other = new Client(url, { token: refused, seconds: 30 });
const failed = await other.decide(messages, tools);
const again = await other.decide(messages, tools);
console.log(JSON.stringify({
  messages: request.messages,
  tools: request.tools,
  failure: request.failure ?? "",
  answers: answers.map(({ run, text }) => ({ run, text })),
  reported,
  refused: { same: failed.messages.length === messages.length && failed.tools.length === tools.length, why: failed.failure },
  rests: again.failure,
}));
