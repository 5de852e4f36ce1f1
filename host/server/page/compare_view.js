// Two runs or checkpoints side by side: the first difference, then outputs, messages, cost and time.

import { html, typed } from "./dom.js";
import { call, eventsAfter, items, runPath, withQuery } from "./api.js";
import { TextDifference } from "./difference_view.js";
import { summary } from "./event_summary.js";
import { duration, money } from "./figures.js";
import { go, Link, route, runAddress } from "./router.js";
import { StatusTag, statusOf } from "./status.js";
import { Json, jsonLine } from "./texts.js";
import { addressOf } from "./token.js";
import { ProblemView, Table, useFields, useGet, useLoaded, whenLoaded } from "./widgets.js";

const COMPARED = 2000;

const split = (text) => {
  const at = text.lastIndexOf("@");
  return at < 0 ? { name: text, checkpoint: null } : { name: text.slice(0, at), checkpoint: text.slice(at + 1) };
};

export function CompareView() {
  const a = route.value.query.get("a") ?? "";
  const b = route.value.query.get("b") ?? "";
  return html`<h1 tabindex="-1">Compare</h1><${Chooser} key=${`${a} ${b}`} a=${a} b=${b} />${a && b ? html`<${Comparison} a=${a} b=${b} />` : html`<p class="empty">Name two runs, or two checkpoints as RUN@ID.</p>`}`;
}

function Chooser({ a, b }) {
  const [form, take] = useFields({ a, b });
  const [runs] = useGet("/v1/runs?limit=100");
  const submit = (event) => {
    event.preventDefault();
    go(withQuery("/compare", { a: form.a.trim(), b: form.b.trim() }));
  };
  const field = (label, name) => html`<label>${label} <input type="text" list="run-names" value=${form[name]} onInput=${typed(take(name))} /></label>`;
  return html`<form class="filters compared" onSubmit=${submit}>${field("One", "a")}${field("Other", "b")}<button type="submit" class="primary" disabled=${!form.a.trim() || !form.b.trim()}>Compare</button>
    <button onClick=${() => go(withQuery("/compare", { a: b, b: a }))}>Swap</button><datalist id="run-names">${items(runs).map((run) => html`<option value=${addressOf(run)} />`)}</datalist></form>`;
}

async function load(a, b, signal) {
  const [one, other] = [split(a), split(b)];
  const events = ({ name }) => (one.name === other.name ? [] : eventsAfter(name, 0, { signal, most: COMPARED }));
  const [runA, runB, difference, eventsA, eventsB] = await Promise.all([
    call(runPath(one.name), { signal }), call(runPath(other.name), { signal }),
    call(withQuery(runPath(one.name, "diff"), { at: one.checkpoint, with: b }), { signal }).then((answer) => answer.difference, (problem) => ({ problem })),
    events(one), events(other),
  ]);
  return { runA, runB, difference, first: firstDifference(sinceFork(eventsA, runA, runB), sinceFork(eventsB, runB, runA)) };
}

/** The events of a run after the checkpoint at which the other one was forked from it: that has no earlier ones. */
function sinceFork(events, run, other) {
  const [id, checkpoint] = other.forked_from?.split("@") ?? [];
  if (id !== run.id) return events;
  const begun = events.findIndex((event) => event.kind === "step-committed" && event.checkpoint === checkpoint);
  return events.slice(begun < 0 ? events.findIndex((event) => event.kind === "step-started") : begun);
}

/** What of an event is the same in a repeated run. */
const essence = (event) =>
  JSON.stringify([event.kind, event.role, event.action, event.index, event.step, event.from, event.to, event.cause_by, event.output?.content, event.question, event.answer, event.fault, event.status, event.what]);

const COMPARED_KINDS = new Set(["message-routed", "action-finished", "action-failed", "request-answered", "turn", "host-call", "run-ended"]);

