// All events of a run, as they are recorded.

import { html, useMemo, useRef, useState } from "./dom.js";
import { summary } from "./event_summary.js";
import { clock, count } from "./figures.js";
import { stepKeys, useKeys } from "./keys.js";
import { back, selectEvent, selection, setHash } from "./router.js";
import { useThrottled } from "./run_data.js";
import { CopyButton, Json } from "./texts.js";
import { indexOfNumber, VirtualTable } from "./virtual_list.js";
import { hasText } from "./visible.js";
import { Choose, Live, Search, Skeleton, useFields } from "./widgets.js";

const REDRAW_MS = 200;
const KINDS = { "action-failed": "bad", "request-opened": "held", "run-ended": "strong", "run-started": "strong" };
const COLUMNS = [
  { name: "n", className: "event-n", show: (one) => one.n },
  { name: "time", className: "event-time", show: (one) => clock(one.time) },
  { name: "kind", className: (one) => `event-kind ${KINDS[one?.kind] ?? ""}`, show: (one) => one.kind },
  { name: "what", className: "event-text", show: summary },
];

/** Returns the events that a filter shows. New ones are added without looking at the old ones again. */
function useFiltered({ events }, filter) {
  const cache = useRef({});
  if (!filter.kind && !filter.text) return events;
  const fits = (event) => (!filter.kind || event.kind === filter.kind) && hasText(JSON.stringify(event), filter.text);
  if (cache.current.events !== events || cache.current.filter !== filter) cache.current = { events, filter, length: 0, list: [] };
  const known = cache.current;
  for (const event of events.slice(known.length)) if (fits(event)) known.list.push(event);
  known.length = events.length;
  return known.list;
}

export function EventsTab({ data, run }) {
  useThrottled(data.version, REDRAW_MS);
  const [filter, take] = useFields({ kind: "", text: "" });
  const [isFollowing, setFollowing] = useState(run.state === "running");
  const list = useFiltered(data, filter);
  const kinds = useMemo(() => [...new Set(data.events.map((event) => event.kind))].sort(), [data.events, Math.floor(data.events.length / 500)]);
  const chosen = selection().event;
  useKeys({
    ...stepKeys(list, chosen === undefined ? -1 : indexOfNumber(list, chosen), (event) => selectEvent(event.n)),
    ".": () => setFollowing(true),
    Escape: () => (chosen === undefined ? back() : setHash("")),
  });
  const isWhole = data.isWhole.value;
  if (!data.isLoaded.value && !data.events.length) return html`<${Skeleton} lines=${12} />`;
  const total = list === data.events ? Math.max(list.length, isWhole ? 0 : Number(run.events) || 0) : data.events.length;
  const event = chosen === undefined ? null : data.events[indexOfNumber(data.events, chosen)];
  return html`<div class="filters"><${Search} label="Search the events" hint="Text" value=${filter.text} take=${take("text")} />
      <${Choose} label="Kind of event" value=${filter.kind} options=${[["", "all kinds"], ...kinds.map((kind) => [kind, kind])]} take=${take("kind")} />
      <span class="note">${count(list.length)}${total > list.length ? ` of ${count(total)}` : ""} events</span>
      ${run.state === "running" && html`<${Live} isOn=${isFollowing} follow=${() => setFollowing(true)} />`}
      ${!isWhole && data.isLoaded.value && html`<button class="small" onClick=${() => data.loadEarlier()}>Earlier events</button>`}</div>
    <div class=${event ? "events-pair" : ""}><${VirtualTable} className="events" label="Events" rowHeight=${26} columns=${COLUMNS} linked="kind" ...${{ list, chosen, isFollowing, setFollowing }} onNearStart=${() => !isWhole && data.loadEarlier()} />
      ${event && html`<aside class="inspector" aria-label="The selected event"><h2>${event.kind}</h2><${Json} value=${event} /><p><${CopyButton} text=${JSON.stringify(event)} label="Copy the line" /></p></aside>`}</div>`;
}
