/** Type declarations of `@strata/action`. */

/** A value that JSON can represent. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A message in a role's mailbox or memory. */
export interface Message<D = any> {
  /** The id, which is unique within the run. */
  id: string;
  /** The text. */
  content: string;
  /** The structured content, or undefined. */
  data: D | undefined;
  /** The label: the name of the action that produced the message, or `UserRequirement` for the idea. */
  causeBy: string;
  /** The name of the sending role; empty if the message comes from outside the team. */
  sentFrom: string;
  /** The recipients that the sender named; `<all>` for a broadcast. */
  sendTo: string[];
  /** The images and files of the message, in order. */
  parts: Media[];
}

/** An image or a file. Exactly one of `data`, `url` and `digest` is set. */
export interface Media {
  /** The kind of media. */
  type: "image" | "file";
  /** The media type, e.g. `image/png`. */
  mediaType: string;
  /** The file name. */
  name?: string;
  /** The bytes. A string stands for its bytes in UTF-8. */
  data?: string | Uint8Array;
  /** A URL that the provider of the model reads. The host does not read it. */
  url?: string;
  /** The SHA-256 digest of bytes that the host has stored, in hexadecimal. `media.load` returns the bytes. */
  digest?: string;
  /** The number of stored bytes. */
  size?: number;
}

/** A part of a message: text, an image or a file. */
export type Part = string | Media;

/** Images and files that the action received. */
export const media: {
  /**
   * Returns the bytes of an image or a file.
   *
   * @throws HostError `not-found` if this attempt did not receive it; `invalid` if it has a URL, which the host does
   * not read.
   */
  load(media: Media): Uint8Array;
};
/** Returns an image with these bytes. */
export function image(mediaType: string, data: string | Uint8Array): Media;
/** Returns a file that is not an image, with these bytes. */
export function file(mediaType: string, data: string | Uint8Array): Media;

/**
 * The type of the values that match a JSON Schema. Supports `type`, `properties`, `required`, `items`, `enum` and
 * `const`; any other schema becomes `any`.
 */
export type FromSchema<S> = S extends { const: infer V } ? V
  : S extends { enum: readonly (infer V)[] } ? V
  : S extends { type: "string" } ? string
  : S extends { type: "integer" | "number" } ? number
  : S extends { type: "boolean" } ? boolean
  : S extends { type: "null" } ? null
  : S extends { type: "array"; items: infer I } ? FromSchema<I>[]
  : S extends { properties: infer P; required: readonly (infer R)[] }
    ? { [K in keyof P as K extends R ? K : never]: FromSchema<P[K]> }
      & { [K in keyof P as K extends R ? never : K]?: FromSchema<P[K]> }
  : S extends { properties: infer P } ? { [K in keyof P]?: FromSchema<P[K]> }
  : any;

/** The description of a role in the team file. Texts that the file omits are empty. */
export interface Profile {
  name: string;
  profile: string;
  goal: string;
  constraints: string;
  desc: string;
}

/** One stage of an itinerary: when `from` has handled the message, its output is sent to each name in `to`. */
export interface Hop {
  /** The name of the role that handles the message. */
  from: string;
  /** The recipients of that role's output. */
  to: string[];
}

/** A task of a plan. */
export interface Task {
  /** What is to be done. */
  text: string;
  /**
   * The name of the action that carries it out. If it is absent, the host assigns the role's actions except the first
   * in turn.
   */
  action?: string;
}

/** The attempt of a call that is being made. */
export interface Attempt {
  /** The number of the attempt, from 1. It keeps counting when the run is resumed. */
  number: number;
  /** A key that is the same in all attempts of the call, for services that remove duplicates by a key. */
  idempotencyKey: string;
  /** For a tool call, the index of the model's reply in this activation, from 0; otherwise undefined. */
  turn: number | undefined;
  /** For a tool call, its index in that reply, from 0; otherwise undefined. */
  call: number | undefined;
  /** The time at which this attempt is stopped, in milliseconds since 1970; undefined if it has no time limit. */
  deadlineMs: number | undefined;
}

