// The timeline of a run: a lane for each role, bars for attempts, marks for questions, stops and checkpoints.

import { html, useEffect, useMemo, useRef, useState } from "./dom.js";
import { state } from "./connection.js";
import { absolute, count, duration, money, now, plural, shortDuration } from "./figures.js";
import { neighbour, useKeys } from "./keys.js";
import { back, selectEvent, selection, selectRole } from "./router.js";
import { selectedRole, useThrottled } from "./run_data.js";
import { attemptOfEvent, deedOf, endOf, lengthOf, nameOf } from "./run_model.js";
import { outcomeAppearance } from "./status.js";
import { draft, keepDraft } from "./storage.js";
import { cut } from "./texts.js";
import { makeScale, ticks } from "./timeline_scale.js";
import { hasText } from "./visible.js";
import { Check, Choose, Live, Search, useFields } from "./widgets.js";

const ROW = 16;
const LANE_PADDING = 6;
const AXIS = 24;
const BRUSH = 26;
const REDRAW_MS = 400;
const MIN_BAR = 2;
/** Bars that are hardly wider, and whose gap is hardly seen, are drawn as one. */
const MERGED_WIDTH = 6;
const MERGED_GAP = 3;
/** More lanes are listed in a box that scrolls. */
const MAX_LANES = 200;
const SMALLEST_WINDOW = 1e-5;

/** The part of the timeline that is shown: `to` is 1 while it follows the end. */
const WHOLE = { from: 0, to: 1 };

function useWidth() {
  const ref = useRef(null);
  const [width, setWidth] = useState(600);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(200, Math.floor(entry.contentRect.width))));
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

const matches = (attempt, filter) => {
  if (filter.failed && !attempt.fault) return false;
  if (filter.open && Number.isFinite(attempt.end)) return false;
  if (filter.unfinished && (attempt.outcome === "finished" || attempt.outcome === "replayed")) return false;
  return hasText(nameOf(attempt), filter.text);
};

/** Each role has a lane, in the order of its first attempt, as high as it needs. */
function lanesOf(model, filter) {
  const lanes = [];
  let top = AXIS;
  const names = new Set(model.attempts.filter((attempt) => matches(attempt, filter)).map((attempt) => attempt.role));
  if (!filter.failed && !filter.unfinished) for (const wait of model.waits) names.add(wait.role);
  for (const role of model.roles.values()) {
    if (!names.has(role.name)) continue;
    if (lanes.length >= MAX_LANES) break;
    const height = role.rows * ROW + LANE_PADDING;
    const list = model.expansionOf(role.name);
    lanes.push({ name: role.name, title: list ? `${role.name} ${count(list.done)}/${count(list.of)}` : role.name, top, height });
    top += height;
  }
  return { lanes, height: top + 2, left: names.size - lanes.length };
}

/** Neighbours that cannot be told apart are one bar; failures come last, so that they are on top. */
function barsOf({ model, filter, place, layout, width, end: openEnd }) {
  const lane = new Map(layout.lanes.map((one) => [one.name, one]));
  const bars = [];
  const failed = [];
  const last = new Map();
  const add = (attempt, kind, row) => {
    const at = lane.get(attempt.role);
    if (!at) return;
    const x = place(attempt.start);
    const end = place(endOf(attempt, openEnd));
    if (end < 0 || x > width) return;
    const left = Math.max(-2, x);
    const size = Math.max(MIN_BAR, Math.min(width + 2, end) - left);
    const y = at.top + LANE_PADDING / 2 + row * ROW;
    const key = `${attempt.role}/${row}/${kind}`;
    const before = last.get(key);
    if (before?.isSmall && size <= MERGED_WIDTH && left - (before.x + before.width) < MERGED_GAP) {
      before.width = Math.max(before.width, left + size - before.x);
      before.count += 1;
      return;
    }
    const bar = { x: left, width: size, y, kind, attempt, count: 1, isSmall: size <= MERGED_WIDTH };
    last.set(key, bar);
    (kind === "bad" ? failed : bars).push(bar);
  };
  for (const attempt of model.attempts) {
    if (!matches(attempt, filter)) continue;
    add(attempt, outcomeAppearance(attempt.outcome).kind, attempt.row);
  }
  if (!filter.failed && !filter.unfinished) {
    for (const wait of model.waits) add(wait, "wait", 0);
  }
  return [...bars, ...failed];
}

