// What can be asked of a run, and what became of it.

import { call, fetchResponse, post, runPath } from "./api.js";
import { toast, toastProblem } from "./announce.js";
import { loadNeeds } from "./store.js";
import { copy } from "./texts.js";

/** Does something, and tells that it was done or why not. Returns whether it was. */
export async function carryOut(act, done, failed) {
  try {
    await act();
  } catch (problem) {
    toastProblem(failed, problem);
    return false;
  }
  if (done) toast(done);
  return true;
}

const WORDS = { cancel: "Cancelling", pause: "Pausing", resume: "Resuming", prune: "Pruning" };

/** Asks for something without a result: `cancel`, `pause`, `resume`, `prune`. */
export const ask = (run, what, body) => change(() => post(runPath(run, what), body), `${WORDS[what]}: ${run.name}`, `Not done (${what})`);

export const deleteRun = (run) => change(() => call(runPath(run), { method: "DELETE" }), `Deleted: ${run.name}`, "Not deleted");

async function change(act, done, failed) {
  const isDone = await carryOut(act, done, failed);
  if (isDone) loadNeeds();
  return isDone;
}

export const copyAndTell = async (text, what) => (await copy(text)) && toast(`${what} is copied`);

/** Saves a file of the server under a name. A link cannot do that, because it cannot send a token. */
export function download(path, name) {
  return carryOut(async () => {
    const blob = await (await fetchResponse(path)).blob();
    const address = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }, null, "Not downloaded");
}
