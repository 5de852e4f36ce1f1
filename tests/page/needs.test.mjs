// What needs somebody: questions, approvals, faults, budgets and doubts.

import { assert, check, sees, settled, shot, until } from "./harness.mjs";
import { addAll, addDone, addFailed, addInDoubt, addOutOfBudget, addRunning, addWaiting } from "./mock/runs.mjs";

check("the start page is what needs somebody, with numbers in the title and at the icon", { fill: addAll }, async ({ page }) => {
  await sees(page, "May this call be made?");
  assert.match(page.url(), /\/needs$/, "the token is not in the address");
  assert.equal(await page.title(), "(5) Needs you – strata-host");
  assert.match(await page.getAttribute("#icon", "href"), /icon-needs/);
  assert.match(await page.locator(".needs-list").innerText(), /Questions and approvals 2[\s\S]*Faults 1[\s\S]*Out of budget 1[\s\S]*In doubt 1/);
  await shot(page, "needs");
});

check("without anything that waits the start page is all runs", { fill: addDone }, async ({ page }) => {
  await sees(page, "snake-1");
  assert.match(page.url(), /\/runs$/);
  assert.equal(await page.title(), "Runs – strata-host");
  await page.getByRole("link", { name: /Needs you/ }).click();
  await sees(page, "Nothing waits for you.");
  await shot(page, "needs-empty");
});

check("an approval is sent once, and its row leaves after a while", { fill: addWaiting, path: "/needs" }, async ({ page, server }) => {
  await page.getByRole("button", { name: "Approve" }).click();
  await sees(page, "Answered, continuing.");
  await shot(page, "answered");
  await until(async () => (await page.locator(".needs-list .entry").count()) === 1, "the answered row leaves");
  const event = server.find("campaign-7").events.at(-1);
  assert.deepEqual([event.kind, event.answer, event.person], ["request-answered", { approve: true }, "owner"]);
  assert.equal(server.requests.filter((line) => line.startsWith("POST")).length, 1);
});

check("a call is rejected with a reason, by keys alone", { fill: addWaiting, path: "/needs" }, async ({ page, server }) => {
  await sees(page, "May this call be made?");
  await page.keyboard.press("r");
  await page.keyboard.type("not on a Friday");
  await page.keyboard.press("Enter");
  await sees(page, "Answered, continuing.");
  assert.deepEqual(server.find("campaign-7").events.at(-1).answer, { approve: false, reason: "not on a Friday" });
});

check("approving by a key asks once more with Enter", { fill: addWaiting, path: "/needs" }, async ({ page, server }) => {
  await sees(page, "May this call be made?");
  await page.keyboard.press("a");
  await settled(page);
  assert.equal(server.requests.filter((line) => line.startsWith("POST")).length, 0);
  await page.keyboard.press("Enter");
  await sees(page, "Answered, continuing.");
});

check("a key works as soon as what it is for is seen, also while the page is not connected yet", { fill: addWaiting, path: null }, async ({ server, open }) => {
  server.holdsStreams = true;
  const { page } = await open("/needs", { init: () => {
    new MutationObserver((_, observer) => {
      if (!document.querySelector(".needs-item button.primary")) return;
      observer.disconnect();
      document.dispatchEvent(new KeyboardEvent("keydown", { key: "a", bubbles: true }));
      window.focusedAtOnce = document.activeElement.textContent;
    }).observe(document, { subtree: true, childList: true });
  } });
  await sees(page, "May this call be made?");
  assert.match(await page.evaluate(() => window.focusedAtOnce), /^Approve/);
  await page.keyboard.press("Enter");
  await sees(page, "Answered, continuing.");
});

check("arguments are changed in a form that marks what differs", { fill: addWaiting, path: "/needs" }, async ({ page, server }) => {
  await page.getByRole("button", { name: "Edit arguments" }).click();
  await page.getByRole("button", { name: "press" }).click();
  await page.getByLabel("batch").fill("50");
  assert.equal(await page.locator(".field.changed").count(), 2);
  await shot(page, "edit-arguments");
  await page.getByRole("button", { name: "Approve with these arguments" }).click();
  await sees(page, "Answered, continuing.");
  assert.deepEqual(server.find("campaign-7").events.at(-1).answer, { approve: true, arguments: { list: "press", subject: "Version 2 is here", urgent: false, batch: 50 } });
});

