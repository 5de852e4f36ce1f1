// What all tests of the page share: one browser, and a mock server for each test.

import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { launch, open, shot } from "./browser.mjs";
import { MockServer } from "./mock/server.mjs";

let browser;

before(async () => {
  browser = await launch();
});

after(() => browser.close());

/** How long something may take to appear. */
export const SOON = 8000;

/**
 * Tests something in the browser. `fill` puts runs into the mock. The body gets `{page, server, open, context, bad}`; afterwards
 * nothing may have gone wrong in any page: no error, no violation of the policy.
 */
export function check(name, { fill = () => {}, path = "/", options = {}, allowed = () => false }, body) {
  test(name, { timeout: 180_000 }, async () => {
    const server = await new MockServer().start();
    fill(server);
    const opened = [];
    const openPage = async (at, more = {}) => {
      const one = await open(browser, server, at, { ...options, ...more });
      one.page.setDefaultTimeout(SOON);
      opened.push(one);
      return one;
    };
    try {
      const first = await openPage(path);
      await body({ ...first, server, open: openPage, browser });
      for (const one of opened) {
        const bad = one.bad.filter((text) => !allowed(text));
        assert.deepEqual(bad, [], "nothing goes wrong in the page");
      }
    } catch (error) {
      await shot(opened[0]?.page, `failed ${name.slice(0, 60).replace(/[^a-z0-9]+/gi, "-")}`).catch(() => {});
      throw error;
    } finally {
      for (const { context } of opened) await context.close().catch(() => {});
      await server.kill();
    }
  });
}

/** Waits until a condition holds. */
export async function until(condition, what, patience = SOON) {
  const end = Date.now() + patience;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) assert.fail(`this did not happen: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export const sees = (page, text) => page.getByText(text, { exact: false }).filter({ visible: true }).first().waitFor();
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export { assert, shot };
