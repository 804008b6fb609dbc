/** Asks one service. */
export class Client {
    /**
     * @param {string} url where it is
     * @param {{ token?: string, seconds?: number } & Settings} [settings] the token that it asks for, the most that one
     *   question may take, and what every request for a decision says besides: `route`, `keep`, `model` and the like
     */
    constructor(url: string, { token, seconds, ...settings }?: {
        token?: string;
        seconds?: number;
    } & Settings);
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
    decide<Message extends object, Tool extends object>(messages: readonly Message[], tools: readonly Tool[], settings?: Settings): Promise<ModelRequest<Message, Tool>>;
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
    answer(call: Call, tools: readonly object[], { decision }?: {
        decision?: Decision;
    }): Promise<Answer>;
    /**
     * Say what became of a task; whether the service has it on disk.
     *
     * @param {{ decision?: Decision }} request
     * @param {readonly string[]} called
     * @param {boolean} success
     */
    report({ decision }: {
        decision?: Decision;
    }, called: readonly string[], success: boolean): Promise<boolean>;
    #private;
}
export type Schemas = import("./api.js").components["schemas"];
export type Decision = Schemas["Decision"];
export type Settings = Omit<Schemas["ConversationRequest"], "messages" | "tools">;
/**
 * A call as your client has it: OpenAI chat or Responses, Anthropic or MCP.
 */
export type Call = Record<string, any>;
/**
 * What to send to the model.
 */
export type ModelRequest<Message, Tool> = {
    /**
     * those that were given, with the notes and the tools that join them
     */
    messages: Message[];
    /**
     * those that are loaded, and the tool search
     */
    tools: Tool[];
    /**
     * what Anthropic has to be told
     */
    betas: string[];
    /**
     * all that the service answered, if it did
     */
    decision?: {
        id: string;
        kept: string[];
        cut: string[];
        refused: string[];
        reason: string;
        mode: string;
        open: boolean;
        explored: boolean;
        conversation: string;
        needs_name: boolean;
        error: string;
        cost_pressure: number | null;
        policy: string;
        tools: (string | {
            [key: string]: unknown;
        })[];
        search?: {
            [key: string]: unknown;
        }[];
        appended?: import("./api.js").components["schemas"]["JoiningTools"][];
        changed?: import("./api.js").components["schemas"]["ChangedMessage"][];
        betas?: string[];
        may_run?: string[];
        brought?: string[];
        ranking?: import("./api.js").components["schemas"]["RankedTool"][];
    } | undefined;
    /**
     * why messages and tools are those that were given
     */
    failure?: string | undefined;
};
/**
 * What to do with a call: run a tool, or answer with text.
 */
export type Answer = {
    id: string;
    run: Schemas["ToolRun"] | null;
    text: string;
};
