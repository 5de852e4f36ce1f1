// The two errors that authors meet. How they become a fault is in `serve.js`.

import { result } from "./border.js";

/** Why an action gives up. */
export class Failure extends Error {
  /** @param {"error"|"retryable"|"denied"|"host"} kind @param {string} message */
  constructor(kind, message, options) {
    super(message, options);
    this.name = "Failure";
    this.kind = result("failure", kind, "the kind of a failure");
  }
}

/** Why the host did not do what was asked. */
export class HostError extends Error {
  /** @param {"denied"|"invalid"|"not-found"|"upstream"|"out-of-budget"|"expired"} kind @param {string} message */
  constructor(kind, message) {
    super(message);
    this.name = "HostError";
    this.kind = kind;
  }
}
