// Which host the action talks to: the real one in a component, one in memory in tests. Every call goes through here.

import { checked } from "./border.js";
import { HostError } from "./errors.js";

let installed;

/** Puts a host in place and returns the one before. */
export function install(host) {
  const before = installed;
  installed = host;
  return before;
}

/** Whether there is a host to call. */
export function hasHost() {
  return installed !== undefined;
}

/** Calls a host function; its typed error becomes an exception. */
export function call(topic, name, ...args) {
  if (!installed) {
    const hint = "call it in `run`, not while a module is loaded; in a test use `@strata/action/testing`";
    throw new Error(`calling ${topic}.${name}: there is no host; ${hint}`);
  }
  const taken = checked(`${topic}.${name}`, args);
  try {
    return installed[topic][name](...taken);
  } catch (error) {
    throw hostError(error);
  }
}

/** The typed error of a failed call, whatever way it was handed over; anything else as it is. */
export function hostError(error) {
  const told = error?.payload ?? error;
  if (told instanceof Error || typeof told?.kind !== "string") return error;
  return new HostError(told.kind, told.message);
}
