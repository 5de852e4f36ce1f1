// Requests to the API. An answer is its JSON; anything else is a `Problem`, which says what the server says.

import { addressOf, refuseToken, token } from "./token.js";
import { encode } from "./visible.js";

/** The most that the server returns at once. */
export const PAGE = 500;
/** How long a request may take. Uploads have no such limit. */
const PATIENCE_MS = 30_000;
const NO_ANSWER = "The server did not answer";

/** Why a request has no answer. `status` is 0 if the server did not answer at all. */
export class Problem extends Error {
  constructor(path, status, document) {
    super(document.title ?? "the request failed");
    this.path = path;
    this.status = status;
    this.title = document.title ?? `status ${status}`;
    this.detail = document.detail ?? "";
    this.hint = document.hint ?? "";
    this.errors = Array.isArray(document.errors) ? document.errors : [];
    this.document = document;
  }
}

/** Returns a path below that of a run, which is given as a record or by its address. */
export const runPath = (run, ...below) => `/v1/runs/${[addressOf(run), ...below].map(encode).join("/")}`;

/** Returns a path with a query. Values that are null are left out, those of a list are repeated. */
export function withQuery(path, query) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") parameters.append(name, one);
    }
  }
  const text = parameters.toString();
  return text ? `${path}?${text}` : path;
}

export function headers(more = {}) {
  return token.peek() ? { Authorization: `Bearer ${token.peek()}`, ...more } : more;
}

/** Returns the problem of a response that is not the one that was asked for. */
export async function problemOf(path, response) {
  const { status, statusText } = response;
  const document = await response.json().catch(() => null);
  // What the server does not say itself is said by a proxy in front of it, which cannot reach it.
  const instead = [502, 503, 504].includes(status)
    ? { title: NO_ANSWER, detail: `What is in front of it answered with the status ${status}.` }
    : { title: statusText || `status ${status}` };
  return new Problem(path, status, document?.title ? document : instead);
}

/** Returns the response to a request. */
export async function fetchResponse(path, { method = "GET", body, raw, more, signal } = {}) {
  const used = token.peek();
  const own = new AbortController();
  const timer = raw === undefined ? setTimeout(() => own.abort(), PATIENCE_MS) : 0;
  signal?.addEventListener("abort", () => own.abort(), { once: true });
  const json = body !== undefined ? { "Content-Type": "application/json" } : {};
  let response;
  try {
    // `first.js` began it.
    const begun = method === "GET" && window.early.get(path);
    window.early.delete(path);
    response = await (begun || fetch(path, {
      method,
      headers: headers({ ...json, ...more }),
      body: raw ?? (body && JSON.stringify(body)),
      signal: own.signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    }));
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(path, 0, { title: NO_ANSWER, detail: String(error.message ?? error) });
  } finally {
    clearTimeout(timer);
  }
  if (response.ok) return response;
  const problem = await problemOf(path, response);
  if (response.status === 401) refuseToken(used);
  throw problem;
}

/** Returns the JSON of an answer, or null if it has none. */
export async function call(path, options = {}) {
  const response = await fetchResponse(path, options);
  if (response.status === 204) return null;
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/** Makes a `POST`. What creates something has a key, so that a repeat creates nothing more. */
export function post(path, body, { key, signal } = {}) {
  const more = key ? { "Idempotency-Key": key } : {};
  return call(path, { method: "POST", body: body ?? {}, more, signal });
}

/** Returns what was asked for, or something instead of what the token may not see. */
export const orElse = (promise, instead) => promise.catch((problem) => {
  if ([403, 404].includes(problem.status)) return instead;
  throw problem;
});

/** The items of a list; none while it is loaded. */
export const items = (answer) => answer?.items ?? [];

/** Reads the pages of a list until there are `most` entries. */
export async function allItems(path, query, { signal, most = 2000 } = {}) {
  const all = [];
  let after = null;
  do {
    const answer = await call(withQuery(path, { ...query, limit: PAGE, after }), { signal });
    all.push(...items(answer));
    after = answer?.next ?? null;
  } while (after && all.length < most);
  return all;
}

/** Reads the events of a run, given as for `runPath`, after a number. `onPage` gets what there is so far if there is more. */
export async function eventsAfter(run, after, { signal, most = Infinity, onPage } = {}) {
  const all = [];
  for (;;) {
    const page = items(await call(withQuery(runPath(run, "events"), { after: all.at(-1)?.n ?? after, limit: PAGE }), { signal }));
    all.push(...page);
    if (page.length < PAGE || all.length >= most) return all;
    onPage?.(all);
  }
}

export function newKey() {
  const random = new Uint8Array(16);
  crypto.getRandomValues(random);
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
