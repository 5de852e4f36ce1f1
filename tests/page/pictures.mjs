// Makes the pictures of the page for the book and README.md: `node tests/page/pictures.mjs PROGRAM`. They show the program at
// work on the team of these tests, and are written to `docs/src`. With `PAGE_SOURCES`, the page comes from its sources.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { launch, open } from "./browser.mjs";
import { startFront } from "./mock/front.mjs";
import { install } from "./packages.mjs";

const TEAM = fileURLToPath(new URL("./team/team.toml", import.meta.url));
const BOOK = fileURLToPath(new URL("../../docs/src/", import.meta.url));
const SIZE = [1200, 760];
/** The port that is seen in the pictures: the one of a server to which no other is given. */
const PORT = 7464;
/** How well the pictures are kept, of 100: text stays clear. */
const QUALITY = 82;
const RUNS = [["may-news", "announce version 2"], ["invoices", "print the invoices of May"], ["press", "tell the press about version 2"]];

const host = resolve(process.argv[2] ?? "target/debug/strata-host-under-test");
const why = install();
if (why) throw new Error(why);
const storage = mkdtempSync(join(tmpdir(), "pictures-"));
const server = spawn(host, ["serve", "--storage", storage, "--listen", `127.0.0.1:${process.env.PAGE_SOURCES ? 0 : PORT}`, "--quiet"], { stdio: ["ignore", "pipe", "inherit"] });
const address = await new Promise((found) => server.stdout.once("data", (data) => found(String(data).trim())));
const [url, token] = address.split("/#token=");
const front = process.env.PAGE_SOURCES ? await startFront(url, PORT) : { url, close: () => {} };
const browser = await launch();

const command = (...args) => execFileSync(host, [...args, "--server", url], { env: { ...process.env, STRATA_TOKEN: token }, encoding: "utf8" });
const get = async (path) => (await fetch(url + path, { headers: { authorization: `Bearer ${token}` } })).json();
const requestsOf = async (run) => (await get(`/v1/requests?run=${run}`)).items;

async function show(path) {
  const { page } = await open(browser, front, path, { token, size: SIZE });
  return page;
}

async function picture(page, name) {
  await page.waitForTimeout(700);
  const session = await page.context().newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
  const file = join(BOOK, name);
  writeFileSync(file, Buffer.from(data, "base64"));
  console.log(`${file}: ${statSync(file).size} bytes`);
}

async function waitFor(condition) {
  while (!(await condition())) await new Promise((done) => setTimeout(done, 100));
}

try {
  for (const [name, idea] of RUNS) command("submit", TEAM, idea, "--name", name);
  for (const [name] of RUNS) await waitFor(async () => (await requestsOf(name)).length === 2);
  const approval = (await requestsOf("may-news")).find((request) => request.tool);
  const needs = await show(`/needs#may-news/${approval.id}`);
  await needs.getByText("send_mail").first().waitFor();
  await picture(needs, "page-needs.webp");
  for (const request of await requestsOf("invoices")) {
    const answer = request.tool ? { approve: true } : { size: "A4", copies: 2 };
    command("answer", "invoices", `${request.id}=${JSON.stringify(answer)}`);
  }
  const failed = await show("/runs/invoices/overview");
  await failed.getByText("trap: Printer.Print").first().waitFor();
  await picture(failed, "page-failed.webp");
  command("resume", "invoices");
  await waitFor(async () => (await get("/v1/runs/invoices")).status === "done");
  const run = await show("/runs/invoices/timeline");
  await run.getByText("ended").first().waitFor();
  await run.getByRole("button", { name: "Next failure" }).click();
  await run.setViewportSize({ width: SIZE[0], height: 900 });
  await run.evaluate(() => scrollTo(0, 0));
  await picture(run, "page-run.webp");
} finally {
  await browser.close();
  front.close();
  server.kill("SIGTERM");
  await new Promise((done) => server.once("exit", done));
  rmSync(storage, { recursive: true, force: true });
}