function Bar({ bar, isChosen, isDimmed }) {
  const { attempt } = bar;
  const name = bar.count > 1 ? `${bar.count}×` : deedOf(attempt);
  const room = Math.floor((bar.width - 6) / 6);
  return html`<g class=${`bar ${bar.kind}${isChosen ? " chosen" : ""}${isDimmed ? " dim" : ""}`} data-n=${attempt.n}><rect x=${bar.x} y=${bar.y + 1} width=${bar.width} height=${ROW - 3} rx="2" />
    ${room > 3 && html`<text x=${bar.x + 4} y=${bar.y + 11}>${cut(name, room)}</text>`}</g>`;
}

/** What the pointer is over. A title for each bar would be half of the drawing. */
function describe({ attempt, count: number, kind }) {
  if (number > 1) return `${plural(number, "attempt")} of ${attempt.role}`;
  if (kind === "wait") return `${attempt.role} waits for an answer`;
  return `${nameOf(attempt)}: ${outcomeAppearance(attempt.outcome).word}, ${lengthOf(attempt)}${attempt.cost ? `, ${money(attempt.cost)}` : ""}`;
}

const MARKS = { question: ["?", "asked"], began: ["▶", "began"], stopped: ["■", "broke"], ended: ["✓", ""], fork: ["⑂", ""], rejected: ["✕", ""], timer: ["◷", "asked"] };

function Marks({ model, place, width, height }) {
  const shown = [];
  let checkpointAt = -10;
  let glyphAt = -20;
  for (const mark of model.marks) {
    const x = place(mark.time);
    if (x < 0 || x > width) continue;
    if (mark.kind === "checkpoint") {
      if (x - checkpointAt < 3) continue;
      checkpointAt = x;
      shown.push(html`<path class="checkpoint" d=${`M${x} ${AXIS - 5}v5`}><title>${mark.text}</title></path>`);
    } else {
      if (x - glyphAt < 9) continue;
      glyphAt = x;
      const [glyph, kind] = MARKS[mark.kind];
      shown.push(html`<g class=${`marker ${kind}`}>${kind !== "asked" && html`<path d=${`M${x} ${AXIS - 4}V${height}`} />`}<text x=${x} y="10" text-anchor="middle">${glyph}</text><title>${mark.text ?? ""}, ${absolute(mark.time)}</title></g>`);
    }
  }
  return html`${shown}`;
}

function Folds({ scale, x, height }) {
  return html`${scale.folds.map((fold) => {
    const middle = (x(fold.at) + x(fold.end)) / 2;
    const steps = Math.ceil(height / 8);
    const zigzag = Array.from({ length: steps }, (_, i) => `l${i % 2 ? -6 : 6} 8`).join("");
    return html`<g class="fold"><path d=${`M${middle - 3} ${AXIS - 4}${zigzag}`} /><text x=${middle} y="10" text-anchor="middle">${shortDuration(fold.to - fold.from)}</text><title>Nothing was at work for ${duration(fold.to - fold.from)}</title></g>`;
  })}`;
}

function Brush({ model, scale, window: shown, setWindow, width }) {
  const density = useMemo(() => {
    const columns = new Uint8Array(Math.max(1, Math.floor(width / 2)));
    for (const attempt of model.attempts) {
      const from = Math.floor(scale.at(attempt.start) * columns.length);
      const to = Math.floor(scale.at(endOf(attempt, scale.end)) * columns.length);
      const value = attempt.fault ? 2 : 1;
      for (let at = Math.max(0, from); at <= Math.min(columns.length - 1, to); at += 1) columns[at] = Math.max(columns[at], value);
    }
    return columns;
  }, [scale, width]);
  const path = (value) => {
    let text = "";
    density.forEach((one, at) => {
      if (one === value) text += `M${at * 2 + 1} 6V${BRUSH - 6}`;
    });
    return text;
  };
  const drag = useDrag(width, (from, to) => setWindow({ from, to }), WHOLE);
  return html`<svg class="brush" width=${width} height=${BRUSH} aria-hidden="true" onDblClick=${() => setWindow(WHOLE)} ...${drag.handlers}>
    <rect class="back" width=${width} height=${BRUSH} /><path class="density" d=${path(1)} /><path class="density bad" d=${path(2)} />
    <rect class="window" x=${shown.from * width} y="0.5" width=${Math.max(3, (shown.to - shown.from) * width)} height=${BRUSH - 1} />
    ${drag.area && html`<rect class="drag" x=${drag.area[0]} width=${drag.area[1] - drag.area[0]} height=${BRUSH} />`}</svg>`;
}

