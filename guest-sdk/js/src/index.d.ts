/** The types of `@strata/action`. What runs is in the files beside. */

/** Anything JSON can hold. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** A message as a role sees it. */
export interface Message<D = any> {
  /** Unique within the run. */
  id: string;
  /** The text. */
  content: string;
  /** Structured content, where the sender attached any. */
  data: D | undefined;
  /** The label: the name of the action that produced it, or `UserRequirement` for the idea. */
  causeBy: string;
  /** The sending role; empty when it came from outside the team. */
  sentFrom: string;
  /** The recipients the sender named. */
  sendTo: string[];
  /** Images and files that belong to it, in order. */
  parts: Media[];
}

/** An image or a file. It has one of `data`, `url` and `digest`. */
export interface Media {
  type: "image" | "file";
  /** E.g. `image/png`. */
  mediaType: string;
  name?: string;
  /** The bytes. */
  data?: string | Uint8Array;
  /** An address that the provider of a model reads by itself. */
  url?: string;
  /** The SHA-256 of bytes that the host has stored, as an action receives them; `media.load` returns the bytes. */
  digest?: string;
  /** The number of those bytes. */
  size?: number;
}

/** A piece of a message: a text, an image or a file. */
export type Part = string | Media;

export const media: {
  /** The bytes. Fails with `not-found` if this attempt did not receive them. */
  load(media: Media): Uint8Array;
};
/** An image of these bytes. */
export function image(mediaType: string, data: string | Uint8Array): Media;
/** A file of any other type. */
export function file(mediaType: string, data: string | Uint8Array): Media;

/** The type of the values that a JSON Schema describes, as far as types, properties, items, enum and const go. */
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

/** Who is acting, as written in the team file. Absent texts are empty. */
export interface Profile {
  name: string;
  profile: string;
  goal: string;
  constraints: string;
  desc: string;
}

/** One leg of an itinerary: what `from` makes of the message goes to each of `to`. */
export interface Hop {
  from: string;
  to: string[];
}

/** One piece of planned work. */
export interface Task {
  text: string;
  /** Who shall do it; absent lets the host take the workers in turn. */
  action?: string;
}

/** Which try of a call this is. */
export interface Attempt {
  /** Counts from 1, across resumes. */
  number: number;
  /** The same in all attempts of the call: for services that remove duplicates by key. */
  idempotencyKey: string;
  /** For a tool call, the number of the model's reply that asks for it, from 0 in each activation. */
  turn: number | undefined;
  /** For a tool call, its position in that reply, from 0. */
  call: number | undefined;
  /** When the time of this attempt is over, in milliseconds since 1970; undefined if it has no such limit. */
  deadlineMs: number | undefined;
}

interface Call<C> {
  attempt: Attempt;
  role: Profile;
  /** The `config` of the team file. Where there is none: `{}` in `run` and `plan` if there is a `configSchema`, else null. */
  config: C;
  /** The messages this activation handles, oldest first. */
  news: Message[];
  /** What earlier actions of this activation returned, oldest first. */
  outputs: Message[];
  /** The role in words, to open a prompt with. */
  persona(): string;
}

/** What an action is called with. All but `attempt` is the same in every attempt of the same call. */
export interface Context<C = any, A = any> extends Call<C> {
  /** The action's name in the team file. */
  action: string;
  /** Its index in its role, from 0. */
  index: number;
  /** The planned task, in `plan_and_act` roles. */
  task: Task | undefined;
  /** The arguments of a tool call, which follow the `inputSchema`; undefined where the action is not called as a tool. */
  arguments: A;
  /** The newest message: the last output of this activation, else the last of the news. */
  readonly newest: Message | undefined;
  /** The text to work upon: of the newest output, else of all news, separated by blank lines. */
  readonly text: string;
  /** The data of the newest message. */
  readonly data: any;
  /** The newest message with this label. */
  labelled(causeBy: string): Message | undefined;
  /** Everything there is to work upon, as Markdown for a prompt. */
  briefing(): string;
}

/** What a thinker is called with. */
export interface Situation<C = any> extends Call<C> {
  /** How many choices this activation made before. */
  round: number;
  /** The role's actions, by index. */
  candidates: { name: string; description: string }[];
}

/** What an action returns. A text alone is its content; data alone becomes the content as JSON. Other keys are refused. */
export interface Output<D = any> {
  content?: string | number | bigint | boolean | null;
  data?: D;
  /** Images and files, in order. */
  parts?: Media[];
  /** Explicit recipients; absent leaves the choice to the environment. */
  to?: string[];
  /** An itinerary that travels with the message. */
  route?: Hop[];
}