function firstDifference(one, other) {
  const a = one.filter((event) => COMPARED_KINDS.has(event.kind));
  const b = other.filter((event) => COMPARED_KINDS.has(event.kind));
  for (let at = 0; at < Math.max(a.length, b.length); at += 1) {
    if (!a[at] || !b[at] || essence(a[at]) !== essence(b[at])) return { at, a: a[at], b: b[at] };
  }
  return null;
}

function Comparison({ a, b }) {
  return whenLoaded(useLoaded((signal) => load(a, b, signal), `${a} ${b}`), ({ runA, runB, difference, first }) => html`${first && html`<section class="panel"><h2>The first difference</h2><div class="two"><${FirstSide} run=${runA} event=${first.a} /><${FirstSide} run=${runB} event=${first.b} /></div></section>`}
    ${(runA.output || runB.output) && html`<section><h2>Outputs</h2><${TextDifference} before=${runA.output ?? ""} after=${runB.output ?? ""} /></section>`}
    <${StateDifference} difference=${difference} of=${{ published: "Messages" }} />
    <${Figures} runA=${runA} runB=${runB} a=${a} b=${b} />
    ${difference.problem ? html`<${ProblemView} problem=${difference.problem} />` : html`<${StateDifference} difference=${difference} of=${TITLES} none="The states do not differ." />`}`, 10);
}

function FirstSide({ run, event }) {
  if (!event) return html`<div><b>${addressOf(run)}</b><p class="none">It has no further events.</p></div>`;
  return html`<div><b>${addressOf(run)}</b> <${Link} to=${runAddress(run, "events", `e${event.n}`)}>event ${event.n}<//><p><code>${event.kind}</code></p><p class="prose-text">${summary(event)}</p></div>`;
}

function Figures({ runA, runB, a, b }) {
  const length = (run) => (Date.parse(run.ended ?? run.updated) || 0) - (Date.parse(run.created) || 0);
  const rows = [["State", (run) => html`<${StatusTag} status=${statusOf(run)} />`], ["Step", (run) => run.step], ["Spent", (run) => money(run.spent)], ["Time", (run) => duration(length(run))]];
  const head = (name) => html`<th><${Link} to=${runAddress(split(name).name)}>${name}<//></th>`;
  return html`<section><h2>Cost and time</h2><${Table} className="compared" heads=${[]}><tr><td></td>${head(a)}${head(b)}</tr>
    ${rows.map(([name, show]) => html`<tr><th>${name}</th><td>${show(runA)}</td><td>${show(runB)}</td></tr>`)}<//></section>`;
}

const TITLES = { run: "Run", scopes: "Values", mailboxes: "Mail", joins: "Joins", open: "Open work", memory: "Memory", components: "Components" };

/** What the states differ in; what is equal is not in it. */
function StateDifference({ difference, of, none }) {
  const parts = Object.entries(of).map(([name, title]) => [title, [difference[name] ?? []].flat()]).filter(([, list]) => list.length);
  if (!parts.length) return none && html`<p class="none">${none}</p>`;
  return parts.map(([title, list]) => html`<section key=${title}><h2>${title}</h2>${list.map((one) => html`<${Change} one=${one} />`)}</section>`);
}

function Change({ one }) {
  const name = [one.scope, one.name].filter(Boolean).join("/");
  const show = Array.isArray(one.one) || Array.isArray(one.other) ? (list) => html`<${Messages} list=${list ?? []} />` : !one.scope && MONEY.has(one.name) ? (amount) => html`<p>${money(amount)}</p>` : valueOf;
  return html`<div class="change">${name && html`<b>${name}</b>`}<div class="two"><div>${show(one.one)}</div><div>${show(one.other)}</div></div></div>`;
}

const MONEY = new Set(["spent", "budget"]);

const valueOf = (value) => (value === null || value === undefined ? html`<span class="none">nothing</span>` : html`<${Json} value=${value} />`);

const Messages = ({ list }) => html`<ul class="plain">${list.length ? list.map((message) => html`<li key=${message.id}><b>${message.from || "from outside"}</b> <span class="label">${message.cause_by}</span> ${jsonLine(message.content, 300)}</li>`) : html`<li class="none">nothing</li>`}</ul>`;
