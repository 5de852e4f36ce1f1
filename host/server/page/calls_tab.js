// All host calls of a run: what was asked, which model answered, and what it cost.

import { html, useState } from "./dom.js";
import { runPath } from "./api.js";
import { clock, count, money } from "./figures.js";
import { stepKeys, useKeys } from "./keys.js";
import { selectEvent, selection } from "./router.js";
import { useThrottled } from "./run_data.js";
import { Titled } from "./texts.js";
import { hasText, oneLine } from "./visible.js";
import { indexOfNumber, VirtualTable } from "./virtual_list.js";
import { Choose, Search, Skeleton, useFields, useGet, whenLoaded } from "./widgets.js";

const REDRAW_MS = 300;

const isRecorded = (one) => one.event.source === "recorded";
const column = (name, show, isNumber) => ({ name, show, className: `call-${name}${isNumber ? " num" : ""}` });
const COLUMNS = [
  column("time", (one) => clock(one.time)), column("kind", ({ event }) => event.call), column("by", ({ event }) => `${event.role}.${event.action}`),
  column("what", ({ event }) => oneLine(event.what ?? "") || "–"), column("model", ({ event }) => event.model ?? ""), column("source", (one) => (isRecorded(one) ? "recorded" : "")),
  column("tokens", ({ event: { tokens } }) => (tokens ? `${count(tokens.input ?? 0)} / ${count(tokens.output ?? 0)}` : ""), true),
  column("cost", (one) => (isRecorded(one) ? html`<span class="saved" title="saved by the record">${one.saved ? money(one.saved) : "–"}</span>` : money(one.cost)), true),
];

function matches({ event }, filter) {
  if (filter.kind && event.call !== filter.kind) return false;
  if (filter.source && event.source !== filter.source) return false;
  return hasText(`${event.role}.${event.action} ${event.what} ${event.model ?? ""}`, filter.text);
}

function sums(list) {
  const sum = { cost: 0, saved: 0, input: 0, output: 0 };
  for (const one of list) {
    sum.cost += one.cost;
    sum.saved += one.saved;
    sum.input += one.event.tokens?.input ?? 0;
    sum.output += one.event.tokens?.output ?? 0;
  }
  return sum;
}

export function CallsTab({ data, run }) {
  useThrottled(data.version, REDRAW_MS);
  const [filter, take] = useFields({ kind: "", source: "", text: "" });
  const [isFollowing, setFollowing] = useState(false);
  const all = data.model.calls;
  const hasFilter = filter.kind || filter.source || filter.text;
  const list = hasFilter ? all.filter((one) => matches(one, filter)) : all;
  const chosen = selection().event;
  const shown = chosen === undefined ? null : all[indexOfNumber(all, chosen)];
  useKeys(stepKeys(list, chosen === undefined ? -1 : indexOfNumber(list, chosen), (one) => selectEvent(one.n)));
  if (!data.isLoaded.value && !all.length) return html`<${Skeleton} lines=${10} />`;
  if (!all.length) return html`<p class="empty">The run has made no host calls.</p>`;
  const kinds = [...new Set(all.map((one) => one.event.call))];
  const sum = sums(list);
  const choose = (label, name, options) => html`<${Choose} label=${label} value=${filter[name]} options=${options} take=${take(name)} />`;
  const facts = [[hasFilter ? "Calls with this filter" : "Calls", count(list.length)], ["Paid", money(sum.cost)], ["Saved by the record", money(sum.saved), "saved"], ["Tokens in, out", `${count(sum.input)}, ${count(sum.output)}`]];
  return html`<div class="filters"><${Search} label="Search the calls" hint="Role, request or model" value=${filter.text} take=${take("text")} />
      ${choose("Kind of call", "kind", [["", "all kinds"], ...kinds.map((kind) => [kind, kind])])}
      ${choose("Source", "source", [["", "live and recorded"], ["live", "live"], ["recorded", "recorded"]])}</div>
    <${VirtualTable} className="calls-list" label="Host calls" rowHeight=${28} columns=${COLUMNS} linked="what" ...${{ list, chosen, isFollowing, setFollowing }} />
    <dl class="facts">${facts.map(([name, value, kind]) => html`<div><dt>${name}</dt><dd class=${kind}>${value}</dd></div>`)}</dl>
    ${!data.isWhole.value && html`<p class="note">These are the calls among the newest events.</p>`}
    ${shown && shown.n === chosen && html`<${CallDetails} run=${run} one=${shown} />`}`;
}

function CallDetails({ run, one }) {
  const answer = useGet(runPath(run, "calls", one.n));
  const { event } = one;
  return html`<section class="card" aria-label="The selected call"><h2>${event.call} of ${event.role}.${event.action}</h2>
    <${Titled} title="Request" text=${event.what} />
    ${event.tried?.length > 0 && html`<p class="note">Asked before: ${event.tried.map((tried) => `${tried.model} (${tried.reason})`).join(", ")}</p>`}
    ${whenLoaded(answer, (whole) => html`<${Titled} title="Answer" text=${whole.text} value=${whole.response ?? whole} />`)}</section>`;
}
