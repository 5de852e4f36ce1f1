// The errors that authors throw and catch. `serve.js` makes faults from them.

import { checkResult } from "./validate.js";

/** The failure of an action. */
export class Failure extends Error {
  /** @param {"error"|"retryable"|"denied"|"host"} kind @param {string} message */
  constructor(kind, message, options) {
    super(message, options);
    this.name = "Failure";
    this.kind = checkResult("failure", kind, "the kind of a failure");
  }
}

/** The error of a host function. */
export class HostError extends Error {
  /** @param {"denied"|"invalid"|"not-found"|"upstream"|"out-of-budget"|"expired"|"failed"} kind @param {string} message */
  constructor(kind, message) {
    super(message);
    this.name = "HostError";
    this.kind = kind;
  }
}