function useDrag(width, choose, shown) {
  const [area, setArea] = useState(null);
  const start = useRef(null);
  const x = (event) => Math.max(0, Math.min(width, event.clientX - event.currentTarget.getBoundingClientRect().left));
  const end = (event) => {
    const from = start.current;
    start.current = null;
    setArea(null);
    if (from === null) return;
    const [left, right] = [Math.min(from, x(event)), Math.max(from, x(event))];
    if (right - left < 5) return;
    const scale = shown.to - shown.from;
    choose(shown.from + (left / width) * scale, shown.from + (right / width) * scale);
  };
  const handlers = {
    onPointerDown: (event) => {
      if (event.button === 0) start.current = x(event);
    },
    onPointerMove: (event) => {
      if (start.current === null || Math.abs(x(event) - start.current) < 5) return;
      if (!event.currentTarget.hasPointerCapture(event.pointerId)) event.currentTarget.setPointerCapture(event.pointerId);
      setArea([Math.min(start.current, x(event)), Math.max(start.current, x(event))]);
    },
    onPointerUp: end,
    onPointerCancel: () => {
      start.current = null;
      setArea(null);
    },
  };
  return { area, handlers };
}

export function Timeline({ data, run }) {
  useThrottled(data.version, REDRAW_MS);
  const { model } = data;
  const [ref, width] = useWidth();
  const [mode, setMode] = useState(draft("timeline.mode") ?? "folded");
  const [filter, take] = useFields({ failed: false, open: false, unfinished: false, text: "" });
  const [shown, setShown] = useState(WHOLE);
  const [pointed, setPointed] = useState("");
  const isRunning = run.state === "running";
  const end = isRunning && state.value !== "lost" ? Math.max(now.value, model.lastTime || 0) : model.lastTime || Date.parse(run.created) || now.value;
  const scale = makeScale(model, mode, end);
  const isLive = shown.to >= 1;
  const frozen = useRef(null);
  // A part that does not follow the end stays where it is in time, while the run goes on.
  const from = isLive || !frozen.current ? shown.from : scale.at(frozen.current.from);
  const to = isLive || !frozen.current ? shown.to : Math.max(from + SMALLEST_WINDOW, scale.at(frozen.current.to));
  const setWindow = (next) => {
    const bounded = { from: Math.max(0, next.from), to: Math.min(1, Math.max(next.from + SMALLEST_WINDOW, next.to)) };
    frozen.current = bounded.to >= 1 ? null : { from: scale.time(bounded.from), to: scale.time(bounded.to) };
    setShown(bounded);
  };
  const x = (at) => ((at - from) / (to - from)) * width;
  const place = (time) => x(scale.at(time));
  const layout = lanesOf(model, filter);
  const bars = barsOf({ model, filter, place, layout, width, end });
  const chosen = selection();
  const role = selectedRole(model);
  const chosenAttempt = chosen.event === undefined ? null : attemptOfEvent(model, chosen.event);
  const drag = useDrag(width, (left, right) => setWindow({ from: left, to: right }), { from, to });
  const step = (by) => {
    const list = model.attempts.filter((attempt) => matches(attempt, filter) && (!role || attempt.role === role));
    if (list.length) selectEvent(neighbour(list, list.indexOf(chosenAttempt), by).n);
  };
  useKeys({
    ".": () => setWindow({ from: shown.from > 0 ? Math.max(0, 1 - (to - from)) : 0, to: 1 }),
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    Escape: () => (shown === WHOLE ? back() : setWindow(WHOLE)),
  });
  const click = (event) => {
    const n = event.target.closest?.("[data-n]")?.dataset.n;
    if (n) selectEvent(Number(n));
  };
  const point = (event) => {
    const group = event.target.closest?.("[data-n]");
    const bar = group && bars.find((one) => one.attempt.n === Number(group.dataset.n));
    setPointed(bar ? describe(bar) : "");
  };
  const zoom = (factor) => {
    const size = (to - from) * factor;
    const right = isLive ? 1 : (from + to + size) / 2;
    setWindow({ from: right - size, to: right });
  };
  return html`<section class="timeline-part" aria-label="Timeline">
    <div class="part-head"><h2>Timeline</h2><${Controls} ...${{ mode, setMode, filter, take, zoom, isLive, setWindow, isRunning, isWhole: shown === WHOLE, model }} /></div>
    <div class="timeline live-timeline"><ul class="lanes" style=${{ paddingTop: `${AXIS + BRUSH}px` }}>${layout.lanes.map((lane) => html`<li key=${lane.name} style=${{ height: `${lane.height}px`, lineHeight: `${lane.height}px` }} class=${role === lane.name ? "chosen" : ""}>
        <button class="link" title=${lane.name} onClick=${() => selectRole(lane.name)}>${lane.title}</button></li>`)}</ul>
      <div class="drawing" ref=${ref}><${Brush} ...${{ model, scale, window: { from, to }, setWindow, width }} />
        <svg width=${width} height=${layout.height} role="img" aria-label=${summary(model)} onClick=${click} onPointerOver=${point} onPointerLeave=${() => setPointed("")} onDblClick=${() => setWindow(WHOLE)} ...${drag.handlers}>
          ${layout.lanes.map((lane, i) => html`<rect key=${lane.name} class=${`lane${i % 2 ? " odd" : ""}${role === lane.name ? " chosen" : ""}`} y=${lane.top} width=${width} height=${lane.height} />`)}
          ${ticks(scale, from, to, Math.max(2, Math.floor(width / 90))).map((tick) => html`<g key=${tick.time} class="tick"><path d=${`M${x(tick.at)} ${AXIS - 3}V${layout.height}`} /><text x=${x(tick.at) + 3} y=${AXIS - 6}>${tick.text}</text></g>`)}
          <${Folds} scale=${scale} x=${x} height=${layout.height} />
          <${Marks} model=${model} place=${place} width=${width} height=${layout.height} />
          ${bars.map((bar) => html`<${Bar} key=${`${bar.attempt.n}${bar.kind}`} bar=${bar} isChosen=${chosenAttempt !== null && bar.attempt.n === chosenAttempt.n} isDimmed=${role !== null && bar.attempt.role !== role} />`)}
          ${drag.area && html`<rect class="drag" x=${drag.area[0]} width=${drag.area[1] - drag.area[0]} height=${layout.height} />`}
        </svg></div></div>
    ${!model.attempts.length && html`<p class="none">Nothing was at work yet.</p>`}
    ${layout.left > 0 && html`<p class="note">${plural(layout.left, "more role")} did something; a filter shows them.</p>`}
    <${Legend} pointed=${pointed} />
  </section>`;
}

