// Two runs or checkpoints side by side: the first difference, then outputs, messages, cost and time.

import { html, typed, useEffect, useState } from "./dom.js";
import { call, items, runPath, withQuery } from "./api.js";
import { TextDifference } from "./difference_view.js";
import { summary } from "./event_summary.js";
import { duration, money } from "./figures.js";
import { go, Link, route, runAddress } from "./router.js";
import { StatusTag, statusOf } from "./status.js";
import { Json, jsonLine, ProblemView, useLoaded, whenLoaded } from "./widgets.js";

/** How many events of each run are compared. */
const COMPARED = 2000;
const PAGE = 500;

const split = (text) => {
  const at = text.lastIndexOf("@");
  return at < 0 ? { name: text, checkpoint: null } : { name: text.slice(0, at), checkpoint: text.slice(at + 1) };
};

export function CompareView() {
  const a = route.value.query.get("a") ?? "";
  const b = route.value.query.get("b") ?? "";
  return html`<h1 tabindex="-1">Compare</h1><${Chooser} a=${a} b=${b} />${a && b ? html`<${Comparison} key=${`${a} ${b}`} a=${a} b=${b} />` : html`<p class="empty">Name two runs, or two checkpoints as RUN@ID.</p>`}`;
}

function Chooser({ a, b }) {
  const [one, setOne] = useState(a);
  const [other, setOther] = useState(b);
  useEffect(() => {
    setOne(a);
    setOther(b);
  }, [a, b]);
  const [runs] = useLoaded((signal) => call("/v1/runs?limit=100", { signal }).then(items), ["runs"]);
  const submit = (event) => {
    event.preventDefault();
    go(withQuery("/compare", { a: one.trim(), b: other.trim() }));
  };
  return html`<form class="filters" onSubmit=${submit}><label>One <input type="text" list="run-names" value=${one} onInput=${typed(setOne)} /></label>
    <label>Other <input type="text" list="run-names" value=${other} onInput=${typed(setOther)} /></label><button type="submit" class="primary" disabled=${!one.trim() || !other.trim()}>Compare</button>
    <button onClick=${() => go(withQuery("/compare", { a: b, b: a }))}>Swap</button><datalist id="run-names">${(runs ?? []).map((run) => html`<option value=${run.name} />`)}</datalist></form>`;
}

async function eventsOf(name, signal) {
  const all = [];
  let after = 0;
  while (all.length < COMPARED) {
    const page = items(await call(withQuery(runPath(name, "events"), { after, limit: PAGE }), { signal }));
    all.push(...page);
    if (page.length < PAGE) break;
    after = page.at(-1).n;
  }
  return all;
}

async function load(a, b, signal) {
  const [one, other] = [split(a), split(b)];
  const from = one.checkpoint ? { at: one.checkpoint } : {};
  const [runA, runB, difference, eventsA, eventsB] = await Promise.all([
    call(runPath(one.name), { signal }), call(runPath(other.name), { signal }),
    call(withQuery(runPath(one.name, "diff"), { ...from, with: b }), { signal }).then((answer) => answer.difference, (problem) => ({ problem })),
    one.name === other.name ? [] : eventsOf(one.name, signal), one.name === other.name ? [] : eventsOf(other.name, signal),
  ]);
  return { runA, runB, difference, first: firstDifference(eventsA, eventsB) };
}

/** What of an event is the same in a repeated run. */
const essence = (event) =>
  JSON.stringify([event.kind, event.role, event.action, event.index, event.step, event.from, event.to, event.cause_by, event.output?.content, event.question, event.answer, event.fault, event.status, event.what]);

const COMPARED_KINDS = new Set(["message-routed", "action-finished", "action-failed", "request-answered", "turn", "host-call", "run-ended"]);

/** Returns the first events of two runs that differ. */
export function firstDifference(one, other) {
  const a = one.filter((event) => COMPARED_KINDS.has(event.kind));
  const b = other.filter((event) => COMPARED_KINDS.has(event.kind));
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    if (!a[at] || !b[at] || essence(a[at]) !== essence(b[at])) return { at, a: a[at], b: b[at] };
  }
  return null;
}

