// What all views share: what needs somebody, and which runs changed.

import { batch, computed, signal } from "./dom.js";
import { call, items, withQuery } from "./api.js";
import { announce } from "./announce.js";
import { money } from "./figures.js";
import { identity, mayOperate, may } from "./token.js";

/** Statuses of runs that go on only if somebody does something, by the group that shows them. */
export const GROUPS = {
  faults: ["failed", "stalled"],
  budgets: ["out-of-budget", "step-limit"],
  doubts: ["in-doubt"],
};
const NEEDING = Object.values(GROUPS).flat();
/** How many open requests and runs are kept. There are rarely more than ten. */
const MAX_KEPT = 2000;
const PAGE = 500;

export const requests = signal(new Map());
export const needing = signal(new Map());
export const needsLoaded = signal(false);
export const needsProblem = signal(null);
/** Rises when everything that is shown should be read again. */
export const epoch = signal(0);

export const requestKey = (request) => `${request.run}/${request.id}`;

const runListeners = new Set();
const requestListeners = new Set();

/** Calls `listener` with each run that changed, until the function that is returned is called. */
export function onRun(listener) {
  runListeners.add(listener);
  return () => runListeners.delete(listener);
}

/** Calls `listener` with each request that was opened or answered. */
export function onRequest(listener) {
  requestListeners.add(listener);
  return () => requestListeners.delete(listener);
}

/** Returns the open requests of a run. */
export const requestsOf = (run) => [...requests.value.values()].filter((request) => request.run === run.name);

/** Returns who is asked in requests, each once. */
export const rolesOf = (asked) => [...new Set(asked.map((request) => request.role))];

/** The order of questions: those that expire first, then the oldest. */
export const byExpiry = (a, b) =>
  (Date.parse(a.expires) || Infinity) - (Date.parse(b.expires) || Infinity) || String(a.opened).localeCompare(String(b.opened));

/** What needs somebody, in four groups, as far as the token may act on it. */
export const needs = computed(() => {
  const runs = [...needing.value.values()].filter((run) => mayOperate(run));
  const group = (statuses) =>
    runs.filter((run) => statuses.includes(run.status)).sort((a, b) => String(b.updated).localeCompare(String(a.updated)));
  const groups = {
    questions: may("answer") ? [...requests.value.values()].sort(byExpiry) : [],
    faults: group(GROUPS.faults),
    budgets: group(GROUPS.budgets),
    doubts: group(GROUPS.doubts),
  };
  const total = Object.values(groups).reduce((sum, entries) => sum + entries.length, 0);
  return { ...groups, total };
});

async function allItems(path, query) {
  const all = [];
  let after = null;
  do {
    const answer = await call(withQuery(path, { ...query, limit: PAGE, after }));
    all.push(...items(answer));
    after = answer?.next ?? null;
  } while (after && all.length < MAX_KEPT);
  return all;
}

export async function loadNeeds() {
  try {
    const [asked, runs] = await Promise.all([
      // A token without the right to answer sees no requests.
      may("answer") ? allItems("/v1/requests", {}).catch(forbidden) : [],
      allItems("/v1/runs", { status: NEEDING }),
    ]);
    batch(() => {
      requests.value = new Map(asked.map((request) => [requestKey(request), request]));
      needing.value = new Map(runs.filter(isNeeding).map((run) => [run.id, run]));
      needsProblem.value = null;
      needsLoaded.value = true;
    });
  } catch (problem) {
    needsProblem.value = problem;
  }
}

function forbidden(problem) {
  if (problem.status === 403 || problem.status === 404) return [];
  throw problem;
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

export function takeRun(run) {
  const known = needing.value.get(run.id);
  if (isNeeding(run)) {
    if (!known) announce(wordsFor(run));
    needing.value = new Map(needing.value).set(run.id, run);
  } else if (known) {
    const rest = new Map(needing.value);
    rest.delete(run.id);
    needing.value = rest;
  }
  for (const listener of runListeners) listener(run);
}

function wordsFor(run) {
  return `${run.status}: ${run.name}, ${money(run.spent)}`;
}

export function takeRequest(request) {
  const key = requestKey(request);
  const all = new Map(requests.value);
  if (request.answered) all.delete(key);
  else if (all.size < MAX_KEPT) {
    if (!all.has(key)) announce(`${request.role} is asked`);
    all.set(key, request);
  }
  requests.value = all;
  for (const listener of requestListeners) listener(request, Boolean(request.answered));
}