interface Call<C> {
  /** The current attempt. */
  attempt: Attempt;
  /** The profile of the acting role. */
  role: Profile;
  /**
   * The `config` of the team file. If the team file has none: `{}` in `run` and `plan` of an action with a
   * `configSchema`, and otherwise null.
   */
  config: C;
  /** The messages that this activation handles, oldest first. */
  news: Message[];
  /** The outputs of earlier actions of this activation, oldest first. */
  outputs: Message[];
  /** Returns the profile of the role as the text of a system prompt. */
  persona(): string;
}

/** The parameter of `run` and `plan`. Except for `attempt`, it is the same in all attempts of a call. */
export interface Context<C = any, A = any> extends Call<C> {
  /** The name of the action in the team file. */
  action: string;
  /** The index of the action in its role, from 0. */
  index: number;
  /** The task that this call carries out, in roles with `react = "plan_and_act"`; otherwise undefined. */
  task: Task | undefined;
  /** The arguments of a tool call, which match `inputSchema`; undefined if the action is not called as a tool. */
  arguments: A;
  /** The newest output of this activation, or else the newest of `news`. */
  readonly newest: Message | undefined;
  /** The content of the newest output of this activation, or else of all `news`, separated by empty lines. */
  readonly text: string;
  /** The data of `newest`. */
  readonly data: any;
  /** Returns the newest message with this label, or undefined. */
  labelled(causeBy: string): Message | undefined;
  /** Returns the task, the news and the outputs as one Markdown text for a model. */
  briefing(): string;
}

/** The parameter of `choose`. */
export interface Situation<C = any> extends Call<C> {
  /** The number of choices made earlier in this activation. */
  round: number;
  /** The actions of the role, in order. `choose` returns an index into this array. */
  candidates: { name: string; description: string }[];
}

/** The output of an action. Unknown keys are a `TypeError`. */
export interface Output<D = any> {
  /** The text. If it is absent, `data` as JSON. */
  content?: string | number | bigint | boolean | null;
  /** The structured content: any value that JSON can represent. */
  data?: D;
  /** The images and files of the output, in order. */
  parts?: Media[];
  /** The recipients. If it is absent, routes and watched labels decide; if it is empty, nobody receives the output. */
  to?: string[];
  /** An itinerary that travels with the message. */
  route?: Hop[];
}

/**
 * The definition of an action.
 *
 * @typeParam C - The type of the config.
 * @typeParam D - The type of the data of the output.
 * @typeParam A - The type of the arguments of a tool call. `FromSchema<typeof schema>` is the type for an `inputSchema`
 * that is declared `as const`.
 */
export interface Action<C = any, D = any, A = any> {
  /** The name. By default that of package.json. */
  name?: string;
  /** The version. By default that of package.json. */
  version?: string;
  /** What the action does; a model may read it to choose the action. By default that of package.json. */
  description?: string;
  /** The JSON Schema of the config. */
  configSchema?: object;
  /**
   * The JSON Schema of the arguments of a tool call, which are an object. Only needed if a model may call the action.
   */
  inputSchema?: object;
  /** The JSON Schema of the data of the output. */
  outputSchema?: object;
  /**
   * The capabilities that the action requires: `env`, `files`, `http`, `llm` or `secrets`. A team that does not grant
   * them is rejected before it runs.
   */
  needs?: string[];
  /** Runs the action. If it throws, its state changes and emissions are discarded. */
  run(cx: Context<C, A>): Returned<D> | Promise<Returned<D>>;
  /** For a thinker: returns the index of the next action. -1 or undefined ends the activation. */
  choose?(situation: Situation<C>): number | void | Promise<number | void>;
  /** For a planner: returns the tasks, in order. */
  plan?(cx: Context<C>): Iterable<string | Task> | Promise<Iterable<string | Task>>;
}

/** The result of `run`: an output, or only its content. */
export type Returned<D> = string | number | bigint | boolean | Output<D> | null | void;

/** Returns the definition unchanged. The default export of the entry point must be an action. */
export function action<C = any, D = any, A = any>(definition: Action<C, D, A>): Action<C, D, A>;

