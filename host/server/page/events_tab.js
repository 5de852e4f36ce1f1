// All events of a run, as they are recorded.

import { html, useMemo, useRef, useState } from "./dom.js";
import { summary } from "./event_summary.js";
import { clock, count } from "./figures.js";
import { useKeys } from "./keys.js";
import { back } from "./router.js";
import { selectEvent, selectNothing, selection } from "./selection.js";
import { useThrottled } from "./throttle.js";
import { indexOfNumber, VirtualList } from "./virtual_list.js";
import { Choose, CopyButton, Json, Search, Skeleton } from "./widgets.js";

const ROW = 26;
const REDRAW_MS = 200;
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
      <span role="cell" class=${`event-kind ${kindClass(one.kind)}`}><button class="link" aria-pressed=${one.n === chosen} onClick=${() => selectEvent(one.n)}>${one.kind}</button></span><span role="cell" class="event-text">${summary(one)}</span>`;
  };
  return html`<div class="filters"><${Search} label="Search the events" hint="Text" value=${filter.text} take=${(text) => setFilter({ ...filter, text })} />
      <${Choose} label="Kind of event" value=${filter.kind} options=${[["", "all kinds"], ...kinds.map((kind) => [kind, kind])]} take=${(kind) => setFilter({ ...filter, kind })} />
      <span class="note">${list === data.events ? `${count(list.length)}${total > list.length ? ` of ${count(total)}` : ""} events` : `${count(list.length)} of ${count(data.events.length)} events`}</span>
      ${run.state === "running" && (isFollowing ? html`<span class="tag live">● Live</span>` : html`<button class="small" onClick=${() => setFollowing(true)}>Live <kbd>.</kbd></button>`)}
      ${!data.isWhole.value && data.isLoaded.value && html`<button class="small" onClick=${() => data.loadEarlier()}>Earlier events</button>`}</div>
    <div class=${event ? "events-pair" : ""}><${VirtualList} className="events" label="Events" count=${list.length} rowHeight=${ROW} rowOf=${row} keyOf=${(at) => list[at].n} indexOf=${(n) => indexOfNumber(list, n)} shownKey=${chosen}
        onNearStart=${() => !data.isWhole.value && data.loadEarlier()} isFollowing=${isFollowing} setFollowing=${setFollowing}
        header=${html`<span role="columnheader" class="event-n">n</span><span role="columnheader" class="event-time">time</span><span role="columnheader" class="event-kind">kind</span><span role="columnheader" class="event-text">what</span>`} />
      ${event && html`<aside class="inspector" aria-label="The selected event"><h2>${event.kind}</h2><${Json} value=${event} /><p><${CopyButton} text=${JSON.stringify(event)} label="Copy the line" /></p></aside>`}</div>`;
}
