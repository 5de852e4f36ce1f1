// Hostile content in every place where a guest, a model, a tool server or a submitter can put text: nothing runs, nothing
// breaks the layout, and the policy has nothing to report.

import { assert, check, shot, sleep } from "./harness.mjs";
import { hostileTexts } from "./hostile_texts.mjs";
import { iso } from "./mock/run.mjs";

/** Names cannot be longer than this, nor have characters that are not seen; everything else can be anything. */
const nameOf = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f]/g, "_").slice(0, 200) || "empty";

/** A run with a text in each of its places. */
function addHostile(server, text, number) {
  const role = text.slice(0, 4000) || "Role";
  const run = server.add(`hostile-${number}`, {
    team: text.slice(0, 300), idea: text.slice(0, 2000), roles: [role, "Other"], labels: { [text.slice(0, 100)]: text.slice(0, 100) }, began: Date.now() - 60_000, by: nameOf(text), budget: 1,
    graph: { width: 400, height: 80, nodes: [{ id: 0, kind: "role", label: role, x: 0, y: 0, width: 140, height: 48 }, { id: 1, kind: text.slice(0, 50), label: "Other", x: 240, y: 0, width: 140, height: 48 }], edges: [{ from: 0, to: 1, label: text.slice(0, 500), points: [[140, 24], [240, 24]] }] },
  });
  run.begin().step(0);
  const about = { step: 0, role, index: 0, action: text.slice(0, 1000) };
  run.emit("action-started", { ...about, attempt: 1, digest: text.slice(0, 64) });
  run.call(about, { what: text, model: text.slice(0, 200), call: "llm", cost: 0.01 });
  run.emit("action-finished", { ...about, attempt: 1, digest: "00", output: { content: text, data: { [text.slice(0, 1000)]: text.slice(0, 2000) }, to: [text.slice(0, 100)] } });
  run.message(role, text, ["Other", text.slice(0, 200)], text.slice(0, 300), { [text.slice(0, 300)]: [text.slice(0, 300)] });
  run.turn(role, 0, { text, calls: [{ tool: text.slice(0, 300), arguments: text, result: text }, { tool: `${text.slice(0, 50)}/tool`, arguments: "{", outcome: { kind: "rejected", reason: text } }], model: text.slice(0, 200), finish: text.slice(0, 50) });
  run.emit("mcp-server", { server: text.slice(0, 50), state: "ready", name: text, version: text.slice(0, 100) });
  run.emit("tool-rejected", { role, turn: 0, tool: text.slice(0, 300), tool_call: 1, reason: text });
  run.file(`${nameOf(text)}/${nameOf(text)}.html`, text, `${role}.${text.slice(0, 100)}`);
  run.scopes.env[text.slice(0, 200) || "scope"] = { [text.slice(0, 200)]: { [text.slice(0, 200)]: text.slice(0, 3000) } };
  run.commit(0).step(1);
  run.emit(`odd-${text.slice(0, 200)}`, { [text.slice(0, 200)]: text, time: iso(run.clock) });
  run.emit("action-failed", { ...about, step: 1, attempt: 1, fault: text.slice(0, 100), cause: text.slice(0, 100), message: text, digest: "00", backtrace: [text.slice(0, 3000), "two"] });
  run.ask(role, `ask-${text.slice(0, 100)}`, text, {
    action: text.slice(0, 300), tool: text.slice(0, 300) || "tool", arguments: { [text.slice(0, 300)]: text.slice(0, 5000) }, said: text,
    input_schema: { type: "object", title: text.slice(0, 300), properties: { [text.slice(0, 300)]: { type: "string", title: text.slice(0, 300), description: text.slice(0, 3000) } } },
  });
  run.ask("Other", `other-${text.slice(0, 100)}`, text, {
    action: "answer", choices: [], default: text.slice(0, 300), expires: text.slice(0, 100),
    schema: { type: "object", required: [text.slice(0, 100)], properties: { [text.slice(0, 100)]: { type: "string", enum: [text.slice(0, 300), "b"], description: text.slice(0, 300) }, b: { type: "integer", title: text.slice(0, 300) }, c: { $ref: `#/${text.slice(0, 100)}` } } },
  });
  run.difference = { run: [{ name: text.slice(0, 300), one: text.slice(0, 3000), other: 1 }], scopes: [{ scope: text.slice(0, 300), name: text.slice(0, 300), one: { [text.slice(0, 300)]: 1 }, other: null }], published: { name: text.slice(0, 300), one: [{ id: text.slice(0, 300), from: text.slice(0, 300), cause_by: text.slice(0, 300), content: text.slice(0, 3000) }], other: [] } };
  run.changed({ status: number % 2 ? "failed" : "waiting", state: number % 2 ? "ended" : "resting", problem: text.slice(0, 1000), lineage: text.slice(0, 300), faults: 1 });
  return run;
}

