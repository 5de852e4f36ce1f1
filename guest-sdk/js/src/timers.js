// The queue of jobs, and timers by the host's clock. Loaded before modules that use `setTimeout`.

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

/** The maximum number of jobs that are run after an action has returned, because they may queue more jobs forever. */
const LAST_JOBS = 1000;

/**
 * Runs the jobs that are left when an action has returned, and calls `failed` with the errors that they throw. Timers
 * are not run, because they would take time. Returns warnings about jobs and timers that remain.
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
  if (jobs.length > 0) remains.push("the action returned while jobs of its promises were pending; await them");
  if (timers.size === 1) remains.push("the action returned while 1 timer was pending; await it");
  if (timers.size > 1) remains.push(`the action returned while ${timers.size} timers were pending; await them`);
  return remains;
}

/** Runs the next job. If there is none, sleeps until the next timer is due, and runs it. */
export function turn() {
  const job = jobs.shift();
  if (job) return job();
  if (timers.size === 0) {
    throw new Failure("error", "awaiting a promise that cannot be settled: no jobs or timers are left");
  }
  const [first, { at, job: due }] = [...timers].reduce((a, b) => (b[1].at < a[1].at ? b : a));
  timers.delete(first);
  const waitMs = Math.ceil(at - clock.now());
  if (waitMs > 0) clock.sleep(waitMs);
  return due();
}

/** Runs all jobs and timers, also those that they add. */
export function runAll() {
  while (jobs.length > 0 || timers.size > 0) turn();
}
