/** Type declarations of `@strata/action/testing`: tests of actions with a host in memory, without WebAssembly. */

import type { Action, HostError, McpResult, Media, Message, Output, Profile, Reply, Task } from "./index.js";

/** A reply of a model. */
export interface ScriptedReply {
  text?: string;
  data?: unknown;
  /** The tool calls. Arguments that are not a string are converted to JSON. */
  toolCalls?: { id: string; name: string; arguments?: unknown }[];
  /** The finish reason. Default: `tool-calls` if there are any, else `stop`. */
  finish?: Reply["finish"];
}

/** What the host grants and answers. Nothing is granted by default. */
export interface Given {
  /** The replies of the llm, in order. An error is thrown. If it is absent, the llm is not granted. */
  replies?: (string | ScriptedReply | HostError)[];
  /** The results of `llm.embed`, in order: an array of vectors, or an error to throw. Granted by `replies`. */
  embeddings?: (number[][] | HostError)[];
  /** The bytes of received images and files, by digest. */
  blobs?: Record<string, Uint8Array>;
  /**
   * The responses of http, in order: a string is the body of one with status 200. If it is absent, http is not granted.
   */
  responses?: (string | { status?: number; headers?: Record<string, string>; body?: string | Uint8Array } | HostError)[];
  /** The answers of people, in order. If none is left, the question's default is returned, or the question expires. */
  answers?: unknown[];
  /** The contents of the declared scopes. `role` always exists. */
  state?: Record<string, Record<string, unknown>>;
  /** The files by path. The directories that contain them are readable. */
  files?: Record<string, string | Uint8Array>;
  /** The writable directories. They are readable as well. */
  writable?: string[];
  /** The names of the granted secrets. */
  secrets?: string[];
  /** The granted tools, as functions of their arguments. An error is a thrown `HostError` of the kind `failed`. */
  tools?: Record<string, (args: any) => unknown>;
  /**
   * The granted tools of MCP servers, `SERVER/TOOL`, as functions of their arguments. A string is a result with this
   * text. An error is a thrown `HostError`.
   */
  mcp?: Record<string, (args: any) => string | Partial<McpResult>>;
  /** The granted environment variables. An undefined one is granted but not set. */
  env?: Record<string, string | undefined>;
  /** The memory of the role, oldest message first. */
  memory?: (string | Partial<Message>)[];
  /** The time in milliseconds since 1970. It advances only when the action sleeps. Default: 0. */
  now?: number;
}

/** The input of a call. Every field has a default. */
export interface Called {
  /** The number of the attempt. Default: 1. */
  attempt?: number;
  idempotencyKey?: string;
  role?: Partial<Profile>;
  /** The name of the action. Default: `Test`. */
  action?: string;
  index?: number;
  config?: unknown;
  news?: string | Partial<Message> | (string | Partial<Message>)[];
  outputs?: string | Partial<Message> | (string | Partial<Message>)[];
  task?: string | Task;
  /** The arguments of a tool call. If it is absent, the action is not called as a tool. */
  arguments?: unknown;
}

/** An output or an emission, as the host receives it. */
export interface Sent extends Required<Pick<Output, "to" | "route">> {
  content: string;
  data: any;
  parts: Media[];
}

/** A host in memory. It records what an action does. */
export interface FakeHost {
  /**
   * Runs an action, and returns its output. Rejects with an error that has the `kind` and the `message` of the failure.
   */
  run(action: Action, call?: Called): Promise<Sent>;
  /** Runs a planner, and returns its tasks. Fails as `run`. */
  plan(action: Action, call?: Called): Promise<(string | Task)[]>;
  /**
   * Runs a thinker, and returns the index that it chooses, or -1 if it ends the activation. Fails as `run`. Emitting
   * and writing state or files throw a `HostError` of the kind `invalid`.
   */
  choose(
    action: Action,
    call?: Called & { round?: number; candidates?: (string | { name: string; description: string })[] },
  ): Promise<number>;
  /** The text of the last message of each request to the llm. */
  prompts: string[];
  /** The requests to the llm and to http, as the host receives them. */
  requests: any[];
  /** The texts of the questions to people. */
  questions: string[];
  /** The calls of tools of MCP servers. */
  mcpCalls: [server: string, tool: string, args: any][];
  /** The emitted messages. */
  emitted: (Sent & { causeBy: string | null })[];
  /** The calls of `memory.replace`. */
  replaced: { upTo: number; summary: string }[];
  /** The log. */
  logged: { level: "debug" | "info" | "warn" | "error"; text: string }[];
  /** The contents of the scopes. */
  state: Record<string, Record<string, any>>;
  /**
   * The files by path: those that were given and those that were written. Written content is a string if it is UTF-8.
   */
  files: Map<string, string | Uint8Array>;
  /** The total of the milliseconds slept. */
  sleptMs: number;
}

/** Returns a host in memory that grants and answers what it is given. Limits are not enforced. */
export function fakeHost(given?: Given): FakeHost;
/** Returns a message in the form of the host's interface, with defaults for absent fields. */
export function message(fields: string | Partial<Message>): Message;
