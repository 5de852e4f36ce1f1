// What all tests of the page share: one browser, in which each test has a context of its own, and a mock server for each.

import { test } from "node:test";
import assert from "node:assert/strict";
import { launch, open, settled, shot, shotOfFailure, visit } from "./browser.mjs";
import { MockServer } from "./mock/server.mjs";

/** How many tests go on at the same time. Many of them wait most of the time. */
const PARALLEL = Number(process.env.PAGE_PARALLEL ?? 4);
/** How long something may take to appear, beside other tests. */
export const SOON = 20_000;
const MAX_TEST_MS = 240_000;

const checks = [];
const endings = [];

/** Calls this once all tests have ended. */
export const atEnd = (end) => endings.push(end);

async function startMock(fill) {
  const server = await new MockServer().start();
  fill?.(server);
  return server;
}

/**
 * Tests something in the browser. `fill` puts runs into the mock; `start` gives another server, with `url` and `kill`. The body gets
 * `{page, server, open, context, bad}`, with the first page at `path`; afterwards nothing may have gone wrong in any page: no
 * error, no violation of the policy. What is measured is tested `alone`.
 */
export function check(name, settings, body) {
  checks.push({ name, settings, body });
}

async function carryOut(browser, name, { fill, start = () => startMock(fill), path = "/", options = {}, allowed = () => false }, body) {
  const server = await start();
  const opened = [];
  const openPage = async (at, more = {}) => {
    const one = await open(browser, server, at, { token: server.token, ...options, ...more });
    one.page.setDefaultTimeout(SOON);
    opened.push(one);
    return one;
  };
  try {
    const first = path ? await openPage(path) : {};
    await body({ ...first, server, open: openPage });
    for (const one of opened) {
      const bad = one.bad.filter((text) => !allowed(text));
      assert.deepEqual(bad, [], "nothing goes wrong in the page");
    }
  } catch (error) {
    if (opened[0]) await shotOfFailure(opened[0].page, name);
    throw error;
  } finally {
    for (const { context } of opened) await context.close().catch(() => {});
    await server.kill();
  }
}

/** Runs the tests that were described: several at a time, then one after another those that have to be alone. */
export async function runAll() {
  const browser = await launch();
  const group = (name, concurrency, chosen) => test(name, { concurrency, timeout: 2 * 3_600_000 }, async (context) => {
    const all = chosen.map(({ name: what, settings, body }) => context.test(what, { timeout: settings.timeout ?? MAX_TEST_MS }, () => carryOut(browser, what, settings, body)));
    await Promise.all(all);
  });
  const isAlone = (one) => Boolean(one.settings.alone);
  const [together, alone] = [checks.filter((one) => !isAlone(one)), checks.filter(isAlone)];
  if (together.length) await group("the page", PARALLEL, together);
  if (alone.length) await group("the page, measured", 1, alone);
  for (const end of endings) await end();
  await browser.close();
}

/** Waits until a condition holds. */
export async function until(condition, what, patience = SOON) {
  const end = Date.now() + patience;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) assert.fail(`this did not happen: ${what}`);
    await sleep(50);
  }
}

export const sees = (page, text) => page.getByText(text, { exact: false }).filter({ visible: true }).first().waitFor();
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export { assert, settled, shot, visit };