/**
 * An action: `C` is its config, `D` the data it returns, `A` its arguments as a tool. `FromSchema<typeof schema>` is the
 * type of what an `inputSchema` that is declared `as const` describes.
 */
export interface Action<C = any, D = any, A = any> {
  /** By default what package.json says. */
  name?: string;
  version?: string;
  description?: string;
  /** JSON Schema of the config. */
  configSchema?: object;
  /** JSON Schema of the arguments it takes when a model calls it as a tool: an object. */
  inputSchema?: object;
  /** JSON Schema of the data it returns. */
  outputSchema?: object;
  /**
   * What it cannot work without: of `env`, `files`, `http`, `llm`, `secrets`. A team that does not grant them is
   * refused before it runs.
   */
  needs?: string[];
  /** Does the work. State and emissions count only if it returns. */
  run(cx: Context<C, A>): Returned<D> | Promise<Returned<D>>;
  /** As a thinker: the index of the action to run next; -1 or nothing ends the activation. */
  choose?(situation: Situation<C>): number | void | Promise<number | void>;
  /** As a planner: the tasks, in order. */
  plan?(cx: Context<C>): Iterable<string | Task> | Promise<Iterable<string | Task>>;
}

/** What `run` may return. */
export type Returned<D> = string | number | bigint | boolean | Output<D> | null | void;

/** Declares an action; it stands as the default export of the entry. */
export function action<C = any, D = any, A = any>(definition: Action<C, D, A>): Action<C, D, A>;

/** Why an action gives up. Only `retryable` failures are tried again by themselves. */
export class Failure extends Error {
  constructor(kind: FailureKind, message: string, options?: { cause?: unknown });
  kind: FailureKind;
}
export type FailureKind = "error" | "retryable" | "denied" | "host";

/** Why the host did not do what was asked. Uncaught, it is the action's failure. */
export class HostError extends Error {
  constructor(kind: HostErrorKind, message: string);
  kind: HostErrorKind;
}
export type HostErrorKind = "denied" | "invalid" | "not-found" | "upstream" | "out-of-budget" | "expired";

/** Publishes one more message, when the step commits. Data alone becomes the content as JSON. */
export function emit(emission: string | (Output & { causeBy?: string })): void;

/** Values that last between calls. The writer sees its own writes at once, others after the step. */
export interface Scope {
  get<T = any>(key: string): T | undefined;
  set(key: string, value: unknown): void;
  delete(key: string): void;
  keys(): string[];
}
export const state: {
  /** Private to the acting role. */
  role: Scope;
  /** One that the team file declares. */
  scope(name: string): Scope;
};

/** What the acting role handled and returned. */
export const memory: {
  /** The newest messages, oldest of them first: at most 1000, and at most `maxBytes` of text and data. */
  recent(limit: number, maxBytes?: number): Message[];
  labelled(causeBy: string, limit: number, maxBytes?: number): Message[];
};

/** Lines for the operator. `console` writes there, too. */
export const log: Record<"debug" | "info" | "warn" | "error", (text: string) => void>;

/** Time, from the host; recorded. `Date` reads the same clock. */
export const clock: {
  /** Milliseconds since 1970. */
  now(): number;
  sleep(durationMs: number): void;
};

/** Randomness, from the host; seeded and recorded. `Math.random` goes on from 16 bytes of it. */
export const random: { bytes(length: number): Uint8Array };

/** Variables of the host, by grant. */
export const env: { get(name: string): string | undefined };

/** Files below the granted directories. */
export const files: {
  read(path: string): Uint8Array;
  /** Fails if it is not UTF-8. A byte order mark is part of it. */
  readText(path: string): string;
  write(path: string, content: string | Uint8Array): void;
  /** A file or an empty directory. */
  remove(path: string): void;
  /** Sorted; names of directories end in `/`. */
  list(path: string): string[];
};

/** A question to a person. */
export interface Question {
  text: string;
  /** JSON Schema of the answer. */
  schema?: object;
  choices?: string[];
  /** Seconds there are for an answer, rounded up. */
  expiresS?: number;
  /** Taken when the time is over. */
  default?: unknown;
}
export const human: {
  /** Asks, and returns with the answer. What comes before a question must come out the same again. */
  ask<T = any>(question: string | Question): { value: T; source: "person" | "default" };
};

/** One message of a conversation. */
export type ChatMessage =
  | { speaker: "system"; content: string }
  | { speaker: "user"; content: string | Part[] }
  | { speaker: "assistant"; content: string | AssistantPart[] }
  /** The results of the tool calls of the reply before, in the order of the calls. */
  | { speaker: "tool"; content: ToolResult[] };
