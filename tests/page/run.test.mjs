// One run: what is seen of it while it goes on, its tabs, sending, forking, comparing.

import { assert, check, sees, settled, shot, until, visit } from "./harness.mjs";
import { addAll, addDone, addFailed, addLong, addNightly, addOutOfBudget, addRunning } from "./mock/runs.mjs";

check("a run is watched until it ends: its head changes, its result appears, and nothing scrolls", { fill: addRunning, path: "/runs/poem-4/overview" }, async ({ page, server }) => {
  await sees(page, "at work: Critic");
  await shot(page, "running");
  // What is fetched later moves what is below it.
  await page.locator(".graph .node").first().waitFor();
  await page.locator("section.timeline-part svg").first().waitFor();
  // Below what is looked at there is enough, also when the result has moved up.
  await page.setViewportSize({ width: 1280, height: 360 });
  const run = server.find("poem-4");
  const seen = () => page.evaluate(() => document.querySelector("section.timeline-part").getBoundingClientRect().top);
  const top = await seen();
  await page.evaluate((by) => window.scrollBy(0, by), top - 120);
  const before = await seen();
  run.clock = Date.now();
  run.emit("action-finished", { step: 1, role: "Critic", index: 0, action: "Judge", attempt: 1, digest: "00", output: { content: "good", data: null, to: [] } });
  run.message("Critic", "# Good\n\nPrint it.", ["Printer"], "Judge");
  run.commit(1).step(2).act("Printer", "Print", { took: 10 });
  run.message("Printer", "# The sea\n\nThe sea is a mirror.", [], "Print");
  run.end("done");
  await until(async () => (await page.locator(".run-title").innerText()).includes("done"), "the head says so");
  await sees(page, "Output of Printer");
  await settled(page);
  assert.ok(Math.abs((await seen()) - before) < 6, "what was seen is where it was");
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.evaluate(() => window.scrollTo(0, 0));
  await shot(page, "ended");
});

