// Hostile content in every place where a guest, a model, a tool server or a submitter can put text: nothing runs, nothing
// breaks the layout, and the policy has nothing to report.

import { assert, check, settled, shot, visit } from "./harness.mjs";
import { hostileTexts } from "./hostile_texts.mjs";
import { iso } from "./mock/run.mjs";

/** Names cannot be longer than this, nor have characters that are not seen; everything else can be anything. */
const nameOf = (text) => text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f]/g, "_").slice(0, 200) || "empty";

/** A run with the first text in each of its own places, and each text in each place of what happens in it. */
function addHostile(server, name, texts, { asks }) {
  const [first] = texts;
  const roles = texts.map(({ text }) => text.slice(0, 4000) || "Role");
  const run = server.add(name, {
    team: first.text.slice(0, 300), idea: first.text.slice(0, 2000), roles: [...roles, "Other"], labels: { [first.text.slice(0, 100)]: first.text.slice(0, 100) }, began: Date.now() - 60_000, by: nameOf(first.text), budget: 1,
    graph: graphOf(texts, roles),
  });
  run.begin().step(0);
  texts.forEach((one, at) => happens(run, roles[at], one));
  run.commit(0).step(1);
  texts.forEach(({ text }, at) => run.emit("action-failed", { step: 1, role: roles[at], index: 0, action: text.slice(0, 1000), attempt: 1, fault: text.slice(0, 100), cause: text.slice(0, 100), message: text, digest: "00", backtrace: [text.slice(0, 3000), "two"] }));
  if (asks) texts.forEach((one, at) => asksBoth(run, roles[at], one));
  const { text, number } = first;
  run.difference = { run: [{ name: text.slice(0, 300), one: text.slice(0, 3000), other: 1 }], scopes: [{ scope: text.slice(0, 300), name: text.slice(0, 300), one: { [text.slice(0, 300)]: 1 }, other: null }], published: { name: text.slice(0, 300), one: texts.map((one) => publishedOf(one)), other: [] } };
  run.changed({ status: number % 2 ? "failed" : "waiting", state: number % 2 ? "ended" : "resting", problem: text.slice(0, 1000), lineage: text.slice(0, 300), at_work: [text.slice(0, 300)], forked_from: text.slice(0, 300), faults: 1 });
  return run;
}

const publishedOf = ({ text }) => ({ id: text.slice(0, 300), from: text.slice(0, 300), cause_by: text.slice(0, 300), content: text.slice(0, 3000) });

function graphOf(texts, roles) {
  const nodes = roles.map((role, at) => ({ id: at, kind: at ? texts[at].text.slice(0, 50) : "role", label: role, note: role, actions: [{ name: role }], x: at * 160, y: 0, width: 140, height: 64 }));
  const edges = texts.map(({ text }, at) => ({ from: at, to: 0, label: text.slice(0, 500), points: [[at * 160, 24], [0, 24]] }));
  return { width: 160 * roles.length, height: 80, nodes, edges };
}

