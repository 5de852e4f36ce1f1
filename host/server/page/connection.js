// The connection to the server: one stream while the tab is visible, none while it is hidden. A browser opens only six
// connections to a server, so of all tabs at most four have a stream; others ask every few seconds.

import { batch, effect, signal } from "./dom.js";
import { readStream } from "./event_stream.js";
import { coarseNow, now, tick } from "./figures.js";
import { epoch, loadIdentity, loadNeeds, takeRequest, takeRun } from "./store.js";
import { identity, token } from "./token.js";
import { encode } from "./visible.js";

const PAUSES = [1, 2, 5, 10, 30];
/** After how long without a connection a person is told. */
const TOLD_AFTER_MS = 3000;
const UP_TO_DATE_MS = 2000;
const STREAMS = 4;
const POLL_MS = 5000;
/** Events are passed on in groups, so that hundreds a second cost a few updates of the document. */
const GROUP_MS = 100;
/** If the clock advanced by more than this between two seconds, the machine slept. */
const SLEPT_MS = 20_000;

/** `connecting`, `live`, `polling`, `lost` or `hidden`. */
export const state = signal("connecting");
/** Since when there is no connection; null while there is one. */
export const lostSince = signal(null);
/** Rises with each return of a connection that was lost: what could not be loaded is loaded again. */
export const returns = signal(0);
/** Whether to say that the connection is gone, or that it is back. */
export const notice = signal(null);
/** Whether something can be sent, as far as is known. Nothing is known before the first stream is open, and while the tab is hidden. */
export const isOnline = () => state.value !== "lost";

let followed = null;
let handler = null;
let current = null;
let wakeUp = null;
let lastId = null;
let failures = 0;

/** Follows the events of a run, or of none. `handle` gets groups of events, `{reset}` and `{lineage, after}`. */
export function follow(run, handle) {
  handler = handle;
  if (run === followed) return;
  followed = run;
  lastId = null;
  restart();
}

function restart() {
  current?.abort();
  wakeUp?.();
}

const isHidden = () => document.visibilityState === "hidden";

function sleep(ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wakeUp = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

/** Takes a place for streams, which all tabs of the browser share. Returns how to give it back, or null. */
async function takePlace() {
  if (!navigator.locks) return () => {};
  for (let number = 0; number < STREAMS; number += 1) {
    const release = await new Promise((resolve) => {
      navigator.locks
        .request(`strata-stream-${number}`, { ifAvailable: true }, (lock) => {
          if (!lock) return resolve(null);
          return new Promise((done) => resolve(done));
        })
        .catch(() => resolve(() => {}));
    });
    if (release) return release;
  }
  return null;
}

let group = [];
let groupTimer = 0;

function passOn() {
  groupTimer = 0;
  const events = group;
  group = [];
  if (events.length) batch(() => handler?.(events));
}

function takeMessage({ event, data, id }) {
  if (id) lastId = id;
  let document;
  try {
    document = JSON.parse(data);
  } catch {
    return;
  }
  if (event === "run") return takeRun(document);
  if (event === "request") return takeRequest(document);
  if (event === "reset") return takeReset();
  if (event === "lineage") {
    passOn();
    return handler?.([], { lineage: document });
  }
  if (document.kind) {
    group.push(document);
    if (!groupTimer) groupTimer = setTimeout(passOn, GROUP_MS);
  }
}

function takeReset() {
  group = [];
  handler?.([], { reset: true });
  loadNeeds();
  epoch.value += 1;
}

function connected() {
  failures = 0;
  const wasLost = lostSince.value !== null;
  const isTold = notice.value === "lost";
  batch(() => {
    state.value = "live";
    lostSince.value = null;
    notice.value = isTold ? "back" : null;
    if (wasLost) returns.value += 1;
    // A stream that begins anew does not say what was missed.
    if (wasLost && lastId === null) epoch.value += 1;
  });
  if (isTold) setTimeout(() => notice.value === "back" && (notice.value = null), UP_TO_DATE_MS);
  // It is not known if the server could not answer when the page was opened.
  (wasLost && !identity.value ? loadIdentity() : Promise.resolve()).then(loadNeeds);
  handler?.([], { connected: true });
}

function disconnected() {
  passOn();
  if (lostSince.value === null) {
    lostSince.value = Date.now();
    setTimeout(() => {
      if (lostSince.value !== null && !isHidden()) notice.value = "lost";
    }, TOLD_AFTER_MS);
  }
  state.value = "lost";
}

/** Asks instead of listening, because other tabs have all streams. */
async function poll() {
  state.value = "polling";
  lostSince.value = null;
  notice.value = null;
  await loadNeeds();
  handler?.([], { connected: true });
  epoch.value += 1;
  await sleep(POLL_MS);
}

async function listen(release) {
  current = new AbortController();
  const path = followed === null ? "/v1/events" : `/v1/events?run=${encode(followed)}`;
  try {
    await readStream(path, { lastId, onOpen: connected, onMessage: takeMessage, signal: current.signal });
    // The server closes streams when it is about to stop.
    failures = Math.max(failures, 1);
  } catch (problem) {
    if (current.signal.aborted) return;
    // An id of another stream, or one that is too old, is of no use to it.
    if (problem.status >= 400 && problem.status < 500) lastId = null;
    failures += 1;
  } finally {
    release();
  }
}

async function run() {
  for (;;) {
    if (!token.value || isHidden()) {
      state.value = isHidden() ? "hidden" : "connecting";
      await sleep(600_000);
      continue;
    }
    const release = await takePlace();
    if (!release) {
      await poll();
      continue;
    }
    await listen(release);
    if (isHidden() || !token.value || current.signal.aborted) continue;
    disconnected();
    await sleep(PAUSES[Math.min(failures, PAUSES.length) - 1] * 1000);
  }
}

export function connect() {
  let before = Date.now();
  setInterval(() => {
    const time = Date.now();
    if (time - before > SLEPT_MS && !isHidden()) restart();
    before = time;
    if (!isHidden() && state.value !== "lost") tick(time);
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    if (!isHidden()) {
      now.value = coarseNow.value = Date.now();
      failures = 0;
    }
    restart();
  });
  window.addEventListener("online", restart);
  effect(() => {
    if (token.value) {
      lastId = null;
      failures = 0;
      restart();
    }
  });
  run();
}
