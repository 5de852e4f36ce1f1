// All events of a run, as they are recorded.

import { html, useMemo, useRef, useState } from "./dom.js";
import { clock, count } from "./figures.js";
import { useKeys } from "./keys.js";
import { back } from "./router.js";
import { selectEvent, selectNothing, selection } from "./selection.js";
import { useThrottled } from "./throttle.js";
import { indexOfNumber, VirtualList } from "./virtual_list.js";
import { CopyButton, Json, jsonLine, Skeleton } from "./widgets.js";

const ROW = 26;
const REDRAW_MS = 200;
const HIDDEN_FIELDS = new Set(["n", "time", "kind"]);

/** What an event says, in one line. */
function summary(event) {
  const { role, action, attempt, step } = event;
  const who = role === undefined ? "" : `${role}${action ? `.${action}` : ""}`;
  switch (event.kind) {
    case "message-routed": return `${event.from || "from outside"} → ${(event.to ?? []).join(", ") || "nobody"} (${event.cause_by})`;
    case "action-started": return `${who}, attempt ${attempt}`;
    case "action-finished": return `${who}: ${jsonLine(event.output?.content ?? "", 140)}`;
    case "action-failed": return `${who}: ${event.fault}, ${jsonLine(event.message ?? "", 140)}`;
    case "host-call": return `${who}: ${event.call} ${jsonLine(event.what ?? "", 120)}${event.source === "recorded" ? " (recorded)" : ""}`;
    case "request-opened": return `${who}: ${jsonLine(event.question ?? "", 140)}`;
    case "request-answered": return `${role ?? ""}: ${jsonLine(event.answer, 120)}`;
    case "step-started": return `step ${step}`;
    case "step-committed": return `step ${step}, checkpoint ${event.checkpoint}`;
    case "run-ended": return String(event.status);
    case "turn": return `${role}, turn ${event.turn}: ${event.finish}, ${(event.calls ?? []).map((one) => one.tool).join(", ")}`;
    default: {
      const rest = Object.entries(event).filter(([name]) => !HIDDEN_FIELDS.has(name));
      return rest.map(([name, value]) => `${name}: ${jsonLine(value, 60)}`).join(", ");
    }
  }
}

const kindClass = (kind) => (kind === "action-failed" ? "bad" : kind === "request-opened" ? "held" : kind === "run-ended" || kind === "run-started" ? "strong" : "");

/** Returns the events that a filter shows. New ones are added without looking at the old ones again. */
function useFiltered(data, filter) {
  const cache = useRef({ events: null, filter: null, length: 0, list: [] });
  if (!filter.kind && !filter.text) return data.events;
  const known = cache.current;
  const fits = (event) => (!filter.kind || event.kind === filter.kind) && (!filter.text || JSON.stringify(event).toLowerCase().includes(filter.text.toLowerCase()));
  if (known.events !== data.events || known.filter !== filter) cache.current = { events: data.events, filter, length: data.events.length, list: data.events.filter(fits) };
  else if (known.length < data.events.length) {
    for (const event of data.events.slice(known.length)) if (fits(event)) known.list.push(event);
    known.length = data.events.length;
  }
  return cache.current.list;
}

export function EventsTab({ data, run }) {
  useThrottled(data.version, REDRAW_MS);
  const [filter, setFilter] = useState({ kind: "", text: "" });
  const [isFollowing, setFollowing] = useState(run.state === "running");
  const list = useFiltered(data, filter);
  const kinds = useMemo(() => [...new Set(data.events.map((event) => event.kind))].sort(), [data.events, Math.floor(data.events.length / 500)]);
  const chosen = selection().event;
  const step = (by) => {
    const at = chosen === undefined ? (by > 0 ? -1 : list.length) : indexOfNumber(list, chosen);
    const next = list[Math.max(0, Math.min(list.length - 1, at + by))];
    if (next) selectEvent(next.n);
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    ".": () => setFollowing(true),
    Escape: () => (chosen === undefined ? back() : selectNothing()),
  });
  if (!data.isLoaded.value && !data.events.length) return html`<${Skeleton} lines=${12} />`;
  const total = Math.max(data.events.length, data.isWhole.value ? 0 : Number(run.events) || 0);
  const event = chosen === undefined ? null : data.events[indexOfNumber(data.events, chosen)];
  const row = (at) => {
    const one = list[at];
    return html`<span role="cell" class="event-n">${one.n}</span><span role="cell" class="event-time">${clock(one.time)}</span>
      <span role="cell" class=${`event-kind ${kindClass(one.kind)}`}><button type="button" class="link" aria-pressed=${one.n === chosen} onClick=${() => selectEvent(one.n)}>${one.kind}</button></span><span role="cell" class="event-text">${summary(one)}</span>`;
  };
  return html`<div class="filters"><input type="search" aria-label="Search the events" placeholder="Text" value=${filter.text} onInput=${(change) => setFilter({ ...filter, text: change.target.value })} />
      <select aria-label="Kind of event" value=${filter.kind} onChange=${(change) => setFilter({ ...filter, kind: change.target.value })}><option value="">all kinds</option>${kinds.map((kind) => html`<option value=${kind}>${kind}</option>`)}</select>
      <span class="note">${list === data.events ? `${count(list.length)}${total > list.length ? ` of ${count(total)}` : ""} events` : `${count(list.length)} of ${count(data.events.length)} events`}</span>
      ${run.state === "running" && (isFollowing ? html`<span class="tag live">● Live</span>` : html`<button type="button" class="small" onClick=${() => setFollowing(true)}>Live <kbd>.</kbd></button>`)}
      ${!data.isWhole.value && data.isLoaded.value && html`<button type="button" class="small" onClick=${() => data.loadEarlier()}>Earlier events</button>`}</div>
    <div class=${event ? "events-pair" : ""}><${VirtualList} className="events" label="Events" count=${list.length} rowHeight=${ROW} rowOf=${row} keyOf=${(at) => list[at].n} indexOf=${(n) => indexOfNumber(list, n)} shownKey=${chosen}
        onNearStart=${() => !data.isWhole.value && data.loadEarlier()} isFollowing=${isFollowing} setFollowing=${setFollowing}
        header=${html`<span role="columnheader" class="event-n">n</span><span role="columnheader" class="event-time">time</span><span role="columnheader" class="event-kind">kind</span><span role="columnheader" class="event-text">what</span>`} />
      ${event && html`<aside class="inspector" aria-label="The selected event"><h2>${event.kind}</h2><${Json} value=${event} /><p><${CopyButton} text=${JSON.stringify(event)} label="Copy the line" /></p></aside>`}</div>`;
}
