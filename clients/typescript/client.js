/**
 * A client of `camdf serve` that needs nothing but `fetch`.
 *
 * It never throws for what the service does. A service that is away, refuses, or takes longer than `seconds` leaves the
 * messages and the tools that it was given, and `failure` says why. After an answer with Retry-After it is not asked
 * again before that time. So neither the service's `allow` nor its privilege holds while it is away.
 *
 * @module
 */

/** @typedef {import("./api.js").components["schemas"]} Schemas */
/** @typedef {Schemas["Decision"]} Decision */
/** @typedef {Omit<Schemas["ConversationRequest"], "messages" | "tools">} Settings */
/** @typedef {Record<string, any>} Call A call as your client has it: OpenAI chat or Responses, Anthropic or MCP. */

/**
 * What to send to the model.
 *
 * @template Message, Tool
 * @typedef {object} ModelRequest
 * @property {Message[]} messages those that were given, with the notes and the tools that join them
 * @property {Tool[]} tools those that are loaded, and the tool search
 * @property {string[]} betas what Anthropic has to be told
 * @property {Decision} [decision] all that the service answered, if it did
 * @property {string} [failure] why messages and tools are those that were given
 */

/**
 * What to do with a call: run a tool, or answer with text.
 *
 * @typedef {object} Answer
 * @property {string} id
 * @property {Schemas["ToolRun"] | null} run
 * @property {string} text
 */

const AWAY = "The search is away. Go on with your own tools.";

/** Asks one service. */
export class Client {
  #url;
  #headers;
  #milliseconds;
  #settings;
  #restsUntil = 0;

  /**
   * @param {string} url where it is
   * @param {{ token?: string, seconds?: number } & Settings} [settings] the token that it asks for, the most that one
   *   question may take, and what every request for a decision says besides: `route`, `keep`, `model` and the like
   */
  constructor(url, { token, seconds = 1, ...settings } = {}) {
    this.#url = url.replace(/\/+$/, "");
    this.#headers = { "content-type": "application/json", ...(token && { authorization: `Bearer ${token}` }) };
    this.#milliseconds = 1000 * seconds;
    this.#settings = settings;
  }

  /**
   * The messages and the tools of the next request to the model, for the whole history and all tools.
   *
   * @template {object} Message
   * @template {object} Tool
   * @param {readonly Message[]} messages
   * @param {readonly Tool[]} tools
   * @param {Settings} [settings]
   * @returns {Promise<ModelRequest<Message, Tool>>}
   */
  async decide(messages, tools, settings = {}) {
    /** @type {Decision | string} */
    const decision = await this.#ask("/v1/decide", { ...this.#settings, ...settings, messages, tools });
    if (typeof decision === "string")
      return { messages: [...messages], tools: [...tools], betas: [], failure: decision };
    /** @type {any[][]} */
    const sent = messages.map((message) => [message]);
    for (const { place, message } of decision.changed ?? []) sent[place] = message === null ? [] : [message];
    for (const { after, message } of decision.appended ?? []) sent[after]?.push(message);
    /** @type {any[]} */
    const loaded = [...decision.tools, ...(decision.search ?? [])];
    return { messages: sent.flat(), tools: loaded, betas: decision.betas ?? [], decision };
  }

  /**
   * What a call means that the model wrote, for all tools and what was decided last. Nothing is run here.
   *
   * While the service is away, a tool that is among `tools` is to be run, and a search is answered with words.
   *
   * @param {Call} call
   * @param {readonly object[]} tools
   * @param {{ decision?: Decision }} request
   * @returns {Promise<Answer>}
   */
  async answer(call, tools, { decision } = {}) {
    const may_run = decision?.may_run;
    const { route } = this.#settings;
    /** @type {Schemas["Answered"] | string} */
    const meant = await this.#ask("/v1/answer", { call, tools, may_run, route });
    return typeof meant === "string" ? answeredAlone(call, tools, may_run) : meant;
  }

  /**
   * Say what became of a task; whether the service has it on disk.
   *
   * @param {{ decision?: Decision }} request
   * @param {readonly string[]} called
   * @param {boolean} success
   */
  async report({ decision }, called, success) {
    if (!decision) return false;
    return typeof (await this.#ask("/v1/outcomes", { decision: decision.id, called, success })) !== "string";
  }

  /**
   * What the service answers, or why it does not.
   *
   * @param {string} path
   * @param {object} body
   * @returns {Promise<any>}
   */
  async #ask(path, body) {
    if (Date.now() < this.#restsUntil) return "The service asked to be left alone for some seconds.";
    try {
      const signal = AbortSignal.timeout(this.#milliseconds);
      const options = { method: "POST", headers: this.#headers, body: JSON.stringify(body), signal };
      const answer = await fetch(this.#url + path, options);
      if (answer.ok) return await answer.json();
      this.#restsUntil = Date.now() + 1000 * (Number(answer.headers.get("retry-after")) || 0);
      return `${answer.status}: ${(await answer.text()).slice(0, 500)}`;
    } catch (error) {
      return String(error);
    }
  }
}

/**
 * What a call means to somebody who cannot search.
 *
 * @param {Call} call
 * @param {readonly Record<string, any>[]} tools
 * @param {readonly string[]} [mayRun]
 * @returns {Answer}
 */
function answeredAlone(call, tools, mayRun) {
  const made = call.function ?? call;
  const id = call.call_id ?? call.id ?? "";
  try {
    const given = made.arguments ?? made.input ?? {};
    const read = typeof given === "string" ? JSON.parse(given) : given;
    const meant = made.name === "call_tool" ? read : { name: made.name, arguments: read };
    const known = tools.some((tool) => (tool.function ?? tool).name === meant.name);
    if (known && (!mayRun || mayRun.includes(meant.name)))
      return { id, run: { name: meant.name, arguments: meant.arguments ?? {} }, text: "" };
  } catch {
    // a broken call is answered as one that nobody understands
  }
  return { id, run: null, text: AWAY };
}
