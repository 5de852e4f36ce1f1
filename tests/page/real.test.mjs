// The page on the real program: a server with scripted models. `STRATA_HOST` is the path of the program. With `PAGE_SOURCES`,
// the page comes from its sources, so that an edit of it needs no build.

import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { after, before, test } from "node:test";
import { launch, open } from "./browser.mjs";
import { assert, sees, shot, sleep, until } from "./harness.mjs";
import { startFront } from "./mock/front.mjs";

const HOST = process.env.STRATA_HOST;
const TEAM = fileURLToPath(new URL("./team/team.toml", import.meta.url));
/** How long a step of a run may take on a busy machine. */
const PATIENCE = 30_000;

const folder = mkdtempSync(join(tmpdir(), "page-"));
let browser;
let server;
let front;
/** Where the server listens, also after a restart. */
let real = "";
/** What the server printed. */
let printed = "";

/** Returns a port that is free now. */
const freePort = () => new Promise((resolve) => {
  const listener = createServer().listen(0, "127.0.0.1", () => {
    const { port } = listener.address();
    listener.close(() => resolve(port));
  });
});

const token = () => readFileSync(join(folder, "token"), "utf8").trim();

async function start() {
  printed = "";
  server = spawn(HOST, ["serve", "--storage", folder, "--listen", real.slice("http://".length), "--quiet"], { stdio: ["ignore", "pipe", "ignore"] });
  server.stdout.on("data", (data) => (printed += data));
  await until(() => fetch(`${real}/ready`).then((answer) => answer.ok, () => false), "the server is ready", PATIENCE);
}

async function kill() {
  const ended = new Promise((resolve) => server.once("exit", resolve));
  server.kill("SIGKILL");
  await ended;
}

const command = (...args) => execFileSync(HOST, args, { env: { ...process.env, STRATA_TOKEN: token() }, encoding: "utf8" });
const submit = (name) => command("submit", TEAM, "--name", name, "--server", real);

/** A request of the test itself. */
const ask = async (path) => (await fetch(`${real}${path}`, { headers: { authorization: `Bearer ${token()}` } })).json();

before(async () => {
  if (!HOST) return;
  browser = await launch();
  real = `http://127.0.0.1:${await freePort()}`;
  await start();
  const page = await fetch(`${real}/`, { headers: { accept: "text/html" } });
  assert.ok(page.ok, "the program has the page");
  front = process.env.PAGE_SOURCES ? await startFront(real) : { url: real, close: () => {} };
});

after(async () => {
  if (!HOST) return;
  await browser.close();
  front.close();
  await kill();
  rmSync(folder, { recursive: true, force: true });
});

/** Tests something with a run of its own. */
function check(name, run, body) {
  test(name, { timeout: 180_000, skip: HOST ? false : "STRATA_HOST names no program" }, async () => {
    const opened = [];
    const openPage = async (path, more = {}) => {
      const one = await open(browser, front, path, { token: token(), ...more });
      one.page.setDefaultTimeout(PATIENCE);
      opened.push(one);
      return one.page;
    };
    try {
      if (run) submit(run);
      await body({ open: openPage });
      for (const { bad } of opened) assert.deepEqual(bad, []);
    } catch (error) {
      if (opened[0]) await shot(opened[0].page, `failed real ${name.slice(0, 50).replace(/[^a-z0-9]+/gi, "-")}`).catch(() => {});
      throw error;
    } finally {
      for (const { context } of opened) await context.close();
    }
  });
}

check("the address that is printed shows what to type, which starts a run that is seen at work", null, async ({ open: show }) => {
  await until(() => printed.includes("\n"), "the address is printed");
  const [address, secret] = printed.trim().split("/#token=");
  assert.equal(address, real);
  const page = await show("/", { token: secret });
  await sees(page, "No runs yet.");
  await shot(page, "real-empty");
  assert.ok(!page.url().includes("token"), "the token does not stay in the address");
  const [program, ...args] = (await page.locator(".command").innerText()).trim().split(" ");
  assert.equal(program, "strata-host");
  // Sources are delivered by this process, which waits for the command.
  const given = { "team.toml": TEAM, [front.url]: real };
  command(...args.map((one) => given[one] ?? one), "--name", "first");
  await page.getByRole("button", { name: "1 new run" }).click();
  await page.getByRole("link", { name: "first", exact: true }).click();
  await sees(page, "at work: Writer");
  await page.locator(".graph .node.live").first().waitFor();
  await shot(page, "real-at-work");
});

check("a run is started, watched over a reload, answered, fails, is resumed and ends", "one", async ({ open: show }) => {
  const page = await show("/runs/one/overview");
  await sees(page, "at work: Writer");
  await page.reload();
  await sees(page, "waits for");
  await shot(page, "real-waiting");
  await until(async () => (await ask("/v1/runs/one")).requests === 2, "both questions are open", PATIENCE);
  // One is shown in full, the other is folded.
  await page.locator(".more-items > summary").click();
  await page.getByRole("button", { name: "Approve" }).click();
  await sees(page, "Answered, continuing.");
  await until(async () => (await page.getByLabel("copies").count()) === 1, "the other question is shown", PATIENCE);
  await page.getByLabel("copies").fill("40");
  await page.getByRole("button", { name: "A5" }).click();
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await until(async () => (await page.locator(".field.wrong").allInnerTexts()).some((text) => text.startsWith("copies")), "the answer is refused at its field", PATIENCE);
  await shot(page, "real-wrong-answer");
  await page.getByLabel("copies").fill("4");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await sees(page, "trap: Printer.Print");
  await sees(page, "will not be paid again");
  await sees(page, `strata-host resume one team.toml --server ${front.url}`);
  await shot(page, "real-fault");
  await page.getByRole("button", { name: "Resume" }).first().click();
  await until(async () => (await page.locator(".run-title").innerText()).includes("done"), "the run is done", PATIENCE);
  await until(async () => (await page.locator(".graph .node.bad").count()) === 0, "nothing is shown as failed any more", PATIENCE);
  await shot(page, "real-done", { fullPage: true });
  for (const tab of ["timeline", "conversation", "calls", "files", "state", "events"]) {
    await page.getByRole("tab", { name: new RegExp(tab, "i") }).click();
    await sleep(700);
    await shot(page, `real-${tab}`);
    assert.equal(await page.locator(".problem").count(), 0, tab);
  }
});