/** The failure of an action. Only failures of the kind `retryable` are retried automatically. */
export class Failure extends Error {
  constructor(kind: FailureKind, message: string, options?: { cause?: unknown });
  /** The kind of the failure. */
  kind: FailureKind;
}
/** The kind of a failure: `error`, `retryable`, `denied` (a grant is missing) or `host` (a host function failed). */
export type FailureKind = "error" | "retryable" | "denied" | "host";

/** The error of a host function. If it is not caught, it becomes the failure of the action. */
export class HostError extends Error {
  constructor(kind: HostErrorKind, message: string);
  /** The kind of the error. */
  kind: HostErrorKind;
}
/**
 * The kind of an error of the host: `denied` (not granted), `invalid` (the request is not valid), `not-found`,
 * `upstream` (the service failed), `out-of-budget`, `expired` (a question was not answered in time) or `failed` (a tool
 * reported an error).
 */
export type HostErrorKind = "denied" | "invalid" | "not-found" | "upstream" | "out-of-budget" | "expired" | "failed";

/**
 * Publishes a message when the step is committed. It is discarded if this attempt fails. `causeBy` is the label, by
 * default the name of the action.
 */
export function emit(emission: string | (Output & { causeBy?: string })): void;

/**
 * A named set of keys and values that persist between calls. The writer sees its own writes at once, other roles after
 * the step has been committed. All methods throw a `HostError` of the kind `invalid` if the team file does not declare
 * the scope.
 */
export interface Scope {
  /** Returns the value of a key, or undefined. */
  get<T = any>(key: string): T | undefined;
  /** Sets the value of a key. In a scope with a reducer, passes the value to the reducer. */
  set(key: string, value: unknown): void;
  /** Deletes a key. Does nothing if the key does not exist. */
  delete(key: string): void;
  /** Returns the keys in sorted order. */
  keys(): string[];
}
/** The state of the team. */
export const state: {
  /** The private scope of the acting role. */
  role: Scope;
  /** Returns the scope with this name, as declared under `[env.scope]` in the team file. */
  scope(name: string): Scope;
};

/** The memory of the acting role: the messages it has handled and the outputs of its actions. */
export const memory: {
  /**
   * Returns the newest messages, oldest first: at most `limit`, never more than 1000, and at most `maxBytes` bytes of
   * text and data.
   */
  recent(limit: number, maxBytes?: number): Message[];
  /** Returns the newest messages with this label, oldest first. The bounds are those of `recent`. */
  labelled(causeBy: string, limit: number, maxBytes?: number): Message[];
  /**
   * Replaces the oldest `upTo` messages of the conversation in which this action is a tool call, in what the model is
   * sent, by a text. Takes effect with the next request to the model, if the action succeeds. The first news and the
   * newest reply with its results stay, and a reply and the results of its calls are replaced together or not at all.
   */
  replace(upTo: number, summary: string): void;
};

/** The log of the action, which the operator reads. `console` writes to it as well. */
export const log: Record<"debug" | "info" | "warn" | "error", (text: string) => void>;

/**
 * The clock of the host. Readings are recorded; a repeated attempt gets the recorded ones. `Date` uses the same clock.
 */
export const clock: {
  /** Returns the milliseconds since 1970-01-01T00:00:00Z. */
  now(): number;
  /** Suspends the action. This counts toward its `timeout` limit, not toward `cpu`. */
  sleep(durationMs: number): void;
};

/**
 * Random values of the host. They are recorded; a repeated attempt gets the same ones. `Math.random` is seeded from
 * them.
 */
export const random: {
  /**
   * Returns random bytes.
   *
   * @throws HostError `invalid` if `length` is greater than 65536.
   */
  bytes(length: number): Uint8Array;
};

/** Environment variables of the host, as granted by `allow.env`. */
export const env: {
  /**
   * Returns the value of a variable, or undefined if it is not set.
   *
   * @throws HostError `denied` if it is not granted.
   */
  get(name: string): string | undefined;
};

/**
 * Files in the directories that `allow.dirs` grants, by their paths in the guest, e.g. `/out/game.html`. All functions
 * throw a `HostError` of the kind `denied` if the path is not granted.
 */
