// The list of all runs: numbers, filters, pages, several runs at once, and new runs.

import { assert, check, sees, shot, until } from "./harness.mjs";
import { addAll, addDone, addRunning, addWaiting } from "./mock/runs.mjs";

check("numbers are filters, filters are in the address, and going back restores them", { fill: addAll, path: "/runs" }, async ({ page }) => {
  await sees(page, "snake-1");
  await shot(page, "runs");
  await page.locator("button.number", { hasText: "failed" }).click();
  await until(async () => (await page.locator("table.runs tbody tr").count()) === 1, "one run failed");
  assert.match(page.url(), /\/runs\?status=failed$/);
  await page.getByRole("link", { name: "printer-3" }).click();
  await sees(page, "trap: Printer.Print");
  assert.match(page.url(), /\/runs\/printer-3\/overview$/);
  await page.goBack();
  await until(async () => (await page.locator("table.runs tbody tr").count()) === 1, "the filter is there again");
  await page.goBack();
  await until(async () => (await page.locator("table.runs tbody tr").count()) === 7, "all runs are there again");
});

check("text filters names and ideas, and a chip is removed", { fill: addAll, path: "/runs?status=failed" }, async ({ page }) => {
  await sees(page, "printer-3");
  await page.getByRole("button", { name: "Remove status failed" }).click();
  await sees(page, "poem-4");
  await page.keyboard.press("/");
  await page.keyboard.type("the sea");
  await until(async () => (await page.locator("table.runs tbody tr").count()) === 1, "one run is about the sea");
  await until(() => page.url().endsWith("text=the+sea"), "the text is in the address");
  await page.getByRole("searchbox").fill("nothing like this");
  await sees(page, "No run fits these filters.");
  await shot(page, "runs-no-fit");
});

check("what is typed while the address takes what was typed before is not lost", { fill: addAll, path: "/runs" }, async ({ page }) => {
  await sees(page, "poem-4");
  await page.evaluate(() => {
    const field = document.getElementById("runs-search");
    const type = (text) => {
      field.value = text;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    };
    const { replaceState } = history;
    history.replaceState = (...change) => {
      replaceState.apply(history, change);
      if (location.search !== "?text=the") return;
      queueMicrotask(() => type("the s"));
      setTimeout(() => type(`${field.value}ea`), 80);
    };
    type("the");
  });
  await until(() => page.url().endsWith("text=the+sea"), "all of it is in the address");
  assert.equal(await page.getByRole("searchbox").inputValue(), "the sea");
});

check("searching begins in any view, and what is typed at once is searched for", { fill: addAll, path: "/runs/snake-1/overview" }, async ({ page, open, context }) => {
  await sees(page, "The game is in");
  await page.getByRole("link", { name: /^Search/ }).click();
  await page.keyboard.type("the sea");
  await until(async () => (await page.locator("table.runs tbody tr").count()) === 1, "one run is about the sea");
  const other = await open("/needs", { context });
  await sees(other.page, "May this call be made?");
  await other.page.keyboard.type("/the sea");
  await until(async () => (await other.page.locator("table.runs tbody tr").count()) === 1, "by the key, too");
  assert.equal(await other.page.getByRole("searchbox").inputValue(), "the sea");
});

check("without runs the page says in one sentence what to type", { path: "/runs" }, async ({ page, server }) => {
  await sees(page, "No runs yet.");
  await sees(page, `strata-host submit team.toml --server ${server.url}`);
  await shot(page, "runs-empty");
});

check("new runs wait behind a button", { fill: addDone, path: "/runs" }, async ({ page, server }) => {
  await sees(page, "snake-1");
  await until(() => server.streams.size === 1, "one stream");
  addRunning(server, "poem-5");
  addRunning(server, "poem-6");
  await sees(page, "2 new runs");
  assert.equal(await page.locator("table.runs tbody tr").count(), 1);
  await page.getByRole("button", { name: "2 new runs" }).click();
  await until(async () => (await page.locator("table.runs tbody tr").count()) === 3, "they are shown");
});