function Comparison({ a, b }) {
  return whenLoaded(useLoaded((signal) => load(a, b, signal), [`${a} ${b}`]), ({ runA, runB, difference, first }) => html`${first && html`<section class="panel"><h2>The first difference</h2><div class="two"><${FirstSide} run=${runA} event=${first.a} /><${FirstSide} run=${runB} event=${first.b} /></div></section>`}
    <${Figures} runA=${runA} runB=${runB} a=${a} b=${b} />
    ${(runA.output || runB.output) && html`<section><h2>Outputs</h2><${TextDifference} before=${runA.output ?? ""} after=${runB.output ?? ""} /></section>`}
    ${difference.problem ? html`<${ProblemView} problem=${difference.problem} />` : html`<${StateDifference} difference=${difference} />`}`, 10);
}

function FirstSide({ run, event }) {
  if (!event) return html`<div><b>${run.name}</b><p class="none">It has no further events.</p></div>`;
  return html`<div><b>${run.name}</b> <${Link} to=${runAddress(run.name, "events", `e${event.n}`)}>event ${event.n}<//><p><code>${event.kind}</code></p><p class="prose-text">${summary(event)}</p></div>`;
}

function Figures({ runA, runB, a, b }) {
  const length = (run) => (Date.parse(run.ended ?? run.updated) || 0) - (Date.parse(run.created) || 0);
  const row = (name, one, other) => html`<tr><th>${name}</th><td>${one}</td><td>${other}</td></tr>`;
  return html`<section class="scroll" tabindex="0"><table class="compared"><thead><tr><td></td><th><${Link} to=${runAddress(split(a).name)}>${a}<//></th><th><${Link} to=${runAddress(split(b).name)}>${b}<//></th></tr></thead><tbody>
    ${row("State", html`<${StatusTag} status=${statusOf(runA)} />`, html`<${StatusTag} status=${statusOf(runB)} />`)}${row("Step", runA.step, runB.step)}${row("Spent", money(runA.spent), money(runB.spent))}${row("Time", duration(length(runA)), duration(length(runB)))}</tbody></table></section>`;
}

const TITLES = { run: "Run", scopes: "Values", mailboxes: "Mail", joins: "Joins", published: "Messages", open: "Open work", memory: "Memory", components: "Components" };

/** What the states differ in; what is equal is not in it. */
function StateDifference({ difference }) {
  const parts = Object.entries(TITLES).map(([name, title]) => [title, difference[name]]).filter(([, value]) => value && (!Array.isArray(value) || value.length));
  if (!parts.length) return html`<p class="none">The states do not differ.</p>`;
  return html`${parts.map(([title, value]) => html`<section key=${title}><h2>${title}</h2>${(Array.isArray(value) ? value : [value]).map((one) => html`<${Change} one=${one} />`)}</section>`)}`;
}

function Change({ one }) {
  const name = [one.scope, one.name].filter(Boolean).join("/");
  if (Array.isArray(one.one) || Array.isArray(one.other)) {
    return html`<div class="change">${name && html`<b>${name}</b>`}<div class="two"><${Messages} list=${one.one ?? []} /><${Messages} list=${one.other ?? []} /></div></div>`;
  }
  return html`<div class="change"><b>${name}</b><div class="two"><div>${one.one === null || one.one === undefined ? html`<span class="none">nothing</span>` : html`<${Json} value=${one.one} />`}</div><div>${one.other === null || one.other === undefined ? html`<span class="none">nothing</span>` : html`<${Json} value=${one.other} />`}</div></div></div>`;
}

const Messages = ({ list }) => html`<ul class="plain">${list.length ? list.map((message) => html`<li key=${message.id}><b>${message.from || "from outside"}</b> <span class="label">${message.cause_by}</span> ${jsonLine(message.content, 300)}</li>`) : html`<li class="none">nothing</li>`}</ul>`;