/** A piece of a model's reply. */
export type AssistantPart = string | Media | ToolCall | Opaque;
/** A call of a tool that the model asks for. */
export interface ToolCall {
  type: "tool-call";
  id: string;
  name: string;
  /** The arguments as the model wrote them: usually JSON that follows the tool's schema, but it may be anything. */
  arguments: string;
}
/** Something that only the provider understands and that it expects back unchanged, such as signed reasoning. */
export interface Opaque {
  type: "opaque";
  provider: string;
  model: string;
  data: any;
  /** The reasoning in it that people can read. */
  reasoning: string;
}
/** The result of a tool call. */
export interface ToolResult {
  call: string;
  tool: string;
  content: string | Part[];
  isError: boolean;
}
/** What is asked of a model. */
export interface LlmRequest {
  /** The last message, of the user. */
  prompt?: string | Part[];
  /** The first message. */
  system?: string;
  /** The messages between. */
  messages?: ChatMessage[];
  /** A name of the team file, or an id of the provider. */
  model?: string;
  /** Tools the model may ask for; `parameters` is JSON Schema. */
  tools?: { name: string; description: string; parameters?: object }[];
  /** Whether the model calls tools; with `{ tool }` it calls the one with this name. */
  toolChoice?: "auto" | "required" | "none" | { tool: string };
  /** JSON Schema of the reply. */
  outputSchema?: object;
  /** How much the model thinks: a word that the provider knows, e.g. `low`. */
  effort?: string;
  temperature?: number;
  maxTokens?: number;
  stop?: string[];
  seed?: number;
}
/** What a model answered. */
export interface Reply {
  text: string;
  data: any;
  /** The reply as it was received, as a message with which the conversation goes on. */
  message: { speaker: "assistant"; content: AssistantPart[] };
  toolCalls: ToolCall[];
  /** Why it ended; after `length` it is truncated. */
  finish: "stop" | "length" | "tool-calls" | "refusal" | "other";
  model: string;
  usage: {
    /** Including those read from a cache or written to one. */
    inputTokens: number;
    /** Including those of reasoning. */
    outputTokens: number;
    cacheReadTokens: number;
    cacheWriteTokens: number;
    reasoningTokens: number;
  };
}
/** Language models, by grant. Replies are recorded and not paid for twice. */
export const llm: {
  ask(request: string | Part[] | LlmRequest): Reply;
  /** All at once; results in the order of the requests. */
  askMany(requests: (string | Part[] | LlmRequest)[]): (Reply | HostError)[];
  /** The result of a tool call: texts, images, files, or any data, which becomes JSON. */
  result(call: ToolCall, content: unknown, options?: { isError?: boolean }): ToolResult;
  /** A vector for each text. */
  embed(request: string[] | { texts: string[]; model?: string; dimensions?: number }): {
    vectors: ArrayLike<number>[];
    model: string;
    inputTokens: number;
  };
};
/** A fenced block of code. */
export interface CodeBlock {
  /** What follows the opening fence; often empty. */
  language: string;
  code: string;
  /** Whether there is a closing fence. Where there is none the reply was probably cut off. */
  closed: boolean;
}
/** The first fenced block of code in a text. One without a closing fence reaches to the end. */
export function codeBlock(text: string): CodeBlock | undefined;

/** Stands for a secret: its text is replaced on the way out, and never read here. */
export interface Secret {
  readonly name: string;
  toString(): string;
}
export const secrets: { named(name: string): Secret };

/** How a request is made. */
export interface RequestOptions {
  /** `GET` where absent. */
  method?: string;
  /** A secret that is all of a value needs no mention in `secrets`. */
  headers?: Record<string, string | number | Secret>;
  body?: string | Uint8Array;
  /** A body of JSON. Its content type is `application/json`, unless `headers` say another. */
  json?: unknown;
  /** Shown as bearer token. */
  bearer?: Secret;
  /** Further secrets whose text stands in headers, query or body. */
  secrets?: (Secret | string)[];
  /** For the whole exchange; 30 seconds where absent. */
  timeoutMs?: number;
  /** For writes: the service knows a repetition by it. */
  idempotencyKey?: string;
}
/** What came back; any status is a response. */
export interface Response {
  status: number;
  headers: { name: string; value: string }[];
  body: Uint8Array;
  /** 200 to 299. */
  ok: boolean;
  /** A write in doubt that the operator chose to skip. */
  skipped: boolean;
  header(name: string): string | undefined;
  text(): string;
  json(): any;
}
/** Requests, by grant. */
export const http: {
  fetch(url: string, options?: RequestOptions): Response;
  /** At most 64 at once; results in the order of the requests. */
  fetchMany(requests: (RequestOptions & { url: string })[]): (Response | HostError)[];
};
