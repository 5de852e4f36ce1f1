// What is selected in a run: an event by its number, a role by its name, or nothing. The address has it behind `#`, and
// all parts of the view show it.

import { route, setHash } from "./router.js";

/** Returns the selection: `{event}`, `{role}`, `{checkpoint}` or `{}`. */
export function selection() {
  const hash = route.value.hash;
  if (/^e\d+$/.test(hash)) return { event: Number(hash.slice(1)) };
  if (hash.startsWith("role:")) return { role: hash.slice(5) };
  if (hash.startsWith("at:")) return { checkpoint: hash.slice(3) };
  return {};
}

export const selectEvent = (n) => setHash(`e${n}`);
export const selectRole = (name) => setHash(`role:${name}`);
export const selectCheckpoint = (id) => setHash(`at:${id}`);
export const selectNothing = () => setHash("");

/** Returns the attempt that an event belongs to. */
export function attemptOfEvent(model, n) {
  return model.attempts.findLast((attempt) => attempt.n === n || attempt.endEvent === n) ?? null;
}

/** Returns the role that is selected, directly or by one of its events. */
export function selectedRole(model) {
  const chosen = selection();
  if (chosen.role !== undefined) return chosen.role;
  if (chosen.event === undefined) return null;
  return attemptOfEvent(model, chosen.event)?.role ?? null;
}