export const files: {
  /**
   * Returns the content of a file.
   *
   * @throws HostError `not-found`; `invalid` if it is not a regular file.
   */
  read(path: string): Uint8Array;
  /**
   * Returns the content of a UTF-8 file. A byte order mark is part of the content.
   *
   * @throws Failure if the file is not UTF-8. The other errors are those of `read`.
   */
  readText(path: string): string;
  /** Creates or replaces a file. Missing parent directories inside the grant are created. */
  write(path: string, content: string | Uint8Array): void;
  /**
   * Removes a file or an empty directory.
   *
   * @throws HostError `not-found`; `invalid` if the directory is not empty.
   */
  remove(path: string): void;
  /** Returns the names in a directory in sorted order. Names of directories end in `/`. */
  list(path: string): string[];
};

/** A question to a person. */
export interface Question {
  /** The question, in plain text. */
  text: string;
  /** The JSON Schema of the answer. If it is absent, any answer is accepted. */
  schema?: object;
  /** The allowed answers, at most 100. If it is absent or empty, any answer is allowed. */
  choices?: string[];
  /** The time limit in seconds, rounded up. If it is absent, the question does not expire. */
  expiresS?: number;
  /** The answer to use when the question expires. */
  default?: unknown;
}
/** Questions to people. They need no grant. */
export const human: {
  /**
   * Asks a question, and returns the answer. The attempt ends at the question; when it is answered, the action is run
   * again and gets the recorded results of its earlier host calls. What it computes before the question must give the
   * same result each time.
   *
   * @throws HostError `expired` if the question expires without a default; `invalid` if no answer could be valid.
   */
  ask<T = any>(question: string | Question): { value: T; source: "person" | "default" };
};

/** A message of a conversation. */
export type ChatMessage =
  | { speaker: "system"; content: string }
  | { speaker: "user"; content: string | Part[] }
  | { speaker: "assistant"; content: string | AssistantPart[] }
  /** One result for each tool call of the previous reply, in the same order. */
  | { speaker: "tool"; content: ToolResult[] };
/** A part of a model's reply. */
export type AssistantPart = string | Media | ToolCall | Opaque;
/** A tool call that the model requests. */
export interface ToolCall {
  type: "tool-call";
  /** The id that connects the call with its result. */
  id: string;
  /** The name of the tool. */
  name: string;
  /**
   * The arguments as the model wrote them. They should be JSON that matches the tool's schema, but they may be any
   * text.
   */
  arguments: string;
}
/** Data that only the provider understands and that must be sent back unchanged, such as signed reasoning. */
export interface Opaque {
  type: "opaque";
  /** The protocol of the provider, e.g. `anthropic`. */
  provider: string;
  /** The id of the model at the provider. */
  model: string;
  /** The value. It must not be changed. */
  data: any;
  /** The readable part of the reasoning; may be empty. */
  reasoning: string;
}
/** The result of a tool call. */
export interface ToolResult {
  /** The id of the tool call. */
  call: string;
  /** The name of the tool. */
  tool: string;
  /** The parts of the result. If the provider accepts only text, images and files are replaced by descriptions. */
  content: string | Part[];
  /** Whether the tool call failed. */
  isError: boolean;
}
/** A request to a language model. Its messages are `system`, then `messages`, then `prompt`. */
export interface LlmRequest {
  /** A message of the user, which is the last one. */
  prompt?: string | Part[];
  /** The system prompt. */
  system?: string;
  /** A conversation, oldest message first. */
  messages?: ChatMessage[];
  /** The model: a name in the team file, or an id of the provider. If it is absent, the role's model. */
  model?: string;
  /**
   * The tools that the model may call. The action carries out the calls. `parameters` is a JSON Schema of an object.
   */
  tools?: { name: string; description: string; parameters?: object }[];
  /**
   * Whether the model calls tools: `required` for at least one, `{ tool }` for the one with this name. Default: `auto`.
   */
  toolChoice?: "auto" | "required" | "none" | { tool: string };
  /** The JSON Schema of the reply. If it is absent, the reply is text. */
  outputSchema?: object;
  /** The reasoning effort, as named by the provider, e.g. `low`. */
  effort?: string;
  /** The sampling temperature, as defined by the provider. */
  temperature?: number;
  /** The maximum number of output tokens. */
  maxTokens?: number;
  /** Strings that end the reply when the model writes them. */
  stop?: string[];
  /** A sampling seed, if the provider supports one. */
  seed?: number;
}
/** The reply of a language model. */
export interface Reply {
  /** The text. */
  text: string;
  /** The structured reply, if the request had an `outputSchema`; otherwise undefined. */
  data: any;
  /** The reply as it was received, as a message of the conversation. */
  message: { speaker: "assistant"; content: AssistantPart[] };
  /** The tool calls that the model requests. */
  toolCalls: ToolCall[];
  /** The finish reason. `length` means that the reply was truncated. */
  finish: "stop" | "length" | "tool-calls" | "refusal" | "other";
  /** The model that replied, as named in the reply. */
  model: string;
  /** The numbers of tokens. */
  usage: {
    /** The tokens of the request, including `cacheReadTokens` and `cacheWriteTokens`. */
    inputTokens: number;
    /** The tokens of the reply, including `reasoningTokens`. */
    outputTokens: number;
    /** The tokens of the request that the provider read from its cache. */
    cacheReadTokens: number;
    /** The tokens of the request that the provider wrote to its cache. */
    cacheWriteTokens: number;
    /** The tokens of the reply that were used for reasoning. */
    reasoningTokens: number;
  };
}
/**
 * Language models, as granted by `allow.llm`. Replies are recorded; a repeated attempt gets the recorded ones and is
 * not charged again.
 */
