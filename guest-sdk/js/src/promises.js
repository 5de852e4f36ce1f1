// Promises without an event loop: the engine has no turns of its own in a synchronous call, so what is queued runs
// here, until the promise that an action returned is settled. Host calls do not return promises.

import { finish, queueMicrotask, turn } from "./timers.js";
import { log } from "./environment.js";
import Promise from "promise-polyfill";

/** How many errors that nobody waits for are told one by one. */
const TOLD = 10;

Promise._immediateFn = queueMicrotask;
Promise._unhandledRejectionFn = () => {};
globalThis.Promise = Promise;

// The rejected promises that nobody handles. The polyfill reads `_handled` of a rejected promise, once its turn is over,
// to learn whether anybody does, and sets it when somebody does, be it later.
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

/** The value, once it is there if it is a promise. What goes wrong beside is logged, as `told` has it, and fails nothing. */
export function settle(value, told) {
  const thrown = [];
  let remains = [];
  try {
    const result = settled(value);
    remains = finish((error) => thrown.push(error));
    return result;
  } finally {
    const rejected = Array.from(unhandled, ({ _value }) => _value);
    unhandled.clear();
    warn("a promise was rejected and nobody handled it", rejected, told);
    warn("an error was thrown after the action returned", thrown, told);
    remains.forEach((line) => log.warn(line));
  }
}

function settled(value) {
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

function warn(what, errors, told) {
  errors.slice(0, TOLD).forEach((error) => log.warn(`${what}: ${tellable(error, told)}`));
  if (errors.length > TOLD) log.warn(`${what}: ${errors.length - TOLD} more`);
}

function tellable(error, told) {
  try {
    return told(error);
  } catch {
    return "what cannot be told";
  }
}