const boss = async (page) => {
  await page.locator(".entry", { hasText: "How many customers" }).click();
  await page.getByLabel("count").waitFor();
};

check("a wrong answer is shown at its field, and nothing typed is lost", { fill: addWaiting, path: "/needs" }, async ({ page, server }) => {
  await boss(page);
  await page.getByLabel("count").fill("2000");
  await page.getByLabel("day").fill("2026-12-01");
  await page.getByRole("button", { name: "friendly" }).click();
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await sees(page, "it must be at most 1000");
  assert.match(await page.locator(".field.wrong").innerText(), /count/);
  await shot(page, "wrong-answer");
  await page.reload();
  await boss(page);
  assert.equal(await page.getByLabel("count").inputValue(), "2000");
  assert.equal(await page.getByRole("button", { name: "friendly" }).getAttribute("aria-pressed"), "true");
  await page.getByLabel("count").fill("100");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await sees(page, "Answered, continuing.");
  assert.deepEqual(server.find("campaign-7").events.at(-1).answer, { count: 100, day: "2026-12-01", tone: "friendly" });
});

check("what is no number is found before it is sent", { fill: addWaiting, path: "/needs" }, async ({ page, server }) => {
  await boss(page);
  await page.getByLabel("count").fill("many");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await sees(page, "no number");
  assert.equal(server.requests.filter((line) => line.startsWith("POST")).length, 0);
});

check("a second answer from another tab is shown the first one", { fill: addWaiting, path: "/needs" }, async ({ page, server, open, context }) => {
  await boss(page);
  const other = await open("/needs", { context });
  await boss(other.page);
  // The mock does not tell the other tab, as if its message were still under way.
  server.publishRequest = () => {};
  await page.getByLabel("count").fill("5");
  await page.getByLabel("day").fill("2026-12-02");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await sees(page, "Answered, continuing.");
  await other.page.getByLabel("count").fill("6");
  await other.page.getByLabel("day").fill("2026-12-03");
  await other.page.getByRole("button", { name: "Answer", exact: true }).click();
  await sees(other.page, "Answered by owner at");
  assert.match(await other.page.locator(".needs-item").innerText(), /"count": 5/);
  await shot(other.page, "answered-before");
});

check("an answer that is given elsewhere leaves the list by itself, and what is shown does not jump", { fill: addWaiting, path: "/needs" }, async ({ page, server }) => {
  await boss(page);
  await until(() => server.streams.size === 1, "one stream");
  server.find("campaign-7").answer("ask-1-1-0-0", { approve: true }, "ann");
  await until(async () => (await page.locator(".needs-list .entry").count()) === 1, "the other question leaves");
  assert.match(await page.locator(".needs-item").innerText(), /How many customers/);
});

check("what comes later waits behind a button, and a question says since when it is open and what it is about", { fill: addWaiting, path: "/needs" }, async ({ page, server }) => {
  await boss(page);
  await until(() => server.streams.size === 1, "one stream");
  addRunning(server).ask("Printer", "ask-3", "which paper?", { choices: ["A4", "A5"], news: [{ id: "m1", from: "", cause_by: "UserRequirement", content: "a poem about the sea" }] });
  await page.getByRole("button", { name: "1 new" }).waitFor();
  assert.equal(await page.locator(".needs-list .entry").count(), 2);
  await page.getByRole("button", { name: "1 new" }).click();
  const entry = page.locator(".entry", { hasText: "which paper?" });
  assert.match(await entry.innerText(), /just now|s ago/);
  await entry.click();
  await page.locator(".needs-item").getByText("a poem about the sea").waitFor();
  await page.locator(".needs-item").getByText(/asked (just now|\d+ s ago)/).waitFor();
  await shot(page, "question");
});