/** What happens in a run with a text: each kind of event that a guest, a model or a server has a say in. */
function happens(run, role, { text }) {
  const about = { step: 0, role, index: 0, action: text.slice(0, 1000) };
  run.emit("action-started", { ...about, attempt: 1, digest: text.slice(0, 64) });
  run.call(about, { what: text, model: text.slice(0, 200), call: "llm", cost: 0.01 });
  run.emit("action-finished", { ...about, attempt: 1, digest: "00", output: { content: text, data: { [text.slice(0, 1000)]: text.slice(0, 2000) }, to: [text.slice(0, 100)] } });
  run.emit("action-logged", { ...about, lines: [text.slice(0, 5000)], left_out: 1 });
  run.message(role, text, ["Other", text.slice(0, 200)], text.slice(0, 300), { [text.slice(0, 300)]: [text.slice(0, 300)] });
  run.turn(role, 0, { text, calls: [{ tool: text.slice(0, 300), arguments: text, result: text }, { tool: `${text.slice(0, 50)}/tool`, arguments: "{", outcome: { kind: "rejected", reason: text } }], model: text.slice(0, 200), finish: text.slice(0, 50) });
  run.emit("mcp-server", { server: text.slice(0, 50), state: "ready", name: text, version: text.slice(0, 100) });
  run.emit("tool-rejected", { role, turn: 0, tool: text.slice(0, 300), tool_call: 1, reason: text });
  run.emit("timer-set", { timer: text.slice(0, 100), role, due: text.slice(0, 100), for: "wake" });
  run.emit("expanded", { message: "m1", role, items: 3 });
  run.emit("notify-failed", { notify: text.slice(0, 200), id: "1", reason: text.slice(0, 2000) });
  run.file(`${nameOf(text)}/${nameOf(text)}.html`, text, `${role}.${text.slice(0, 100)}`);
  run.scopes.env[text.slice(0, 200) || "scope"] = { [text.slice(0, 200)]: { [text.slice(0, 200)]: text.slice(0, 3000) } };
  run.emit(`odd-${text.slice(0, 200)}`, { [text.slice(0, 200)]: text, time: iso(run.clock) });
}

/** Two questions: whether a call may be made, and one with a schema. */
function asksBoth(run, role, { text, number }) {
  run.ask(role, `ask-${number}-${text.slice(0, 100)}`, text, {
    action: text.slice(0, 300), tool: text.slice(0, 300) || "tool", arguments: { [text.slice(0, 300)]: text.slice(0, 5000) }, said: text,
    input_schema: { type: "object", title: text.slice(0, 300), properties: { [text.slice(0, 300)]: { type: "string", title: text.slice(0, 300), description: text.slice(0, 3000) } } },
  });
  run.ask("Other", `other-${number}-${text.slice(0, 100)}`, text, {
    action: "answer", choices: [], default: text.slice(0, 300), expires: text.slice(0, 100), server: text.slice(0, 100), url: text.slice(0, 500),
    news: [{ id: run.messages.at(-1).id, from: text.slice(0, 100), cause_by: text.slice(0, 100), content: text.slice(0, 3000) }],
    schema: { type: "object", required: [text.slice(0, 100)], properties: { [text.slice(0, 100)]: { type: "string", enum: [text.slice(0, 300), "b"], description: text.slice(0, 300) }, b: { type: "integer", title: text.slice(0, 300) }, c: { $ref: `#/${text.slice(0, 100)}` } } },
  });
}

/** Opens and presses what only shows something. */
const openAll = (page) => page.evaluate(() => {
  for (const details of document.querySelectorAll("main details:not([open])")) details.open = true;
  for (const kind of [".long-actions button", ".virtual-row button.link", ".live-timeline .bar", ".node", ".lanes button"]) {
    for (const element of [...document.querySelectorAll(kind)].slice(0, 20)) element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  }
});

/** What nothing hostile may have changed. */
const damage = (page) => page.evaluate(() => ({
  ran: window.ranTexts_,
  polluted: {}.polluted,
  // What is too wide for the page is cut off, so it is not seen at the document.
  wide: [...document.querySelectorAll("#page, #page > *")].some((element) => element.scrollWidth > element.clientWidth),
  foreign: document.querySelectorAll("main :is(script, iframe, object, embed, form[action], base, link, style, img, video, math, template, meta, marquee, foreignObject)").length,
  handlers: [...document.querySelectorAll("main *")].filter((element) => element.getAttributeNames().some((name) => name.startsWith("on"))).length,
  links: [...document.querySelectorAll("main a[href]")].map((link) => link.protocol).filter((protocol) => !["http:", "https:", "mailto:"].includes(protocol)),
  hidden: /[\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\u2060\ufeff\u0000\u001b]/.test(document.querySelector("#page").innerText),
  bar: document.querySelector(".top")?.getBoundingClientRect().height > 0,
  url: location.origin,
}));

