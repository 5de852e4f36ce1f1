// The state of a run at each of its checkpoints, what changed with it, and a fork from it.

import { html, useEffect, useMemo, useState } from "./dom.js";
import { call, items, runPath, withQuery } from "./api.js";
import { money, plural } from "./figures.js";
import { ForkSheet } from "./fork_sheet.js";
import { useKeys } from "./keys.js";
import { encode, Link, runAddress } from "./router.js";
import { selectCheckpoint, selection } from "./selection.js";
import { StatusTag } from "./status.js";
import { mayOperate } from "./token.js";
import { Json, Time, useLoaded, whenLoaded } from "./widgets.js";

const PAGE = 500;
const MAX_CHECKPOINTS = 5000;
/** The number of marks that fit below the slider. */
const MAX_MARKS = 300;

async function loadCheckpoints(run, signal) {
  const all = [];
  let after = null;
  do {
    const answer = await call(withQuery(runPath(run.name, "checkpoints"), { limit: PAGE, after }), { signal });
    all.push(...items(answer));
    after = answer?.next ?? null;
  } while (after && all.length < MAX_CHECKPOINTS);
  return all;
}

export function StateTab({ data, run }) {
  const loaded = useLoaded((signal) => loadCheckpoints(run, signal), [run.id, run.checkpoint]);
  const [list] = loaded;
  const wanted = selection().checkpoint;
  const at = list ? Math.max(0, wanted === undefined ? list.length - 1 : list.findIndex((one) => one.id === wanted)) : 0;
  const checkpoint = list?.[at];
  const move = (to) => {
    const next = list?.[Math.max(0, Math.min(list.length - 1, to))];
    if (next) selectCheckpoint(next.id);
  };
  useKeys({ ArrowLeft: () => move(at - 1), ArrowRight: () => move(at + 1) });
  if (!list) return whenLoaded(loaded, null, 8);
  if (!checkpoint) return html`<p class="empty">The run has no checkpoint yet.</p>`;
  return html`<div class="slider"><label for="checkpoint" class="note">Checkpoint ${at + 1} of ${list.length}</label>
      <button class="small" aria-label="Previous checkpoint" disabled=${at === 0} onClick=${() => move(at - 1)}>←</button>
      <div><input id="checkpoint" type="range" min="0" max=${list.length - 1} value=${at} aria-valuetext=${`${checkpoint.id}, step ${checkpoint.step}`} onInput=${(event) => move(Number(event.target.value))} />
        <${SliderMarks} list=${list} model=${data.model} at=${at} /></div>
      <button class="small" aria-label="Next checkpoint" disabled=${at === list.length - 1} onClick=${() => move(at + 1)}>→</button></div>
    <${Checkpoint} run=${run} checkpoint=${checkpoint} before=${list.find((one) => one.id === checkpoint.parent) ?? list[at - 1]} />`;
}

function SliderMarks({ list, model, at }) {
  const lineages = useMemo(() => [...new Set(list.map((one) => one.lineage).filter(Boolean))], [list]);
  const marks = useMemo(() => {
    const found = [];
    list.forEach((one, place) => {
      const time = Date.parse(one.time);
      const next = Date.parse(list[place + 1]?.time ?? "") || Infinity;
      const has = (times) => times.some((other) => other > time && other <= next);
      if (one.status === "failed" || has(model.attempts.filter((attempt) => attempt.fault).map((attempt) => attempt.end))) found.push({ place, kind: "bad", glyph: "✕", word: "fault" });
      else if (one.source === "answer" || has([...model.requests.values()].filter((request) => request.answer).map((request) => request.wait.end))) found.push({ place, kind: "held", glyph: "?", word: "answer" });
      else if (place > 0 && one.lineage !== list[place - 1].lineage) found.push({ place, kind: "cut", glyph: "⑂", word: "fork" });
    });
    return found.slice(-MAX_MARKS);
  }, [list, model]);
  const x = (place) => (list.length > 1 ? (place / (list.length - 1)) * 100 : 50);
  return html`<div class="slider-marks" aria-hidden="true">${lineages.length > 1 && html`<div class="lineages">${lineages.map((lineage) => {
    const own = list.flatMap((one, place) => (one.lineage === lineage ? [place] : []));
    return html`<span key=${lineage} class=${list[at].lineage === lineage ? "lineage chosen" : "lineage"} style=${{ left: `${x(own[0])}%`, width: `${Math.max(1, x(own.at(-1)) - x(own[0]))}%` }}>${lineage}</span>`;
  })}</div>`}
    <div class="marks">${marks.map((mark) => html`<span key=${mark.place} class=${`mark ${mark.kind}`} title=${mark.word} style=${{ left: `${x(mark.place)}%` }}>${mark.glyph}</span>`)}</div></div>`;
}

export function partsOf(state) {
  const own = state?.strata ?? state ?? {};
  const messages = own.messages ?? {};
  const mail = Object.entries(own.buffers ?? {}).filter(([, ids]) => ids?.length);
  const joins = Object.entries(own.joins ?? {}).map(([name, join]) => [name, Object.fromEntries(Object.entries(join?.queue ?? {}).map(([from, ids]) => [from, ids.length]))]);
  const memories = Object.entries(state?.env?.roles ?? {}).map(([name, role]) => [name, role?.rc?.memory?.storage?.length ?? 0]);
  return { status: own.status, step: own.step, mail, joins, memories, messages, scopes: scopesOf(own.state), requests: own.requests ?? [], faults: own.faults ?? [], budget: own.budget ?? {} };
}

