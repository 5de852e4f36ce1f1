// All host calls of a run: what was asked, which model answered, and what it cost.

import { html, useState } from "./dom.js";
import { call, runPath } from "./api.js";
import { clock, count, money } from "./figures.js";
import { selectEvent, selection } from "./selection.js";
import { useThrottled } from "./throttle.js";
import { oneLine } from "./visible.js";
import { indexOfNumber, VirtualList } from "./virtual_list.js";
import { LongText, Json, ProblemView, Skeleton, useLoaded } from "./widgets.js";

const ROW = 28;
const REDRAW_MS = 300;

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
  const tokens = (one) => (one.event.tokens ? `${count(one.event.tokens.input ?? 0)} / ${count(one.event.tokens.output ?? 0)}` : "");
  const row = (at) => {
    const one = list[at];
    const { event } = one;
    return html`<span role="cell" class="call-time">${clock(one.time)}</span><span role="cell" class="call-kind">${event.call}</span><span role="cell" class="call-who">${event.role}.${event.action}</span>
      <span role="cell" class="call-what"><button type="button" class="link" aria-pressed=${one.n === chosen} onClick=${() => selectEvent(one.n)}>${oneLine(event.what ?? "") || "–"}</button></span><span role="cell" class="call-model">${event.model ?? ""}</span>
      <span role="cell" class="call-source">${event.source === "recorded" ? "recorded" : ""}</span><span role="cell" class="call-tokens num">${tokens(one)}</span><span role="cell" class="call-cost num">${event.source === "recorded" ? html`<span class="saved" title="saved by the record">${one.saved ? money(one.saved) : "–"}</span>` : money(one.cost)}</span>`;
  };
  return html`<div class="filters"><input type="search" aria-label="Search the calls" placeholder="Role, request or model" value=${filter.text} onInput=${(event) => setFilter({ ...filter, text: event.target.value })} />
      <select aria-label="Kind of call" value=${filter.kind} onChange=${(event) => setFilter({ ...filter, kind: event.target.value })}><option value="">all kinds</option>${kinds.map((kind) => html`<option value=${kind}>${kind}</option>`)}</select>
      <select aria-label="Source" value=${filter.source} onChange=${(event) => setFilter({ ...filter, source: event.target.value })}><option value="">live and recorded</option><option value="live">live</option><option value="recorded">recorded</option></select></div>
    <${VirtualList} className="calls-list" label="Host calls" count=${list.length} rowHeight=${ROW} rowOf=${row} keyOf=${(at) => list[at].n} indexOf=${(n) => indexOfNumber(list, n)} isFollowing=${isFollowing} setFollowing=${setFollowing} shownKey=${chosen}
      header=${html`<span role="columnheader" class="call-time">time</span><span role="columnheader" class="call-kind">kind</span><span role="columnheader" class="call-who">by</span><span role="columnheader" class="call-what">what</span><span role="columnheader" class="call-model">model</span><span role="columnheader" class="call-source">source</span><span role="columnheader" class="call-tokens num">tokens</span><span role="columnheader" class="call-cost num">cost</span>`} />
    <dl class="facts"><div><dt>${hasFilter ? "Calls with this filter" : "Calls"}</dt><dd>${count(list.length)}</dd></div><div><dt>Paid</dt><dd>${money(sum.cost)}</dd></div>
      <div><dt>Saved by the record</dt><dd class="saved">${money(sum.saved)}</dd></div><div><dt>Tokens in, out</dt><dd>${count(sum.input)}, ${count(sum.output)}</dd></div></dl>
    ${!data.isWhole.value && html`<p class="note">These are the calls among the newest events.</p>`}
    ${shown && shown.n === chosen && html`<${CallDetails} run=${run} one=${shown} />`}`;
}

function CallDetails({ run, one }) {
  const [whole, problem, again] = useLoaded((signal) => call(runPath(run.name, "calls", one.n), { signal }), [`${run.id} ${one.n}`]);
  const { event } = one;
  const text = typeof whole?.text === "string" ? whole.text : null;
  return html`<section class="card" aria-label="The selected call"><h2>${event.call} of ${event.role}.${event.action}</h2>
    <h3>Request</h3><${LongText} text=${event.what ?? ""} />
    ${event.tried?.length > 0 && html`<p class="note">Asked before: ${event.tried.map((tried) => `${tried.model} (${tried.reason})`).join(", ")}</p>`}
    <h3>Answer</h3>${problem ? html`<${ProblemView} problem=${problem} retry=${again} />` : whole ? (text ? html`<${LongText} text=${text} />` : html`<${Json} value=${whole.response ?? whole} />`) : html`<${Skeleton} />`}</section>`;
}
