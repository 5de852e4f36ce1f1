// The host that the functions of the SDK call: the real one in a component, or one in memory in tests.

import { HostError } from "./errors.js";
import { checkArguments } from "./validate.js";

let installed;

/** Makes this the current host, and returns the previous one. */
export function install(host) {
  const before = installed;
  installed = host;
  return before;
}

/** Returns whether there is a host. */
export function hasHost() {
  return installed !== undefined;
}

/** Calls a host function. Throws a HostError if it fails, and a TypeError if an argument has the wrong type. */
export function call(topic, name, ...args) {
  if (!installed) {
    const hint = "call it in `run`, not while a module is loaded; in a test use `@strata/action/testing`";
    throw new Error(`calling ${topic}.${name}: there is no host; ${hint}`);
  }
  const checked = checkArguments(`${topic}.${name}`, args);
  try {
    return installed[topic][name](...checked);
  } catch (error) {
    throw hostError(error);
  }
}

/** Returns the HostError of a failed call. An error that is not the host's is returned unchanged. */
export function hostError(error) {
  // The engine wraps errors of the interfaces in exceptions.
  const payload = error?.payload ?? error;
  if (payload instanceof Error || typeof payload?.kind !== "string") return error;
  return new HostError(payload.kind, payload.message);
}