check("a question whose schema cannot be drawn is answered as JSON", {
  fill: (server) => addWaiting(server).ask("Boss", "ask-9", "which one?", { action: "answer", schema: { oneOf: [{ type: "string" }, { type: "object" }] } }), path: "/needs",
}, async ({ page, server }) => {
  await page.locator(".entry", { hasText: "which one?" }).click();
  await page.getByLabel("Answer as JSON").fill('{"a": [1, 2]}');
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await sees(page, "Answered, continuing.");
  assert.deepEqual(server.find("campaign-7").events.at(-1).answer, { a: [1, 2] });
});

check("a list of choices is buttons", {
  fill: (server) => addRunning(server).ask("Printer", "ask-3", "which paper?", { choices: ["A4", "A5"] }), path: "/needs",
}, async ({ page, server }) => {
  await page.getByRole("button", { name: "A5" }).click();
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await sees(page, "Answered, continuing.");
  assert.equal(server.find("poem-4").events.at(-1).answer, "A5");
});

check("a fault says what failed, where, and what is kept; it is resumed", { fill: addFailed, path: "/needs" }, async ({ page, server }) => {
  await sees(page, "trap: Printer.Print");
  const text = await page.locator(".needs-item").innerText();
  for (const part of ["attempt 1, step 1, cause: unreachable", "index out of bounds", "at printer::page::layout", "Kept: 1 result of this step, $0.42", "strata-host resume printer-3 team.toml --server http://127.0.0.1"]) assert.ok(text.includes(part), part);
  await shot(page, "fault");
  await page.getByRole("button", { name: "Resume" }).click();
  await sees(page, "Resuming: printer-3");
  await sees(page, "Nothing waits for you.");
  assert.equal(server.find("printer-3").record.state, "running");
});

check("a budget is raised and the run resumed", { fill: addOutOfBudget, path: "/needs" }, async ({ page, server }) => {
  await sees(page, "out of budget");
  await shot(page, "budget");
  await page.getByLabel("New budget in USD").fill("0.4");
  assert.ok(await page.locator(".needs-item").getByRole("button", { name: "Resume" }).isDisabled(), "less than what is spent");
  await page.getByLabel("New budget in USD").fill("2.5");
  await page.locator(".needs-item").getByRole("button", { name: "Resume" }).click();
  await until(() => server.find("research-2").asked?.[0], "it is asked for");
  assert.deepEqual(server.find("research-2").asked[0], { what: "resume", investment: 2.5 });
});

check("a doubt is decided with a result that somebody knows", { fill: addInDoubt, path: "/needs" }, async ({ page, server }) => {
  await sees(page, "POST https://shop.example/orders");
  await page.getByRole("button", { name: "Give result…" }).click();
  await page.getByLabel("The answer, as JSON").fill('{"order": 17}');
  await shot(page, "doubt");
  await page.getByRole("button", { name: "Go on with this result" }).click();
  await until(() => server.find("order-9").asked?.[0], "it is asked for");
  assert.deepEqual(server.find("order-9").asked[0].in_doubt, { "Buyer.Order": { answer: { order: 17 } } });
});

check("only what the token may act on is counted, and what it may not do is absent", {
  fill: (server) => {
    addAll(server);
    server.tokens.set("viewer", { name: "viewer", tenant: "default", rights: ["view"], expires: null });
    server.tokens.set("boss", { name: "boss", tenant: "default", rights: ["view", "answer"], expires: null });
  }, path: "/needs", options: { token: "boss" },
}, async ({ page, open }) => {
  await until(async () => (await page.title()) === "(2) Needs you – strata-host", "two questions are counted");
  const viewer = await open("/runs/printer-3/overview", { token: "viewer" });
  await sees(viewer.page, "trap: Printer.Print");
  assert.equal(await viewer.page.getByRole("button", { name: /^(Resume|Send|Cancel|Pause)/ }).count(), 0);
  assert.match(await viewer.page.title(), /^printer-3/);
});
