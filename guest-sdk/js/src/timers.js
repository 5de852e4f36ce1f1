// What is to run later: jobs at once, timers by the host's clock. Loaded before what expects `setTimeout`.

import { clock } from "./environment.js";
import { Failure } from "./errors.js";

const jobs = [];
const timers = new Map();
let lastTimer = 0;

function queueMicrotask(job) {
  jobs.push(job);
}

function setTimeout(job, delayMs = 0, ...args) {
  lastTimer += 1;
  timers.set(lastTimer, { at: clock.now() + Math.max(0, Number(delayMs) || 0), job: () => job(...args) });
  return lastTimer;
}

function clearTimeout(timer) {
  timers.delete(timer);
}

Object.assign(globalThis, { clearTimeout, queueMicrotask, setTimeout });

/** Runs the next job, or the next timer once it is time. */
export function turn() {
  const job = jobs.shift();
  if (job) return job();
  if (timers.size === 0) throw new Failure("error", "awaiting a promise that nothing is left to settle");
  const [first, { at, job: due }] = [...timers].reduce((a, b) => (b[1].at < a[1].at ? b : a));
  timers.delete(first);
  const waitMs = Math.ceil(at - clock.now());
  if (waitMs > 0) clock.sleep(waitMs);
  return due();
}
