// The page on the real program: a server with scripted models. `STRATA_HOST` is the path of the program. With `PAGE_SOURCES`,
// the page comes from its sources, so that an edit of it needs no build.

import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, atEnd, check as checkPage, sees, settled, shot, until, visit } from "./harness.mjs";
import { startFront } from "./mock/front.mjs";

const HOST = process.env.STRATA_HOST;
const TEAM = fileURLToPath(new URL("./team/team.toml", import.meta.url));

/** Returns a port that is free now. */
const freePort = () => new Promise((resolve) => {
  const listener = createServer().listen(0, "127.0.0.1", () => {
    const { port } = listener.address();
    listener.close(() => resolve(port));
  });
});

/** A server of the program with a storage of its own, and the page in front of it. */
class RealServer {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), "page-"));
    /** What it printed. */
    this.printed = "";
  }

  async start() {
    this.real ??= `http://127.0.0.1:${await freePort()}`;
    this.process = spawn(HOST, ["serve", "--storage", this.folder, "--listen", this.real.slice("http://".length), "--quiet"], { stdio: ["ignore", "pipe", "ignore"] });
    this.process.stdout.on("data", (data) => (this.printed += data));
    await until(() => fetch(`${this.real}/ready`).then((answer) => answer.ok, () => false), "the server is ready");
    const page = await fetch(`${this.real}/`, { headers: { accept: "text/html" } });
    assert.ok(page.ok, "the program has the page");
    this.front ??= process.env.PAGE_SOURCES ? await startFront(this.real) : { url: this.real, close: () => {} };
    this.url = this.front.url;
    this.token = readFileSync(join(this.folder, "token"), "utf8").trim();
    return this;
  }

  /** Ends the process at once. */
  async stop() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.process.kill("SIGKILL");
    await ended;
  }

  async kill() {
    this.front.close();
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }

  command(...args) {
    return execFileSync(HOST, args, { env: { ...process.env, STRATA_TOKEN: this.token }, encoding: "utf8" });
  }

  /** Starts a run of the team. */
  submit(name) {
    this.command("submit", TEAM, "--name", name, "--server", this.real);
  }

  /** Makes a request of the test itself. */
  async ask(path, { method = "GET", body } = {}) {
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    return fetch(`${this.real}${path}`, { method, headers, body: body && JSON.stringify(body) });
  }

  async get(path) {
    return (await this.ask(path)).json();
  }
}

let shared = null;
atEnd(() => shared?.then((server) => server.kill()));

/** The server of all tests that leave it as it is. */
async function sharedServer() {
  shared ??= new RealServer().start();
  const server = await shared;
  return Object.assign(Object.create(server), { kill: () => {} });
}

/** Tests something with a run of its own, on a server that others use, too, unless it says otherwise. */
function check(name, run, body, start = sharedServer) {
  if (!HOST) return;
  const begin = async () => {
    const server = await start();
    if (run) server.submit(run);
    return server;
  };
  checkPage(name, { start: begin, path: null }, ({ server, open }) => body({ server, open: async (path, more) => (await open(path, more)).page }));
}

const ownServer = () => new RealServer().start();

check("the address that is printed shows what to type, which starts a run that is seen at work", null, async ({ server, open: show }) => {
  await until(() => server.printed.includes("\n"), "the address is printed");
  const [address, secret] = server.printed.trim().split("/#token=");
  assert.equal(address, server.real);
  const page = await show("/", { token: secret });
  await sees(page, "No runs yet.");
  await shot(page, "real-empty");
  assert.ok(!page.url().includes("token"), "the token does not stay in the address");
  const [program, ...args] = (await page.locator(".command").innerText()).trim().split(" ");
  assert.equal(program, "strata-host");
  // Sources are delivered by this process, which waits for the command.
  const given = { "team.toml": TEAM, [server.url]: server.real };
  server.command(...args.map((one) => given[one] ?? one), "--name", "first");
  await page.getByRole("button", { name: "1 new run" }).click();
  await page.getByRole("link", { name: "first", exact: true }).click();
  await sees(page, "at work: Writer");
  await page.locator(".graph .node.live").first().waitFor();
  await shot(page, "real-at-work");
}, ownServer);

