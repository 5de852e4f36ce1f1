// What all views share: what needs somebody, and which runs changed.

import { batch, computed, signal } from "./dom.js";
import { allItems, call, items, orElse, PAGE, withQuery } from "./api.js";
import { announce } from "./announce.js";
import { coarseNow, moment, money, plural, startOfDay, wholeDuration } from "./figures.js";
import { addressOf, identity, mayOperate, may } from "./token.js";

/** The groups of what needs somebody: their titles, and the statuses of the runs in them. */
export const GROUPS = {
  questions: ["Questions and approvals"], faults: ["Faults", "failed", "stalled"], budgets: ["Out of budget", "out-of-budget", "step-limit"], doubts: ["In doubt", "in-doubt"],
};
const NEEDING = Object.values(GROUPS).flatMap(([, ...statuses]) => statuses);
/** How many open requests are kept. There are rarely more than ten. */
const MAX_KEPT = 2000;

const requests = signal(new Map());
const needing = signal(new Map());
export const needsLoaded = signal(false);
export const needsProblem = signal(null);
/** Rises when everything that is shown should be read again. */
export const epoch = signal(0);

export const requestKey = (request) => `${addressOf(request)}/${request.id}`;

const runListeners = new Set();
const requestListeners = new Set();

const listenTo = (listeners) => (listener) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** Each calls a listener with what changed, until the function that it returns is called. */
export const onRun = listenTo(runListeners);
export const onRequest = listenTo(requestListeners);

export const requestsOf = (run) => [...requests.value.values()].filter((request) => request.run_id === run.id);

/** The order of questions: those that expire first, then the oldest. */
export const byExpiry = (a, b) =>
  (Date.parse(a.expires) || Infinity) - (Date.parse(b.expires) || Infinity) || String(a.opened).localeCompare(String(b.opened));

const some = (names) => `${names.slice(0, 4).join(", ")}${names.length > 4 ? ` and ${names.length - 4} more` : ""}`;

/** What a run does now, in words. */
export function doing(run, atWork = run.at_work ?? []) {
  if (run.state === "queued") return "waits for a worker";
  if (run.state === "refused") return run.problem ?? "refused";
  const isRunning = run.state === "running";
  if (isRunning && atWork.length) return `at work: ${some(atWork)}${run.requests > 0 ? `, ${plural(run.requests, "question")} open` : ""}`;
  if (run.status === "waiting" || (run.requests > 0 && run.state !== "ended")) return waitsFor(run);
  if (isRunning) return "at work";
  return run.faults > 0 ? plural(run.faults, "fault") : "";
}

function waitsFor(run) {
  const asked = requestsOf(run);
  const roles = [...new Set(asked.map((request) => request.role))];
  const age = coarseNow.value - Math.min(...asked.map((request) => Date.parse(request.opened)));
  if (roles.length) return `waits for ${some(roles)}${age >= 5000 ? `, ${wholeDuration(age)}` : ""}`;
  if (run.requests > 0) return `waits for ${plural(run.requests, "answer")}`;
  return run.timer ? `until ${moment(run.timer)}` : "waits for mail";
}

/** What needs somebody, in four groups, as far as the token may act on it. */
export const needs = computed(() => {
  const runs = [...needing.value.values()].filter(mayOperate).sort((a, b) => String(b.updated).localeCompare(String(a.updated)));
  const groups = Object.fromEntries(Object.entries(GROUPS).map(([name, [, ...statuses]]) => [name, runs.filter((run) => statuses.includes(run.status))]));
  if (may("answer")) groups.questions = [...requests.value.values()].sort(byExpiry);
  const total = Object.values(groups).reduce((sum, entries) => sum + entries.length, 0);
  return { ...groups, total };
});

/** What happened while lists are read, which may be of the time before. */
const readings = new Set();
let begun = 0;
let newest = 0;

export async function loadNeeds() {
  const meanwhile = [];
  readings.add(meanwhile);
  begun += 1;
  const number = begun;
  try {
    const [asked, runs] = await Promise.all([
      // A token without the right to answer sees no requests.
      may("answer") ? orElse(allItems("/v1/requests", {}), []) : [],
      allItems("/v1/runs", { status: NEEDING }),
    ]);
    // One that began later may have ended before.
    if (number < newest) return;
    newest = number;
    batch(() => {
      requests.value = new Map(asked.map((request) => [requestKey(request), request]));
      needing.value = new Map(runs.filter(isNeeding).map((run) => [run.id, run]));
      for (const happened of meanwhile) happened();
      needsProblem.value = null;
      needsLoaded.value = true;
    });
  } catch (problem) {
    needsProblem.value = problem;
  } finally {
    readings.delete(meanwhile);
  }
}

function happen(change) {
  change();
  for (const meanwhile of readings) meanwhile.push(change);
}

const isNeeding = (run) => NEEDING.includes(run.status) && run.state !== "queued" && run.state !== "running";

export async function loadIdentity() {
  try {
    const own = await call("/v1/token");
    identity.value = { ...own, rights: own?.rights ?? [] };
  } catch {
    // What it may do is found out by trying.
    identity.value = null;
  }
}

/** Returns a map with an entry, or without it if it is null. */
function withEntry(map, key, value) {
  const changed = new Map(map);
  if (value === null) changed.delete(key);
  else changed.set(key, value);
  return changed;
}

export function takeRun(run) {
  const needed = isNeeding(run) ? run : null;
  if (needed && !needing.value.has(run.id)) announce(`${run.status}: ${run.name}, ${money(run.spent)}`);
  if (needed || needing.value.has(run.id) || readings.size) happen(() => (needing.value = withEntry(needing.value, run.id, needed)));
  for (const listener of runListeners) listener(run);
}

/** What the runs that changed today have spent: `{spent, isPartial}`. */
export const spentToday = signal(null);
export const shownSpent = () => `${spentToday.value.isPartial ? "≥ " : ""}${money(spentToday.value.spent)}`;
export const isNewRunOpen = signal(false);

export const counted = (query, signal) => call(withQuery("/v1/runs", { ...query, limit: PAGE }), { signal }).then((answer) => ({ list: items(answer), isPartial: Boolean(answer.next) }));

export async function loadToday(day, signal) {
  const today = await counted({ since: new Date(day).toISOString() }, signal);
  spentToday.value = { spent: today.list.reduce((sum, run) => sum + (Number(run.spent) || 0), 0), isPartial: today.isPartial };
  return today;
}

export const loadSpentToday = () => loadToday(startOfDay(Date.now())).catch(() => {});

export function takeRequest(request) {
  const key = requestKey(request);
  const open = request.answered ? null : request;
  if (open && requests.value.size >= MAX_KEPT) return;
  if (open && !requests.value.has(key)) announce(`${request.role} is asked`);
  happen(() => (requests.value = withEntry(requests.value, key, open)));
  for (const listener of requestListeners) listener(request, !open);
}