check("a list is read in pages of fifty", {
  fill: (server) => {
    for (let at = 0; at < 120; at += 1) server.add(`many-${String(at).padStart(3, "0")}`).end("done");
  }, path: "/runs",
}, async ({ page }) => {
  await until(async () => (await page.locator("table.runs tbody tr").count()) === 50, "fifty runs");
  await page.getByRole("button", { name: "More runs" }).click();
  await until(async () => (await page.locator("table.runs tbody tr").count()) === 100, "a hundred");
  await page.getByRole("button", { name: "More runs" }).click();
  await until(async () => (await page.locator("table.runs tbody tr").count()) === 120, "all");
});

check("runs are chosen by keys and cancelled together, with a result each", { fill: addAll, path: "/runs" }, async ({ page, server }) => {
  await sees(page, "poem-4");
  for (const key of ["j", "x", "j", "x"]) await page.keyboard.press(key);
  await sees(page, "2 runs selected");
  await page.getByRole("button", { name: "Pause…" }).click();
  await shot(page, "bulk");
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await until(async () => (await page.locator(".results .mark.ok").count()) === 2, "two results");
  assert.ok(server.requests.includes("POST /v1/bulk"));
});

check("a run is started with a team that was used before", { fill: addDone, path: "/runs" }, async ({ page, server }) => {
  await sees(page, "snake-1");
  await page.keyboard.press("n");
  await page.getByLabel("A team that was used before").selectOption({ index: 1 });
  await page.getByRole("dialog").getByLabel("Idea").fill("a tetris game");
  await page.getByLabel("Name optional").fill("tetris");
  await page.getByLabel("Budget in USD optional").fill("3");
  await shot(page, "new-run");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await until(() => page.url().endsWith("/runs/tetris/overview"), "the run is shown");
  assert.equal(server.find("tetris").record.budget, 3);
});

check("a run is started with files that are chosen, and a refusal is shown as it is", { fill: addDone, path: "/runs" }, async ({ page, server }) => {
  await sees(page, "snake-1");
  await page.getByRole("button", { name: "New run" }).click();
  const files = [{ name: "team.toml", mimeType: "text/plain", buffer: Buffer.from('schema = "strata.team/1"') }, { name: "a.wasm", mimeType: "application/wasm", buffer: Buffer.from([0, 97]) }];
  await page.locator("input[type=file]").evaluate((input) => input.removeAttribute("webkitdirectory"));
  await page.locator("input[type=file]").setInputFiles(files);
  await sees(page, "2 files");
  await page.getByRole("dialog").getByLabel("Idea").fill("go");
  server.refusal = "the team would run the command `bridge-program` and read the variable PROBE_VAR";
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await sees(page, "bridge-program");
  await sees(page, "a policy of the server can allow it");
  await shot(page, "refused");
  server.refusal = null;
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await until(() => /\/runs\/run-2\/overview$/.test(page.url()), "the run is shown");
  assert.equal(server.blobs.size, 2);
});

check("a token of all tenants opens the runs of each, answers them and controls them, also if two have the same name", {
  fill: (server) => {
    addWaiting(server);
    addWaiting(server, "red/campaign-7");
    addRunning(server, "red/poem-4");
  }, path: "/runs",
}, async ({ page, server }) => {
  await page.getByRole("link", { name: "red/poem-4" }).click();
  await sees(page, "at work: Critic");
  assert.match(page.url(), /\/runs\/red%2Fpoem-4\/overview$/);
  await until(() => server.streams.size === 1, "one stream");
  server.find("red/poem-4").act("Printer", "Print", { took: 1 });
  await page.getByRole("tab", { name: "Events" }).click();
  await sees(page, "Printer.Print, attempt 1");
  await page.getByRole("button", { name: "Pause" }).click();
  await until(() => server.requests.includes("POST /v1/runs/red%2Fpoem-4/pause"), "the run of that tenant is paused");
  await page.getByRole("link", { name: /Needs you/ }).click();
  await until(async () => (await page.locator(".needs-list .entry").count()) === 4, "the questions of both runs");
  await page.locator(".entry", { hasText: "red/campaign-7" }).filter({ hasText: "send_mail" }).click();
  await page.getByRole("button", { name: "Approve" }).click();
  await sees(page, "Answered, continuing.");
  assert.equal(server.find("red/campaign-7").events.at(-1).kind, "request-answered");
  assert.equal(server.find("campaign-7").requests.size, 2, "nothing was answered elsewhere");
});
