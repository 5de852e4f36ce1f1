// Promises without an event loop. The engine runs no jobs during a synchronous call, so the queued jobs are run here
// until the promise that an action returned is settled. Host calls do not return promises.

import { finish, queueMicrotask, turn } from "./timers.js";
import { log } from "./environment.js";
import Promise from "promise-polyfill";

/** The maximum number of unhandled errors that are logged individually. */
const MAX_LOGGED = 10;

Promise._immediateFn = queueMicrotask;
Promise._unhandledRejectionFn = () => {};
globalThis.Promise = Promise;

// The rejected promises without a handler. After a promise is rejected, the polyfill reads `_handled` to check whether
// it has a handler. It sets `_handled` when a handler is added, which may be later.
const unhandled = new Set();
Object.defineProperty(Promise.prototype, "_handled", {
  get() {
    if (!this._isHandled) unhandled.add(this);
    return this._isHandled;
  },
  set(isHandled) {
    this._isHandled = isHandled;
    if (isHandled) unhandled.delete(this);
  },
});

/**
 * Returns the value, or the result of the promise. Unhandled rejections and errors of other jobs are logged, formatted
 * by `describe`. They do not make the call fail.
 */
export function settle(value, describe) {
  const thrown = [];
  let remains = [];
  try {
    const result = wait(value);
    remains = finish((error) => thrown.push(error));
    return result;
  } finally {
    const rejected = Array.from(unhandled, ({ _value }) => _value);
    unhandled.clear();
    warn("a promise was rejected without a handler", rejected, describe);
    warn("an error was thrown after the action returned", thrown, describe);
    remains.forEach((line) => log.warn(line));
  }
}

function wait(value) {
  if (typeof value?.then !== "function") return value;
  let settled;
  const fail = (error) => {
    settled = () => {
      throw error;
    };
  };
  value.then((result) => (settled = () => result), fail);
  while (!settled) turn();
  return settled();
}

function warn(what, errors, describe) {
  errors.slice(0, MAX_LOGGED).forEach((error) => log.warn(`${what}: ${describeSafely(error, describe)}`));
  if (errors.length > MAX_LOGGED) log.warn(`${what}: ${errors.length - MAX_LOGGED} more`);
}

function describeSafely(error, describe) {
  try {
    return describe(error);
  } catch {
    return "an error that cannot be converted to a string";
  }
}
