// The connection: servers that are killed and come back, tokens that are revoked, machines that sleep, many tabs.

import { assert, check, sees, settled, shot, until, visit } from "./harness.mjs";
import { addAll, addRunning } from "./mock/runs.mjs";

/** Waits until the page follows what happens. */
const streams = (server) => until(() => server.streams.size === 1, "one stream");

check("a server that is killed and comes back: what is shown stays, nothing is lost or repeated", { fill: addRunning, path: "/runs/poem-4/events" }, async ({ page, server }) => {
  await sees(page, "action-started");
  await streams(server);
  await server.kill();
  await sees(page, "No connection since");
  await shot(page, "disconnected");
  assert.ok(await page.getByRole("button", { name: "Send" }).isDisabled());
  assert.ok((await page.locator(".virtual-row").count()) > 3, "what was shown is still there");
  const run = server.find("poem-4");
  run.clock = Date.now();
  run.act("Printer", "Print", { took: 1 });
  await server.start();
  await page.evaluate(() => window.dispatchEvent(new Event("online")));
  await sees(page, "Up to date");
  await until(async () => (await page.locator(".virtual-row").count()) === run.n, "each event once");
  await until(async () => (await page.locator(".connection-line").count()) === 0, "the line goes away");
  assert.ok(!(await page.getByRole("button", { name: "Send" }).isDisabled()));
});

check("what could not be loaded while the storage of the server was away is loaded once that is back", { fill: (server) => {
  addAll(server);
  server.isAway = true;
}, path: "/runs" }, async ({ page, server, open, context }) => {
  await sees(page, "The server cannot do this at the moment");
  await sees(page, "the storage cannot be used");
  const run = await open("/runs/snake-1/overview", { context });
  await sees(run.page, "the storage cannot be used");
  await sees(page, "No connection since");
  await shot(page, "away");
  server.isAway = false;
  for (const one of [page, run.page]) await one.evaluate(() => window.dispatchEvent(new Event("online")));
  await sees(page, "snake-1");
  await until(async () => (await page.locator(".numbers").innerText()).includes("1\nwaiting"), "the numbers");
  await sees(page, "submit, view, answer, operate, admin");
  await sees(run.page, "The game is in");
});

check("a proxy that does not reach the server is told from the server, and what it says is not shown", { fill: (server) => {
  addAll(server);
  server.proxyStatus = 503;
}, path: "/runs" }, async ({ page, server }) => {
  await sees(page, "The server did not answer");
  await sees(page, "answered with the status 503");
  await sees(page, "No connection since");
  assert.equal(await page.getByText("an error").count(), 0);
  server.proxyStatus = null;
  await page.evaluate(() => window.dispatchEvent(new Event("online")));
  await sees(page, "snake-1");
});

check("answering while the server is away is not possible, and the reason is there", { fill: addAll, path: "/needs" }, async ({ page, server }) => {
  await sees(page, "May this call be made?");
  await streams(server);
  await server.kill();
  await sees(page, "so nothing can be sent");
  assert.ok(await page.getByRole("button", { name: "Approve" }).isDisabled());
  await server.start();
  await until(() => page.getByRole("button", { name: "Approve" }).isEnabled(), "it is possible again");
});

check("a reset reads everything again, silently", { fill: addRunning, path: "/runs/poem-4/events" }, async ({ page, server }) => {
  await sees(page, "action-started");
  await streams(server);
  const run = server.find("poem-4");
  run.server = null;
  run.act("Printer", "Print", { took: 1 });
  run.server = server;
  for (const stream of server.streams) stream.send("reset", { first: 1 });
  await until(async () => (await page.locator(".virtual-row").count()) === run.n, "what was missed is there");
});

check("another lineage takes back what does not count any more", { fill: addRunning, path: "/runs/poem-4/events" }, async ({ page, server }) => {
  await sees(page, "action-started");
  await streams(server);
  const run = server.find("poem-4");
  for (const stream of server.streams) stream.send("lineage", { lineage: "main-2", after: 4 });
  await until(async () => (await page.locator(".virtual-row").count()) === 4, "later ones are gone");
  run.act("Printer", "Print", { took: 1 });
  await sees(page, "Printer.Print, attempt 1");
});

check("a token that is revoked ends the stream, and another one is asked for", { fill: addAll, path: "/runs/poem-4/overview", options: { token: "other" } }, async ({ page, server }) => {
  await sees(page, "This token is not accepted any more");
  await page.getByLabel("Token").fill("owner-token");
  await page.getByRole("button", { name: "Continue" }).click();
  await sees(page, "at work: Critic");
  server.tokens.set("second", { name: "second", tenant: null, rights: ["view"], expires: null });
  server.revoke("owner-token");
  await sees(page, "This token is not accepted any more");
  await shot(page, "token-revoked");
  await page.getByLabel("Token").fill("second");
  await page.keyboard.press("Enter");
  await sees(page, "at work: Critic");
});

