// Promises without an event loop: the engine has no turns of its own in a synchronous call, so what is queued runs
// here, until the promise that an action returned is settled. Host calls do not return promises.

import { turn } from "./timers.js";
import Promise from "promise-polyfill";

Promise._immediateFn = globalThis.queueMicrotask;
Promise._unhandledRejectionFn = () => {};
globalThis.Promise = Promise;

/** The value, once it is there if it is a promise. */
export function settle(value) {
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