const summary = (model) => `${plural(model.attempts.length, "attempt")} of ${plural(model.roles.size, "role")}; the list of roles and the events say the same as text`;

function Controls({ mode, setMode, filter, take, zoom, isLive, setWindow, isRunning, isWhole, model }) {
  const box = (name, text) => html`<${Check} className="chip" isOn=${filter[name]} take=${take(name)}>${text}<//>`;
  const failures = model.failures.length;
  return html`<div class="part-controls">
    ${failures > 0 && html`<button class="small bad" onClick=${() => document.dispatchEvent(new KeyboardEvent("keydown", { key: "f" }))}>Next failure <span class="count">${failures}</span></button>`}
    ${box("failed", "failed")}${box("open", "open")}${box("unfinished", "hide finished")}
    <${Search} className="short" label="Filter by role or action" hint="Role or action" value=${filter.text} take=${take("text")} />
    <${Choose} label="Scale of time" value=${mode} options=${[["folded", "idle folded"], ["real", "real time"], ["log", "logarithmic"]]} take=${(chosen) => {
      setMode(chosen);
      keepDraft("timeline.mode", chosen);
      setWindow(WHOLE);
    }} />
    <span class="zoom"><button class="small" aria-label="Zoom in" onClick=${() => zoom(0.5)}>+</button><button class="small" aria-label="Zoom out" onClick=${() => zoom(2)}>−</button>${!isWhole && html`<button class="small" onClick=${() => setWindow(WHOLE)}>All</button>`}</span>
    ${isRunning && html`<${Live} isOn=${isLive} follow=${() => setWindow(WHOLE)} />`}
  </div>`;
}

function Legend({ pointed }) {
  const one = (kind, glyph, word) => html`<span class=${kind}><i aria-hidden="true">${glyph}</i> ${word}</span>`;
  return html`<div class="legend">${one("ok", "■", "finished")}${one("bad", "■", "failed")}${one("live", "▨", "at work")}${one("wait", "▨", "waits for an answer")}${one("cut", "▨", "interrupted, or tried again")}<span class="note">${pointed || "Drag to zoom, double click to see all."}</span></div>`;
}
