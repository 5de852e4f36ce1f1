// What can be asked of a run.

import { call, newKey, post, runPath } from "./api.js";
import { toast, toastProblem } from "./toast.js";
import { loadNeeds } from "./store.js";

/** Asks for something without a result: `cancel`, `pause`, `resume`, `prune`. Returns whether it was accepted. */
export async function ask(run, what, body) {
  try {
    await post(runPath(run.name, what), body);
    toast(`${WORDS[what]}: ${run.name}`);
    loadNeeds();
    return true;
  } catch (problem) {
    toastProblem(`Not done (${what})`, problem);
    return false;
  }
}

const WORDS = { cancel: "Cancelling", pause: "Pausing", resume: "Resuming", prune: "Pruning" };

/** Deletes a run that is not running. Returns whether it was deleted. */
export async function deleteRun(run) {
  try {
    await call(runPath(run.name), { method: "DELETE" });
    toast(`Deleted: ${run.name}`);
    loadNeeds();
    return true;
  } catch (problem) {
    toastProblem("Not deleted", problem);
    return false;
  }
}

/** Begins a new run from a checkpoint of another one. */
export function fork(run, { at, set, name }, key) {
  return post(runPath(run.name, "fork"), { at, ...(set ? { set } : {}), ...(name ? { name } : {}) }, { key });
}

/** Sends a message to a run. */
export function sendMessage(run, message, key) {
  return post(runPath(run.name, "messages"), message, { key });
}

/** Does something to many runs: one result each. */
export function bulk(what, names) {
  return post("/v1/bulk", { do: what, runs: names });
}

export { newKey };