export const llm: {
  /**
   * Sends a request, and returns the reply.
   *
   * @throws HostError `denied` if the model is not granted or the granted calls are used up; `upstream` if the provider
   * fails or the reply does not match the schema; `out-of-budget`; `invalid` if the request is not valid.
   */
  ask(request: string | Part[] | LlmRequest): Reply;
  /**
   * Sends several requests in parallel, at most 64. The results are in the order of the requests; errors are not
   * thrown.
   */
  askMany(requests: (string | Part[] | LlmRequest)[]): (Reply | HostError)[];
  /**
   * Returns the result of a tool call. `content` is a string, an image, a file, or an array of these. Any other value
   * is converted to JSON.
   */
  result(call: ToolCall, content: unknown, options?: { isError?: boolean }): ToolResult;
  /**
   * Returns a vector for each text, at most 2048. `dimensions` is the length of the vectors, if the provider lets it be
   * chosen.
   *
   * @throws HostError as `ask`, and `invalid` if the provider has no embeddings.
   */
  embed(request: string[] | { texts: string[]; model?: string; dimensions?: number }): {
    vectors: ArrayLike<number>[];
    model: string;
    inputTokens: number;
  };
};
/** A fenced code block. */
export interface CodeBlock {
  /** The text after the opening fence, usually a language; may be empty. */
  language: string;
  /** The text between the fences. */
  code: string;
  /** Whether there is a closing fence. If not, the reply was probably truncated. */
  closed: boolean;
}
/** Returns the first fenced code block in a text, or undefined. A block without a closing fence extends to the end. */
export function codeBlock(text: string): CodeBlock | undefined;

/** Returns the fenced code blocks in a text, in order. */
export function codeBlocks(text: string): CodeBlock[];

/** A granted secret. The action cannot read its value; the host replaces the placeholder when it sends the request. */
export interface Secret {
  /** The name. */
  readonly name: string;
  /** Returns the placeholder. */
  toString(): string;
}
/** Secrets of the operator. */
export const secrets: {
  /**
   * Returns the secret with this name.
   *
   * @throws HostError `denied` if neither `allow.secrets` nor `allow.http` names it.
   */
  named(name: string): Secret;
};

/** A tool that is granted. */
export interface Tool {
  /** The name. */
  name: string;
  /** What it does; empty if that is not known. */
  description: string;
  /** The JSON Schema of its arguments. */
  inputSchema: unknown;
}
/**
 * Tools of the acting role, which `allow.tools` grants. Each call is an attempt of its own, and is recorded: a repeated
 * attempt of the action is served what has ended if it makes the same calls.
 */