/** Which elements are wider than the screen: for whoever mends it. */
const widest = (page) => page.evaluate(() => [...document.querySelectorAll("main *")].filter((element) => element.getBoundingClientRect().right > innerWidth + 1 && !element.closest(".scroll, .graph, pre, .virtual-box, table, svg, .one-line")).slice(0, 3).map((element) => `${element.tagName}.${element.className}`).join(" > "));

/** Shows a view, opens all that can be opened, and scrolls long lists to their end. Returns what is damaged. */
async function lookAt(page, path, clean) {
  const problems = [];
  const look = async () => {
    await settled(page);
    const found = await damage(page);
    const wrong = Object.entries(found).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(clean[name]));
    if (wrong.length) problems.push(`${path}: ${wrong.map((one) => one.join("=")).join(" ")} ${await widest(page)}`);
  };
  await visit(page, path);
  await page.locator("h1").first().waitFor({ state: "attached" });
  await openAll(page);
  await look();
  const isLong = await page.evaluate(() => {
    const box = document.querySelector(".virtual-box");
    if (box) box.scrollTop = box.scrollHeight;
    return Boolean(box);
  });
  if (isLong) await look();
  return problems;
}

/** A script in a hostile text would call this. */
const watchScripts = (page) => page.evaluate(() => {
  window.ranTexts_ = [];
  window.ran = (number) => window.ranTexts_.push(number);
});

const GROUPS = 4;
const TEXTS_PER_RUN = 5;
for (let group = 0; group < GROUPS; group += 1) {
  const texts = hostileTexts.filter(({ number }) => number % GROUPS === group);
  const several = Array.from({ length: Math.ceil(texts.length / TEXTS_PER_RUN) }, (_, at) => texts.slice(at * TEXTS_PER_RUN, (at + 1) * TEXTS_PER_RUN));
  check(`hostile texts do nothing in any place (${group + 1} of ${GROUPS}, ${hostileTexts.length} in all)`, { fill: (server) => {
    server.add("other").begin().end("done");
    for (const one of texts) addHostile(server, `one-${one.number}`, [one], { asks: true });
    several.forEach((some, at) => addHostile(server, `several-${at}`, some, { asks: false }));
  }, path: "/runs" }, async ({ page, server }) => {
    await watchScripts(page);
    const clean = { ran: [], polluted: undefined, wide: false, foreign: 0, handlers: 0, links: [], hidden: false, bar: true, url: server.url };
    // What a run has once is seen in its overview, everything else in the tabs of runs with several texts.
    const tabs = several.flatMap((_, at) => ["timeline", "conversation", "calls", "files", "state", "events"].map((tab) => `/runs/several-${at}/${tab}`).concat(`/compare?a=several-${at}&b=other`));
    const problems = [];
    for (const path of ["/runs", "/needs", ...texts.map(({ number }) => `/runs/one-${number}/overview`), ...tabs]) problems.push(...(await lookAt(page, path, clean)));
    await shot(page, `hostile-${group}`);
    assert.deepEqual(problems, []);
  });
}

check("hostile questions are answered without harm", { fill: (server) => {
  for (const number of [0, 26, 51, 59, 64]) addHostile(server, `one-${number}`, [hostileTexts[number]], { asks: true });
}, path: "/needs" }, async ({ page }) => {
  await watchScripts(page);
  await page.locator(".entry").first().waitFor();
  const count = await page.locator(".needs-list .entry").count();
  for (let at = 0; at < count; at += 1) {
    await page.locator(".needs-list .entry").nth(at).click();
    await settled(page);
    const edit = page.getByRole("button", { name: "Edit arguments" });
    if (await edit.count()) await edit.click();
    await openAll(page);
    await settled(page);
    const { ran, foreign, wide, links } = await damage(page);
    assert.deepEqual({ ran, foreign, wide, links }, { ran: [], foreign: 0, wide: false, links: [] }, await widest(page));
  }
  await shot(page, "hostile-needs");
});
