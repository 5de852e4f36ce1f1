/** The types of `@strata/action/testing`: tests of actions without the host. */

import type { Action, HostError, Media, Message, Output, Profile, Reply, Task } from "./index.js";

/** A reply of a model. The arguments of its tool calls are a text, or a value that becomes JSON. */
export interface ScriptedReply {
  text?: string;
  data?: unknown;
  toolCalls?: { id: string; name: string; arguments?: unknown }[];
  /** By default `tool-calls` if there are any, else `stop`. */
  finish?: Reply["finish"];
}

/** What a host grants and answers. What is not given is denied. */
export interface Given {
  /** The llm's replies, in order; an error in place of one is thrown. */
  replies?: (string | ScriptedReply | HostError)[];
  /** The vectors of each request for embeddings, in order. They are granted with `replies`. */
  embeddings?: (number[][] | HostError)[];
  /** Bytes of images and files that the action received, by digest. */
  blobs?: Record<string, Uint8Array>;
  /** Responses to requests, in order. */
  responses?: (string | { status?: number; headers?: Record<string, string>; body?: string | Uint8Array } | HostError)[];
  /** People's answers, in order; when none is left a question's default is taken, or it expires. */
  answers?: unknown[];
  /** Scopes and their values; `role` is always there. */
  state?: Record<string, Record<string, unknown>>;
  /** Files by path. The directories that hold them can be read. */
  files?: Record<string, string | Uint8Array>;
  /** Directories that can be written to, and read. */
  writable?: string[];
  /** Names of secrets, for all requests. */
  secrets?: string[];
  env?: Record<string, string | undefined>;
  memory?: (string | Partial<Message>)[];
  /** Where the clock stands; it moves only when the action sleeps. */
  now?: number;
}

/** What an action is called with; everything has a default. */
export interface Called {
  attempt?: number;
  idempotencyKey?: string;
  role?: Partial<Profile>;
  action?: string;
  index?: number;
  config?: unknown;
  news?: string | Partial<Message> | (string | Partial<Message>)[];
  outputs?: string | Partial<Message> | (string | Partial<Message>)[];
  task?: string | Task;
  /** Makes it a tool call. */
  arguments?: unknown;
}

/** What an action returned or emitted, as it reaches the host. */
export interface Sent extends Required<Pick<Output, "to" | "route">> {
  content: string;
  data: any;
  parts: Media[];
}

/** A host in memory, and what an action did with it. */
export interface FakeHost {
  /** Fails as the real host would see it: with an error that has a `kind` and a `message`. */
  run(action: Action, call?: Called): Promise<Sent>;
  plan(action: Action, call?: Called): Promise<(string | Task)[]>;
  /** To emit and to write to state or files is `invalid` here. */
  choose(
    action: Action,
    call?: Called & { round?: number; candidates?: (string | { name: string; description: string })[] },
  ): Promise<number>;
  /** The text of the last message of each request to the llm. */
  prompts: string[];
  /** Requests to the llm and the web, as they reach the host. */
  requests: any[];
  questions: string[];
  emitted: (Sent & { causeBy: string | null })[];
  logged: { level: "debug" | "info" | "warn" | "error"; text: string }[];
  state: Record<string, Record<string, any>>;
  /** What was given and written; what was written is a text if it is UTF-8. */
  files: Map<string, string | Uint8Array>;
  sleptMs: number;
}

export function fakeHost(given?: Given): FakeHost;
/** A message with defaults for what is not said, as the host hands it over. */
export function message(fields: string | Partial<Message>): Message;
