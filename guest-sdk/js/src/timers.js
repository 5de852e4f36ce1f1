// What is to run later: jobs at once, timers by the host's clock. Loaded before what expects `setTimeout`.

import { clock } from "./environment.js";
import { Failure } from "./errors.js";

const jobs = [];
const timers = new Map();
let lastTimer = 0;

export function queueMicrotask(job) {
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

/** How many jobs are run after the end: those that never stop must not keep back what is done. */
const LAST_JOBS = 1000;

/**
 * Runs the jobs that are left when an action has returned. `failed` is told what they throw. Timers are left alone, since
 * they would take time. Returns what remains, in words.
 */
export function finish(failed) {
  for (let count = 0; count < LAST_JOBS && jobs.length > 0; count += 1) {
    try {
      jobs.shift()();
    } catch (error) {
      failed(error);
    }
  }
  const remains = [];
  if (jobs.length > 0) remains.push("the action returned while its promises were at work; await what they do");
  if (timers.size === 1) remains.push("the action returned while 1 timer was pending; await what it does");
  if (timers.size > 1) remains.push(`the action returned while ${timers.size} timers were pending; await what they do`);
  return remains;
}

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