check("a hidden tab has no stream, and is up to date once it is seen", { fill: addRunning, path: "/runs/poem-4/events" }, async ({ page, server }) => {
  await sees(page, "action-started");
  await streams(server);
  await hide(page, true);
  await until(() => server.streams.size === 0, "no stream");
  const run = server.find("poem-4");
  run.act("Printer", "Print", { took: 1 });
  await hide(page, false);
  await until(async () => (await page.locator(".virtual-row").count()) === run.n, "what came meanwhile is there");
});

function hide(page, isHidden) {
  return page.evaluate((hidden) => {
    Object.defineProperty(document, "visibilityState", { configurable: true, get: () => (hidden ? "hidden" : "visible") });
    document.dispatchEvent(new Event("visibilitychange"));
  }, isHidden);
}

check("seven tabs of one browser load, although all of them are seen", { fill: addAll, path: "/needs" }, async ({ page, server, open, context }) => {
  await sees(page, "May this call be made?");
  const pages = [];
  for (const path of ["/runs", "/runs/poem-4/overview", "/runs/snake-1/timeline", "/server", "/compare", "/runs/printer-3/events"]) pages.push((await open(path, { context })).page);
  for (const one of pages) await one.locator("h1").first().waitFor();
  await sees(pages[1], "at work: Critic");
  await sees(pages[4], "Name two runs");
  assert.ok(server.streams.size <= 4, "a browser opens six connections to a server");
  server.find("poem-4").end("done");
  await until(async () => (await pages[1].locator(".run-title").innerText()).includes("done"), "a tab without a stream is told, too", 12_000);
});

check("a tab that is opened from another one has its token", { fill: addAll, path: "/needs" }, async ({ page, context }) => {
  await sees(page, "May this call be made?");
  const [other] = await Promise.all([context.waitForEvent("page"), page.getByRole("link", { name: "Runs", exact: true }).click({ modifiers: ["ControlOrMeta"] })]);
  await sees(other, "snake-1");
  assert.ok(!other.url().includes("token"));
});

check("after the machine slept the page connects anew at once", { fill: addRunning, path: "/runs/poem-4/overview", options: {} }, async ({ page, server }) => {
  await sees(page, "at work: Critic");
  await streams(server);
  const before = server.requests.filter((line) => line.startsWith("GET /v1/events")).length;
  await page.evaluate(() => {
    const real = Date.now;
    Date.now = () => real() + 3_600_000;
  });
  await until(() => server.requests.filter((line) => line.startsWith("GET /v1/events")).length > before, "another stream");
});

check("a socket that is dropped without a word is replaced", { fill: addRunning, path: "/runs/poem-4/overview" }, async ({ page, server }) => {
  await sees(page, "at work: Critic");
  await streams(server);
  for (const stream of server.streams) stream.response.socket.destroy();
  await until(() => server.streams.size === 1, "another one");
  assert.equal(await page.locator(".connection-line").count(), 0, "nobody is told of what takes a second");
});

check("what loads slowly shows its outline, not a spinner; parts load on their own", { fill: (server) => {
  addAll(server);
  server.delay = 700;
}, path: "/runs/snake-1/overview" }, async ({ page }) => {
  await page.locator(".skeleton").first().waitFor();
  await shot(page, "loading");
  await sees(page, "Snake");
});
check("the first screen asks for what it shows once, before its modules are there", { fill: addAll, path: "/needs" }, async ({ page, server }) => {
  await sees(page, "May this call be made?");
  const asked = server.requests.filter((line) => line.startsWith("GET /v1/"));
  assert.equal(asked.filter((line) => line.startsWith("GET /v1/token")).length, 1);
  // Once before the stream is there, and once after it.
  for (const path of ["/v1/requests", "/v1/runs?status"]) assert.ok(asked.filter((line) => line.startsWith(`GET ${path}`)).length <= 2, `${path}: ${asked}`);
  const times = await page.evaluate(() => {
    const first = (name) => performance.getEntriesByType("resource").find((entry) => entry.name.includes(name)).startTime;
    return { requests: first("/v1/requests"), view: first("run_view") };
  }).catch(() => null);
  if (times) assert.ok(times.requests < times.view, "the view of a run is fetched later");
});

check("a part of the page that cannot be fetched says so, and is fetched again", { fill: addAll, path: "/needs" }, async ({ page, context }) => {
  await sees(page, "May this call be made?");
  const other = await context.newPage();
  await other.route("**/assets/compare_view*", (route) => route.abort());
  await other.goto(page.url());
  await other.getByRole("link", { name: "Compare", exact: true }).click();
  await sees(other, "A part of the page could not be loaded");
  await other.unroute("**/assets/compare_view*");
  await other.getByRole("button", { name: "Try again" }).click();
  await sees(other, "Name two runs");
});