check("a run is started, watched over a reload, answered, fails, is resumed and ends", null, async ({ server, open: show }) => {
  const page = await show("/runs");
  await page.locator("h1").waitFor();
  // Its first role works for some seconds.
  server.submit("one");
  await visit(page, "/runs/one/overview");
  await sees(page, "at work: Writer");
  await page.reload();
  await sees(page, "waits for");
  await shot(page, "real-waiting");
  await until(async () => (await server.get("/v1/runs/one")).requests === 2, "both questions are open");
  // One is shown in full, the other is folded.
  await page.locator(".more-items > summary").click();
  await page.getByRole("button", { name: "Approve" }).click();
  await sees(page, "Answered, continuing.");
  await until(async () => (await page.getByLabel("copies").count()) === 1, "the other question is shown");
  await page.getByLabel("copies").fill("40");
  await page.getByRole("button", { name: "A5" }).click();
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await until(async () => (await page.locator(".field.wrong").allInnerTexts()).some((text) => text.startsWith("copies")), "the answer is refused at its field");
  await shot(page, "real-wrong-answer");
  await page.getByLabel("copies").fill("4");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await sees(page, "trap: Printer.Print");
  await sees(page, "will not be paid again");
  await sees(page, `strata-host resume one team.toml --server ${server.url}`);
  await shot(page, "real-fault");
  await page.getByRole("button", { name: "Resume" }).first().click();
  await until(async () => (await page.locator(".run-title").innerText()).includes("done"), "the run is done");
  await until(async () => (await page.locator(".graph .node.bad").count()) === 0, "nothing is shown as failed any more");
  await shot(page, "real-done", { fullPage: true });
  for (const tab of ["timeline", "conversation", "calls", "files", "state", "events"]) {
    await page.getByRole("tab", { name: new RegExp(tab, "i") }).click();
    await settled(page);
    await shot(page, `real-${tab}`);
    assert.equal(await page.locator(".problem").count(), 0, tab);
  }
});

check("a second answer from another tab is told of the first", "two", async ({ server, open: show }) => {
  const page = await show("/runs/two/overview");
  await sees(page, "which paper?");
  const [request] = (await server.get("/v1/requests?run=two")).items.filter((one) => !one.tool);
  assert.ok(Math.abs(Date.now() - Date.parse(request.opened)) < 60_000, `a request says since when it is open: ${request.opened}`);
  assert.match(request.news[0].content, /Version 2/, "and what it is about");
  await sees(page, "asked just now");
  const other = await server.ask("/v1/runs/two/answers", { method: "POST", body: { [request.id]: { size: "A4" } } });
  assert.equal(other.status, 200);
  await until(async () => !(await page.locator("main").innerText()).includes("which paper?"), "the question leaves by itself");
});

check("the server is killed in mid-run and comes back", "three", async ({ server, open: show }) => {
  const page = await show("/runs/three/events");
  await sees(page, "action-started");
  await server.stop();
  await sees(page, "No connection since");
  await server.start();
  await sees(page, "Up to date");
  await until(async () => (await page.locator(".virtual-row").allInnerTexts()).some((row) => row.includes("request-opened")), "the run went on");
  await until(async () => (await server.get("/v1/runs/three")).status === "waiting", "it waits");
  const { items } = await server.get("/v1/runs/three/events?limit=500");
  await until(async () => Number((await page.locator(".filters .note").innerText()).split(" ")[0]) === items.length, "each event once");
}, ownServer);

check("a run is forked from a checkpoint, and compared", "four", async ({ server, open: show }) => {
  const page = await show("/runs/four/state");
  await until(async () => (await server.get("/v1/runs/four")).status === "waiting", "the run waits");
  await page.getByLabel("Previous checkpoint").click();
  await page.getByRole("button", { name: "Fork from here" }).click();
  await page.getByLabel("Name optional").fill("five");
  await page.getByRole("dialog").getByRole("button", { name: "Fork", exact: true }).click();
  await until(() => page.url().includes("/runs/five/"), "the new run is shown");
  await sees(page, "forked from");
  await until(async () => (await server.get("/v1/runs/five")).status === "waiting", "it waits, too");
  const compared = await show("/compare?a=four&b=five");
  await sees(compared, "Spent");
  await shot(compared, "real-compare");
  assert.equal(await compared.locator(".problem").count(), 0);
});

check("what a token may not do is not offered, and a revoked one ends the view", null, async ({ server, open: show }) => {
  const made = await server.ask("/v1/tokens", { method: "POST", body: { name: "ann", rights: ["view"], tenant: "default" } });
  const { token } = await made.json();
  const page = await show("/runs", { token });
  await page.locator("h1").waitFor();
  server.submit("six");
  await visit(page, "/runs/six/overview");
  await sees(page, "at work");
  await settled(page);
  assert.equal(await page.getByRole("button", { name: /^(Send|Pause|Cancel)/ }).count(), 0);
  await server.ask("/v1/tokens/ann?tenant=default", { method: "DELETE" });
  await sees(page, "This token is not accepted any more");
});

check("a call is approved and a run is found and looked at with the keyboard alone", "seven", async ({ server, open: show }) => {
  const toApprove = async () => (await server.get("/v1/requests?run=seven")).items.find((one) => one.tool);
  await until(toApprove, "the call waits for approval");
  const page = await show(`/needs#seven/${(await toApprove()).id}`);
  await sees(page, "send_mail");
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  await press("a");
  await until(() => page.evaluate(() => document.activeElement.textContent.startsWith("Approve")), "the button has the focus");
  await press("Enter");
  await until(async () => !(await toApprove()), "the call is approved");
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

check("seven tabs of one browser follow a run, although the browser opens six connections", "eight", async ({ server, open: show }) => {
  const first = await show("/runs/eight/events");
  const tabs = [first];
  for (const tab of ["overview", "timeline", "conversation", "calls", "files", "state"]) tabs.push(await show(`/runs/eight/${tab}`, { context: first.context() }));
  await until(async () => (await server.get("/v1/runs/eight")).status === "waiting", "the run waits");
  for (const page of tabs) await sees(page, "waits for");
});