check("a second answer from another tab is told of the first", "two", async ({ open: show }) => {
  const page = await show("/runs/two/overview");
  await sees(page, "which paper?");
  const [request] = (await ask("/v1/requests?run=two")).items.filter((one) => !one.tool);
  const other = await fetch(`${real}/v1/runs/two/answers`, { method: "POST", headers: { authorization: `Bearer ${token()}`, "content-type": "application/json" }, body: JSON.stringify({ [request.id]: { size: "A4" } }) });
  assert.equal(other.status, 200);
  await until(async () => !(await page.locator("main").innerText()).includes("which paper?"), "the question leaves by itself", PATIENCE);
});

check("the server is killed in mid-run and comes back", "three", async ({ open: show }) => {
  const page = await show("/runs/three/events");
  await sees(page, "action-started");
  await kill();
  await sees(page, "No connection since");
  await start();
  await sees(page, "Up to date");
  await until(async () => (await page.locator(".virtual-row").allInnerTexts()).some((row) => row.includes("request-opened")), "the run went on", PATIENCE);
  const { items } = await ask("/v1/runs/three/events?limit=500");
  await until(async () => Number((await page.locator(".filters .note").innerText()).split(" ")[0]) === items.length, "each event once", PATIENCE);
});

check("a run is forked from a checkpoint, and compared", "four", async ({ open: show }) => {
  const page = await show("/runs/four/state");
  await until(async () => (await ask("/v1/runs/four")).status === "waiting", "the run waits", PATIENCE);
  await page.getByLabel("Previous checkpoint").click();
  await page.getByRole("button", { name: "Fork from here" }).click();
  await page.getByLabel("Name optional").fill("five");
  await page.getByRole("dialog").getByRole("button", { name: "Fork", exact: true }).click();
  await until(() => page.url().includes("/runs/five/"), "the new run is shown", PATIENCE);
  await until(async () => (await ask("/v1/runs/five")).status === "waiting", "it waits, too", PATIENCE);
  const compared = await show("/compare?a=four&b=five");
  await sees(compared, "Spent");
  await shot(compared, "real-compare");
  assert.equal(await compared.locator(".problem").count(), 0);
});

check("what a token may not do is not offered, and a revoked one ends the view", "six", async ({ open: show }) => {
  const admin = { authorization: `Bearer ${token()}`, "content-type": "application/json" };
  const made = await fetch(`${real}/v1/tokens`, { method: "POST", headers: admin, body: JSON.stringify({ name: "ann", rights: ["view"], tenant: "default" }) });
  const { token: text } = await made.json();
  const page = await show("/runs/six/overview", { token: text });
  await sees(page, "six");
  await sleep(1500);
  assert.equal(await page.getByRole("button", { name: /^(Send|Pause|Cancel)/ }).count(), 0);
  await fetch(`${real}/v1/tokens/ann?tenant=default`, { method: "DELETE", headers: admin });
  await sees(page, "This token is not accepted any more");
});

check("a call is approved and a run is found and looked at with the keyboard alone", "seven", async ({ open: show }) => {
  const toApprove = async () => (await ask("/v1/requests?run=seven")).items.find((one) => one.tool);
  await until(toApprove, "the call waits for approval", PATIENCE);
  const page = await show(`/needs#seven/${(await toApprove()).id}`);
  await sees(page, "send_mail");
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  await press("a");
  await until(() => page.evaluate(() => document.activeElement.textContent.startsWith("Approve")), "the button has the focus");
  await press("Enter");
  await until(async () => !(await toApprove()), "the call is approved", PATIENCE);
  await press("g", "r");
  await sees(page, "spent today");
  await press("/");
  await page.keyboard.type("seven");
  await until(async () => (await page.locator("table.runs tbody tr").count()) === 1, "one run is found");
  await press("Escape", "j", "Enter");
  await until(() => page.url().includes("/runs/seven/overview"), "the run is shown");
  await page.getByRole("tab", { name: "Overview" }).waitFor();
  for (const [key, tab] of [["2", "timeline"], ["3", "conversation"], ["7", "events"]]) {
    await press(key);
    await until(() => page.url().includes(`/seven/${tab}`), tab);
  }
});

check("seven tabs of one browser follow a run, although the browser opens six connections", "eight", async ({ open: show }) => {
  const first = await show("/runs/eight/events");
  const tabs = [first];
  for (const tab of ["overview", "timeline", "conversation", "calls", "files", "state"]) tabs.push(await show(`/runs/eight/${tab}`, { context: first.context() }));
  await until(async () => (await ask("/v1/runs/eight")).status === "waiting", "the run waits", PATIENCE);
  for (const page of tabs) await sees(page, "waits for");
});