const pathsOf = (number) => [
  ...["overview", "timeline", "conversation", "calls", "files", "state", "events"].map((tab) => `/runs/hostile-${number}/${tab}`),
  `/compare?a=hostile-${number}&b=other`, "/needs", "/runs",
];

/** Goes to an address without loading the page anew. */
const visit = (page, path) => page.evaluate((to) => {
  history.pushState({}, "", to);
  dispatchEvent(new PopStateEvent("popstate", { state: {} }));
}, path);

/** Opens and presses what only shows something. */
const openAll = (page) => page.evaluate(() => {
  for (const details of document.querySelectorAll("main details:not([open])")) details.open = true;
  for (const element of [...document.querySelectorAll(".long-actions button, .virtual-row button.link, .live-timeline .bar, .node, .lanes button")].slice(0, 25)) element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
});

/** What nothing hostile may have changed. */
const damage = (page) => page.evaluate(() => ({
  ran: window.ranTexts_,
  polluted: {}.polluted,
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth > 0,
  foreign: document.querySelectorAll("main :is(script, iframe, object, embed, form[action], base, link, style, img, video, math, template, meta, marquee, foreignObject)").length,
  handlers: [...document.querySelectorAll("main *")].filter((element) => element.getAttributeNames().some((name) => name.startsWith("on"))).length,
  links: [...document.querySelectorAll("main a[href]")].map((link) => link.protocol).filter((protocol) => !["http:", "https:", "mailto:"].includes(protocol)),
  hidden: /[\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\u2060\ufeff\u0000\u001b]/.test(document.querySelector("#page").innerText),
  bar: document.querySelector(".top")?.getBoundingClientRect().height > 0,
  url: location.origin,
}));

/** Which elements are wider than the screen: for whoever mends it. */
const widest = (page) => page.evaluate(() => [...document.querySelectorAll("main *")].filter((element) => element.getBoundingClientRect().right > innerWidth + 1 && !element.closest(".scroll, .graph, pre, .virtual-box, table, svg, .one-line")).slice(0, 3).map((element) => `${element.tagName}.${element.className}`).join(" > "));

const GROUPS = 6;
for (let group = 0; group < GROUPS; group += 1) {
  const texts = hostileTexts.filter(({ number }) => number % GROUPS === group);
  check(`hostile texts do nothing in any place (${group + 1} of ${GROUPS}, ${hostileTexts.length} in all)`, { fill: (server) => {
    server.add("other").begin().end("done");
    for (const { text, number } of texts) addHostile(server, text, number);
  }, path: "/runs" }, async ({ page, server }) => {
    await page.evaluate(() => {
      window.ranTexts_ = [];
      window.ran = (number) => window.ranTexts_.push(number);
    });
    const clean = { ran: [], polluted: undefined, wide: false, foreign: 0, handlers: 0, links: [], hidden: false, bar: true, url: server.url };
    const problems = [];
    for (const { number } of texts) {
      for (const path of pathsOf(number).slice(0, number < GROUPS ? undefined : 8)) {
        await visit(page, path);
        await page.locator("h1").first().waitFor({ state: "attached" });
        await sleep(120);
        await openAll(page);
        await sleep(80);
        const found = await damage(page);
        if (JSON.stringify(found) !== JSON.stringify(clean)) problems.push(`text ${number} at ${path}: ${Object.entries(found).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(clean[name])).map((one) => one.join("=")).join(" ")} ${await widest(page)}`);
      }
    }
    await shot(page, `hostile-${group}`);
    assert.deepEqual(problems, []);
  });
}

check("hostile questions are answered without harm", { fill: (server) => {
  for (const number of [0, 26, 51, 59, 64]) addHostile(server, hostileTexts[number].text, number);
}, path: "/needs" }, async ({ page, server }) => {
  await page.evaluate(() => {
    window.ranTexts_ = [];
    window.ran = (number) => window.ranTexts_.push(number);
  });
  await page.locator(".entry").first().waitFor();
  const count = await page.locator(".needs-list .entry").count();
  for (let at = 0; at < count; at += 1) {
    await page.locator(".needs-list .entry").nth(at).click();
    await sleep(100);
    const edit = page.getByRole("button", { name: "Edit arguments" });
    if (await edit.count()) await edit.click();
    await openAll(page);
    await sleep(60);
    const { ran, foreign, wide, links } = await damage(page);
    assert.deepEqual({ ran, foreign, wide, links }, { ran: [], foreign: 0, wide: false, links: [] });
  }
  await shot(page, "hostile-needs", { fullPage: false });
  assert.ok(server);
});
