// The ways in which the probe misbehaves in a `fail` step. Each is a kind of guest that the host has to survive.

import { Failure, log, state } from "@strata/action";
import unchecked from "strata:action/log@0.2.0";

const LOG_LINES = 64;
const LOG_LINE_BYTES = 64 * 1024;
const BIG_OUTPUT_BYTES = 9 * 1024 * 1024;
const FLOOD_CALLS = 100_000;
const ALLOCATION_BYTES = 1024 * 1024;

const MISBEHAVIOURS = {
  trap: () => {
    // JavaScript has no statement that traps, but a value of the wrong type does, if it is passed to an interface
    // without the validation of the SDK.
    unchecked.write("info", 0);
  },
  error: () => {
    throw new Failure("error", "the probe was told to fail");
  },
  retryable: () => {
    throw new Failure("retryable", "the probe was told to fail temporarily");
  },
  spin: () => {
    for (;;);
  },
  alloc: () => {
    const blocks = [];
    for (;;) blocks.push(new Uint8Array(ALLOCATION_BYTES).fill(1));
  },
  recurse: () => {
    const recurse = (depth) => recurse(depth + 1) + 1;
    recurse(1);
  },
  invalid: (action) => ({ content: `${action} ok`, data: "no schema asks for this" }),
  "big-output": () => ({ content: "x".repeat(BIG_OUTPUT_BYTES) }),
  "flood-log": () => {
    const line = "flood ".repeat(LOG_LINE_BYTES / 6);
    for (let i = 0; i < LOG_LINES; i += 1) log.info(line);
  },
  "flood-calls": () => {
    for (let i = 0; i < FLOOD_CALLS; i += 1) state.role.get("flood");
  },
};

/** Misbehaves. Returns the output with which the action ends, or undefined if the action continues. */
export function misbehave(kind, action) {
  const run = MISBEHAVIOURS[kind];
  if (!run) throw new Failure("error", `\`${kind}\` is not a kind of failure`);
  return run(action);
}