export const tools: {
  /** Returns the tools that are granted, in the order of the team file. */
  list(): Tool[];
  /**
   * Calls a tool, and returns the data of its result, or else its text.
   *
   * @throws HostError `failed` if the tool reports an error or the call is rejected; `denied` if it is not granted.
   */
  call(name: string, args?: object): any;
  /**
   * Makes several calls, at most 64, at the same time. Returns the results in the order of the calls.
   *
   * @throws HostError of the first call that failed, once all have ended.
   */
  callMany(calls: Iterable<[name: string, args?: object]>): any[];
};

/** The result of a tool of an MCP server. */
export interface McpResult {
  /**
   * All of it as text: the texts in their order, and the structured data as JSON unless a text says the same. Images and
   * other bytes are named by their type and size.
   */
  text: string;
  /** The structured data; otherwise undefined. */
  data: any;
  /** The blocks as the server sent them. Bytes are in Base64. */
  content: any[];
  /** Whether the tool says that it failed. */
  isError: boolean;
}
/**
 * Tools of the team's MCP servers, which `allow.mcp` grants. Results are recorded: a repeated attempt gets the recorded
 * ones. If the answer of a call that may change something is lost, it is repeated only if that is harmless; otherwise
 * the run stops until the operator has decided.
 */
export const mcp: {
  /**
   * Calls a tool of a server. A result that says that the tool failed is no exception.
   *
   * @throws HostError `denied` if it is not granted; `not-found` if there is no such tool; `invalid` if the server refuses
   * the call; `upstream` if there is no answer.
   */
  call(server: string, tool: string, args?: object): McpResult;
};

/** The options of an HTTP request. */
export interface RequestOptions {
  /** The method. Default: `GET`. */
  method?: string;
  /** The headers. A value that is a `Secret` need not be listed in `secrets`. */
  headers?: Record<string, string | number | Secret>;
  /** The body. */
  body?: string | Uint8Array;
  /**
   * A value to send as a JSON body instead of `body`. Its content type is `application/json` unless `headers` contain
   * another.
   */
  json?: unknown;
  /** A secret to send as the bearer token. */
  bearer?: Secret;
  /** The other secrets whose placeholders are in the headers, the query or the body. */
  secrets?: (Secret | string)[];
  /** The time limit of the whole exchange, at most 600000. Default: 30000. */
  timeoutMs?: number;
  /** A key by which the service recognizes a repeated write. */
  idempotencyKey?: string;
}
/** An HTTP response. */
export interface Response {
  /** The status code; 0 for a write that was in doubt and that the operator skipped. */
  status: number;
  /** The headers, with names in lower case. */
  headers: { name: string; value: string }[];
  /** The body. */
  body: Uint8Array;
  /** Whether the status is from 200 to 299. */
  ok: boolean;
  /** Whether the operator skipped the request, so that there is no response. */
  skipped: boolean;
  /** Returns the value of the first header with this name, or undefined. */
  header(name: string): string | undefined;
  /**
   * Returns the body, decoded as it says: by a byte order mark, the `charset` of the content type, or the encoding that an
   * HTML or XML document declares, else as UTF-8. Invalid bytes are replaced by U+FFFD.
   *
   * @throws RangeError if the encoding is not supported.
   */
  text(): string;
  /** Returns the parsed JSON body. Throws a `SyntaxError` if it is not JSON. */
  json(): any;
}
/**
 * HTTP and HTTPS requests, as granted by `allow.http`. Responses are recorded; a repeated attempt gets the recorded
 * ones.
 *
 * A request other than `GET` and `HEAD` is a write. If its response is lost, it is repeated only if it has an
 * `idempotencyKey`. Otherwise, the run stops until the operator has decided.
 */
export const http: {
  /**
   * Sends a request, and returns the response, whatever its status is.
   *
   * @throws HostError `denied` if the request is not granted; `invalid` if it is not valid; `upstream` if there is no
   * response, or one of more than 8 MiB.
   */
  fetch(url: string, options?: RequestOptions): Response;
  /**
   * Sends several requests in parallel, at most 64. The results are in the order of the requests; errors are not
   * thrown.
   */
  fetchMany(requests: (RequestOptions & { url: string })[]): (Response | HostError)[];
};