function scopesOf(state) {
  const found = {};
  const add = (name, value) => Object.defineProperty(found, name, { value, enumerable: true, configurable: true });
  for (const [scope, values] of Object.entries(state?.env ?? {})) for (const [key, value] of Object.entries(values ?? {})) add(`${scope}/${key}`, value);
  for (const [role, values] of Object.entries(state?.role ?? {})) for (const [key, value] of Object.entries(values ?? {})) add(`role/${role}/${key}`, value);
  return found;
}

const loadState = (run, id, signal) => (id ? call(runPath(run.name, "checkpoints", id), { signal }) : Promise.resolve(null));

function Checkpoint({ run, checkpoint, before }) {
  const [isForking, setForking] = useState(false);
  const loaded = useLoaded((signal) => loadState(run, checkpoint.id, signal), [`${run.id} ${checkpoint.id}`]);
  const [state] = loaded;
  const [old] = useLoaded((signal) => loadState(run, before?.id, signal).catch(() => null), [`${run.id} ${before?.id}`]);
  useEffect(() => setForking(false), [checkpoint.id]);
  const now = useMemo(() => partsOf(state), [state]);
  const then = useMemo(() => (old ? partsOf(old) : null), [old]);
  return html`<div class="part-head"><h2>${checkpoint.id}</h2><${StatusTag} status=${checkpoint.status} /> <span class="note">step ${checkpoint.step}${checkpoint.source && html`, by ${checkpoint.source}`}${checkpoint.lineage && html`, lineage ${checkpoint.lineage}`}${checkpoint.time && html`, <${Time} at=${checkpoint.time} />`}</span>
      <span class="part-controls">${mayOperate(run) && html`<button class="primary" onClick=${() => setForking(true)}>Fork from here</button>`}
      ${before && html`<${Link} class="button" to=${`/compare?a=${encode(`${run.name}@${before.id}`)}&b=${encode(`${run.name}@${checkpoint.id}`)}`}>Compare with the one before<//>`}</span></div>
    ${whenLoaded(loaded, () => html`<${StateParts} run=${run} now=${now} then=${then} />`, 8)}
    ${isForking && html`<${ForkSheet} run=${run} at=${checkpoint.id} step=${checkpoint.step} scopes=${now.scopes} onClose=${() => setForking(false)} />`}`;
}

function StateParts({ run, now, then }) {
  const changed = (pick, key, value) => then !== null && JSON.stringify(new Map(Array.isArray(pick(then)) ? pick(then) : Object.entries(pick(then))).get(key)) !== JSON.stringify(value);
  const tag = (isChanged) => isChanged && html` <span class="tag held">changed</span>`;
  const scopes = Object.entries(now.scopes);
  return html`<div class="state-parts">
    <section><h3>Mail</h3>${now.mail.length ? html`<ul class="plain">${now.mail.map(([role, ids]) => html`<li key=${role}><b>${role}</b> <span class="note">${plural(ids.length, "message")}</span>${tag(changed((parts) => parts.mail, role, ids))}
        <ul>${ids.slice(0, 10).map((id) => html`<li>${String(now.messages[id]?.content ?? id).slice(0, 200)}</li>`)}</ul></li>`)}</ul>` : html`<p class="none">No role has mail.</p>`}</section>
    <section><h3>Values</h3>${scopes.length ? html`<dl class="values">${scopes.map(([name, value]) => html`<dt>${name}${tag(changed((parts) => parts.scopes, name, value))}</dt><dd><${Json} value=${value} /></dd>`)}</dl>` : html`<p class="none">No scope has values.</p>`}</section>
    <section><h3>Memory</h3><ul class="plain columns">${now.memories.map(([role, size]) => html`<li key=${role}>${role} <span class="note">${plural(size, "message")}</span>${tag(changed((parts) => parts.memories, role, size))}</li>`)}</ul></section>
    ${now.joins.length > 0 && html`<section><h3>Joins</h3><ul class="plain">${now.joins.map(([name, queue]) => html`<li key=${name}><b>${name}</b> <span class="note">${Object.entries(queue).map(([from, size]) => `${from}: ${size}`).join(", ") || "empty"}</span>${tag(changed((parts) => parts.joins, name, queue))}</li>`)}</ul></section>`}
    ${now.requests.length > 0 && html`<section><h3>Open questions</h3><ul class="plain">${now.requests.map((request) => html`<li><b>${request.role ?? ""}</b> ${String(request.question ?? request.id ?? "").slice(0, 200)}</li>`)}</ul></section>`}
    ${now.faults.length > 0 && html`<section><h3>Open faults</h3><ul class="plain">${now.faults.map((fault) => html`<li><b>${fault.role}.${fault.action}</b> ${fault.kind}: ${String(fault.message ?? "").split("\n")[0].slice(0, 200)}</li>`)}</ul></section>`}
    <section><h3>Money</h3><p>${money(now.budget.total ?? 0)}${now.budget.max ? ` of ${money(now.budget.max)}` : ""} spent then. ${" "}<${Link} to=${runAddress(run.name, "calls")}>All calls<//></p></section></div>`;
}