check("a reload in the middle of a run, with a selection, shows the same", { fill: (server) => addLong(server, 1500), path: "/runs/long-1/timeline" }, async ({ page, server }) => {
  await until(async () => (await page.locator(".live-timeline .bar").count()) > 5, "bars");
  await sees(page, "Next failure");
  await page.keyboard.press("f");
  await until(() => /#e\d+$/.test(page.url()), "a failure is selected");
  await sees(page, "failed, tried again");
  const chosen = await page.locator(".inspector, .tab-content").last().innerText();
  await page.reload();
  await until(async () => (await page.locator(".inspector, .tab-content").last().innerText()) === chosen, "the same is selected");
  await shot(page, "timeline-failure");
  const run = server.find("long-1");
  const { n } = run;
  for (let at = 0; at < 3; at += 1) run.act("Worker7", "Count", { took: 5 });
  await until(async () => (await page.locator(".live-timeline .lanes").innerText()).includes("Worker7"), "a new lane");
  assert.ok(run.n > n);
});

check("the newest five hundred events are read first, and the others follow", { fill: (server) => addLong(server, 3000), path: "/runs/long-1/events" }, async ({ page, server }) => {
  await sees(page, "step-committed");
  const reads = server.requests.filter((line) => line.startsWith("GET /v1/runs/long-1/events"));
  const after = Number(/after=(\d+)/.exec(reads[0])[1]);
  assert.equal(after, server.find("long-1").n - 500);
  await until(async () => (await page.locator(".filters").innerText()).replaceAll("\u2009", "").includes(`${server.find("long-1").n} events`), "all are read");
  assert.ok((await page.locator(".virtual-row").count()) < 80, "only what is seen is in the document");
});

check("scrolling away from the end leaves Live, and new events do not move what is seen", { fill: (server) => addLong(server, 900), path: "/runs/long-1/events" }, async ({ page, server }) => {
  await sees(page, "● Live");
  await page.locator(".virtual-box").hover();
  await page.mouse.wheel(0, -2000);
  await sees(page, "Live .");
  const first = () => page.evaluate(() => {
    const box = document.querySelector(".virtual-box");
    const top = box.getBoundingClientRect().top + 40;
    return [...document.querySelectorAll(".virtual-row")].find((row) => row.getBoundingClientRect().top >= top).innerText;
  });
  await settled(page);
  const before = await first();
  const run = server.find("long-1");
  for (let at = 0; at < 50; at += 1) run.act("Worker1", "Count", { took: 1 });
  await until(async () => (await page.locator(".filters .note").innerText()).replaceAll("\u2009", "").startsWith(`${run.n} events`), "all of them are there");
  assert.equal(await first(), before);
  await page.keyboard.press(".");
  await sees(page, "● Live");
});

check("tabs are chosen by keys, and what is selected is selected in all of them", { fill: addFailed, path: "/runs/printer-3/overview" }, async ({ page }) => {
  await sees(page, "trap: Printer.Print");
  await page.keyboard.press("f");
  await page.keyboard.press("2");
  await until(() => /\/timeline#e\d+$/.test(page.url()), "the timeline");
  await until(async () => (await page.locator(".bar.chosen").count()) === 1, "the bar is chosen");
  await page.keyboard.press("7");
  await until(() => /\/events#e\d+$/.test(page.url()), "the events");
  assert.match(await page.getByLabel("The selected event").innerText(), /action-failed/);
  await page.keyboard.press("3");
  assert.equal(await page.locator("select").first().inputValue(), "Printer");
});

check("a conversation has turns, tool calls with their results, and text as it arrives", { fill: (server) => {
  addOutOfBudget(server);
  addRunning(server);
}, path: "/runs/research-2/conversation" }, async ({ page, server, open }) => {
  await sees(page, "Part 1 of the answer");
  await page.getByText("Before this turn, messages 1 to 4 were replaced").click();
  await sees(page, "Birds eat berries and seeds.");
  await page.locator("details.tool").first().locator("summary").click();
  await sees(page, "Blackbirds eat berries.");
  await sees(page, "of the server files");
  await shot(page, "conversation");
  const live = await open("/runs/poem-4/conversation");
  await until(() => server.textStreams.size === 1, "the texts are followed");
  const run = server.find("poem-4");
  const send = (offset, text) => server.publishText(run, { role: "Critic", turn: 0, attempt: 1, offset, text });
  send(0, "The sea, ");
  send(9, "ünder ");
  send(16, "the moon");
  send(9, "ünder ");
  await sees(live.page, "The sea, ünder the moon");
  server.publishText(run, { live: false }, "source");
  await sees(live.page, "Another server works on this run.");
  server.publishText(run, { live: true }, "source");
  await until(async () => (await live.page.getByText("Another server works on this run.").count()) === 0, "this one does");
  await shot(live.page, "live-text");
  run.clock = Date.now();
  run.turn("Critic", 0, { text: "The sea, ünder the moon." });
  await until(async () => (await live.page.locator(".caret").count()) === 0, "the record has it");
  await sees(live.page, "The sea, ünder the moon.");
});

check("calls have sums that follow the filter", { fill: addDone, path: "/runs/snake-1/calls" }, async ({ page, server }) => {
  server.find("snake-1").act("Coder", "WriteCode", { source: "recorded", cost: 0 });
  await sees(page, "Product.WritePrd");
  await page.getByLabel("Search the calls").fill("architect");
  await until(async () => (await page.locator(".facts").innerText()).includes("$0.03"), "the sum of one call");
  await page.locator(".calls-list button").first().click();
  await sees(page, "the whole answer");
  await shot(page, "calls");
});

check("files are text, with the difference to the checkpoint before and a download", { fill: addDone, path: "/runs/snake-1/files" }, async ({ page }) => {
  await page.getByRole("button", { name: "snake.py" }).click();
  await sees(page, "import curses");
  await shot(page, "files");
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  assert.equal(download.suggestedFilename(), "snake.py");
});

check("a checkpoint is chosen by arrow keys and forked with a changed value", { fill: addDone, path: "/runs/snake-1/state" }, async ({ page, server }) => {
  await sees(page, "Checkpoint 4 of 4");
  await page.keyboard.press("ArrowLeft");
  await sees(page, "Checkpoint 3 of 4");
  await sees(page, "log/count");
  await shot(page, "state");
  await page.getByRole("button", { name: "Fork from here" }).click();
  await page.getByLabel("Name optional").fill("snake-2");
  await page.getByRole("button", { name: "Change a value" }).click();
  await page.getByLabel("Scope and key").fill("log/count");
  assert.equal(await page.getByLabel("Value, as JSON").inputValue(), "3");
  await page.getByLabel("Value, as JSON").fill("{");
  await sees(page, "no JSON");
  await shot(page, "fork");
  await page.getByLabel("Value, as JSON").fill("9");
  await page.getByRole("dialog").getByRole("button", { name: "Fork", exact: true }).click();
  await until(() => page.url().endsWith("/runs/snake-2/overview"), "the new run is shown");
  assert.deepEqual(server.find("snake-2").set, { "log/count": 9 });
});

check("two runs are compared: the first difference, then the rest", { fill: (server) => {
  addDone(server);
  const other = addDone(server, "snake-2", Date.now() - 600_000);
  other.events.find((event) => event.kind === "action-finished" && event.role === "Architect").output.content = "One module.";
  other.record.output = other.record.output.replace("arrows", "keys");
}, path: "/compare?a=snake-1&b=snake-2" }, async ({ page }) => {
  await sees(page, "The first difference");
  await sees(page, "One module.");
  await until(async () => (await page.locator(".difference .new").count()) > 0, "the outputs differ");
  await shot(page, "compare");
});

check("a fork is compared with the run that it comes from after the checkpoint, before which it has no events", { fill: (server) => {
  const { id } = addDone(server);
  const forked = addDone(server, "snake-2", Date.now() - 600_000);
  forked.changed({ forked_from: `${id}@main-1` });
  const at = forked.events.findIndex((event) => event.kind === "step-committed");
  forked.events.splice(0, at + 1);
  forked.events.find((event) => event.kind === "action-finished" && event.role === "Architect").output.content = "One module.";
}, path: "/compare?a=snake-1&b=snake-2" }, async ({ page }) => {
  await sees(page, "One module.");
  await sees(page, "Two modules: board and snake.");
  await sees(page, "$0.10");
});

check("a message is sent, and what may not be done is not offered", { fill: addRunning, path: "/runs/poem-4/overview" }, async ({ page, server }) => {
  await sees(page, "at work: Critic");
  await page.keyboard.press("s");
  await page.getByRole("dialog").getByLabel("Text").fill("hurry");
  await page.getByRole("dialog").getByLabel("Label").fill("Note");
  await page.getByRole("dialog").getByRole("button", { name: "Send" }).click();
  await until(() => server.find("poem-4").messages.at(-1).content === "hurry", "it is sent");
  await page.getByRole("button", { name: "Cancel…" }).click();
  await shot(page, "cancel");
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await until(async () => (await page.locator(".run-title").innerText()).includes("cancelled"), "it is cancelled");
});

check("a run that waits for a time says until when, and a list that is worked on is one bar and one lane", { fill: addNightly, path: "/runs/nightly-1/overview" }, async ({ page }) => {
  await sees(page, "17 done, 1 running, 1 failed, of 20");
  assert.match(await page.locator(".run-title").innerText(), /◷ waiting\s+until (\d{4}-\d\d-\d\d )?\d\d:\d\d/);
  await sees(page, "Open timers");
  await sees(page, "https://chat.example answers 404");
  await until(async () => (await page.locator(".live-timeline .lanes").innerText()).includes("Review 17/20"), "the lane has its count");
  assert.equal(await page.locator(".live-timeline .lanes", { hasText: "Critic" }).count(), 0, "what is within is part of its lane");
  assert.equal(await page.locator(".node .ring").count(), 1, "what a role spent is a ring");
  await page.getByRole("button", { name: "Splitter" }).first().click();
  await page.getByRole("button", { name: "Split", exact: true }).click();
  await sees(page, "skipped 3 that are binary");
  await shot(page, "nightly");
});

check("a text is copied, and shown as it was written", { fill: addDone, path: "/runs/snake-1/conversation" }, async ({ page }) => {
  const last = page.locator(".said").last();
  await last.getByRole("link", { name: "curses" }).waitFor();
  await last.getByRole("button", { name: "Raw" }).click();
  await sees(page, "- **q** ends it");
  await shot(page, "raw");
  await last.getByRole("button", { name: "Raw" }).click();
  await last.getByRole("link", { name: "curses" }).waitFor();
});

check("a fork leads back to the run that it comes from, and a report is saved", { fill: addDone, path: "/runs/snake-1/overview" }, async ({ page, server }) => {
  await sees(page, "The game is in");
  const { id } = server.find("snake-1");
  const forked = addDone(server, "snake-2");
  forked.changed({ forked_from: `${id}@main-2` });
  await visit(page, "/runs/snake-2/overview");
  await page.getByRole("button", { name: "More" }).click();
  const [report] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Report" }).click()]);
  assert.equal(report.suggestedFilename(), "snake-2.html");
  await page.getByRole("link", { name: "main-2" }).click();
  await sees(page, "Checkpoint 3 of 4");
});

check("a run that is unknown, or hidden from the token, says so", { fill: addAll, path: "/runs/nothing/overview" }, async ({ page }) => {
  await sees(page, "Unknown, or not for this token");
  await sees(page, "/v1/runs/nothing");
  await shot(page, "unknown-run");
});

check("the server has workers, a queue, triggers and tokens; a trigger is fired, and a token made, shown once, and revoked", { fill: (server) => {
  addAll(server);
  server.triggers.push({ name: "morning", run: "snake-1", cron: "0 7 * * 1-5", tz: "Europe/Berlin", next: new Date(Date.now() + 3_600_000).toISOString(), last: new Date(Date.now() - 86_400_000).toISOString(), missed: 2 });
}, path: "/server" }, async ({ page, server }) => {
  await sees(page, "waits-for-room");
  await sees(page, "version 0.1.0, database sqlite:workspace/serve/runs.db");
  await page.getByRole("button", { name: "Fire now" }).click();
  await sees(page, "Fired: morning");
  assert.deepEqual(server.fired, ["morning"]);
  await page.getByText("New token").click();
  await page.getByLabel("Name", { exact: true }).fill("ann");
  await page.getByRole("button", { name: "Make a token" }).click();
  await sees(page, "It is shown once:");
  await shot(page, "server");
  await page.getByRole("button", { name: "Revoke ann" }).click();
  await page.getByRole("button", { name: "Revoke ann" }).click();
  await until(() => ![...server.tokens.values()].some((one) => one.name === "ann"), "it is revoked");
});
