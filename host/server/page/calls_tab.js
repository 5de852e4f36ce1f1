// All host calls of a run: what was asked, which model answered, and what it cost.

import { html, useState } from "./dom.js";
import { call, runPath } from "./api.js";
import { clock, count, money } from "./figures.js";
import { selectEvent, selection } from "./selection.js";
import { useThrottled } from "./throttle.js";
import { oneLine } from "./visible.js";
import { indexOfNumber, VirtualList } from "./virtual_list.js";
import { Choose, Json, LongText, Search, Skeleton, useLoaded, whenLoaded } from "./widgets.js";

const ROW = 28;
const REDRAW_MS = 300;

const isRecorded = (one) => one.event.source === "recorded";

/** The columns: their names, what they show of a call, and whether that is a number. */
const COLUMNS = [
  ["time", (one) => clock(one.time)], ["kind", ({ event }) => event.call], ["by", ({ event }) => `${event.role}.${event.action}`],
  ["what", ({ event }) => oneLine(event.what ?? "") || "–"], ["model", ({ event }) => event.model ?? ""], ["source", (one) => (isRecorded(one) ? "recorded" : "")],
  ["tokens", ({ event: { tokens } }) => (tokens ? `${count(tokens.input ?? 0)} / ${count(tokens.output ?? 0)}` : ""), true],
  ["cost", (one) => (isRecorded(one) ? html`<span class="saved" title="saved by the record">${one.saved ? money(one.saved) : "–"}</span>` : money(one.cost)), true],
];

function matches({ event }, filter) {
  if (filter.kind && event.call !== filter.kind) return false;
  if (filter.source && event.source !== filter.source) return false;
  return !filter.text || `${event.role}.${event.action} ${event.what} ${event.model ?? ""}`.toLowerCase().includes(filter.text.toLowerCase());
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
  const [filter, setFilter] = useState({ kind: "", source: "", text: "" });
  const [isFollowing, setFollowing] = useState(false);
  const all = data.model.calls;
  const hasFilter = filter.kind || filter.source || filter.text;
  const list = hasFilter ? all.filter((one) => matches(one, filter)) : all;
  const chosen = selection().event;
  const shown = chosen === undefined ? null : all[indexOfNumber(all, chosen)];
  if (!data.isLoaded.value && !all.length) return html`<${Skeleton} lines=${10} />`;
  if (!all.length) return html`<p class="empty">The run has made no host calls.</p>`;
  const kinds = [...new Set(all.map((one) => one.event.call))];
  const sum = sums(list);
  const cells = (show) => COLUMNS.map(([name, text, isNumber]) => html`<span role=${show ? "cell" : "columnheader"} class=${`call-${name}${isNumber ? " num" : ""}`}>${show ? show(name, text) : name}</span>`);
  const row = (at) => cells((name, text) => (name === "what" ? html`<button class="link" aria-pressed=${list[at].n === chosen} onClick=${() => selectEvent(list[at].n)}>${text(list[at])}</button>` : text(list[at])));
  return html`<div class="filters"><${Search} label="Search the calls" hint="Role, request or model" value=${filter.text} take=${(text) => setFilter({ ...filter, text })} />
      <${Choose} label="Kind of call" value=${filter.kind} options=${[["", "all kinds"], ...kinds.map((kind) => [kind, kind])]} take=${(kind) => setFilter({ ...filter, kind })} />
      <${Choose} label="Source" value=${filter.source} options=${[["", "live and recorded"], ["live", "live"], ["recorded", "recorded"]]} take=${(source) => setFilter({ ...filter, source })} /></div>
    <${VirtualList} className="calls-list" label="Host calls" count=${list.length} rowHeight=${ROW} rowOf=${row} keyOf=${(at) => list[at].n} indexOf=${(n) => indexOfNumber(list, n)} isFollowing=${isFollowing} setFollowing=${setFollowing} shownKey=${chosen}
      header=${cells()} />
    <dl class="facts"><div><dt>${hasFilter ? "Calls with this filter" : "Calls"}</dt><dd>${count(list.length)}</dd></div><div><dt>Paid</dt><dd>${money(sum.cost)}</dd></div>
      <div><dt>Saved by the record</dt><dd class="saved">${money(sum.saved)}</dd></div><div><dt>Tokens in, out</dt><dd>${count(sum.input)}, ${count(sum.output)}</dd></div></dl>
    ${!data.isWhole.value && html`<p class="note">These are the calls among the newest events.</p>`}
    ${shown && shown.n === chosen && html`<${CallDetails} run=${run} one=${shown} />`}`;
}

function CallDetails({ run, one }) {
  const answer = useLoaded((signal) => call(runPath(run.name, "calls", one.n), { signal }), [`${run.id} ${one.n}`]);
  const { event } = one;
  return html`<section class="card" aria-label="The selected call"><h2>${event.call} of ${event.role}.${event.action}</h2>
    <h3>Request</h3><${LongText} text=${event.what ?? ""} />
    ${event.tried?.length > 0 && html`<p class="note">Asked before: ${event.tried.map((tried) => `${tried.model} (${tried.reason})`).join(", ")}</p>`}
    <h3>Answer</h3>${whenLoaded(answer, (whole) => (typeof whole.text === "string" ? html`<${LongText} text=${whole.text} />` : html`<${Json} value=${whole.response ?? whole} />`))}</section>`;
}
