// The ways in which the probe misbehaves when it is told to `fail`. Each shows the host one kind of guest it has to
// survive.

import { Failure, log, state } from "@strata/action";
import unchecked from "strata:action/log@0.2.0";

const LOG_LINES = 64;
const LOG_LINE_BYTES = 64 * 1024;
const BIG_OUTPUT_BYTES = 9 * 1024 * 1024;
const FLOOD_CALLS = 100_000;
const ALLOCATION_BYTES = 1024 * 1024;

const EXCESSES = {
  trap: () => {
    // No engine has an instruction for it; what crosses the border in the wrong shape ends the instance. The SDK would
    // not let it pass.
    unchecked.write("info", 0);
  },
  error: () => {
    throw new Failure("error", "the probe was told to fail");
  },
  retryable: () => {
    throw new Failure("retryable", "the probe was told to fail in passing");
  },
  spin: () => {
    for (;;);
  },
  alloc: () => {
    const taken = [];
    for (;;) taken.push(new Uint8Array(ALLOCATION_BYTES).fill(1));
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

/** Misbehaves. An excess that ends the action with an output returns it. */
export function commit(excess, action) {
  const misbehave = EXCESSES[excess];
  if (!misbehave) throw new Failure("error", `\`${excess}\` is no excess of the probe`);
  return misbehave(action);
}
