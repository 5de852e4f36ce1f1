// The state of a run at each of its checkpoints, what changed with it, and a fork from it.

import { html, useEffect, useMemo, useState } from "./dom.js";
import { allItems, runPath } from "./api.js";
import { plural } from "./figures.js";
import { ForkSheet } from "./fork_sheet.js";
import { neighbour, useKeys } from "./keys.js";
import { Link, runAddress, selectCheckpoint, selection } from "./router.js";
import { StatusTag } from "./status.js";
import { Json } from "./texts.js";
import { addressOf, mayOperate } from "./token.js";
import { encode } from "./visible.js";
import { Listed, spentOf, Time, useGet, useLoaded, whenLoaded } from "./widgets.js";

const MAX_CHECKPOINTS = 5000;
/** The number of marks that fit below the slider. */
const MAX_MARKS = 300;

export function StateTab({ data, run }) {
  const loaded = useLoaded((signal) => allItems(runPath(run, "checkpoints"), {}, { signal, most: MAX_CHECKPOINTS }), run.id, run.checkpoint);
  const [list] = loaded;
  const wanted = selection().checkpoint;
  const at = list ? Math.max(0, wanted === undefined ? list.length - 1 : list.findIndex((one) => one.id === wanted)) : 0;
  const checkpoint = list?.[at];
  const move = (by) => checkpoint && selectCheckpoint(neighbour(list, at, by).id);
  useKeys({ ArrowLeft: () => move(-1), ArrowRight: () => move(1) });
  if (!list) return whenLoaded(loaded, null, 8);
  if (!checkpoint) return html`<p class="empty">The run has no checkpoint yet.</p>`;
  return html`<div class="slider"><label for="checkpoint" class="note">Checkpoint ${at + 1} of ${list.length}</label>
      <button class="small" aria-label="Previous checkpoint" disabled=${at === 0} onClick=${() => move(-1)}>←</button>
      <div><input id="checkpoint" type="range" min="0" max=${list.length - 1} value=${at} aria-valuetext=${`${checkpoint.id}, step ${checkpoint.step}`} onInput=${(event) => selectCheckpoint(list[event.target.value].id)} />
        <${SliderMarks} list=${list} model=${data.model} at=${at} /></div>
      <button class="small" aria-label="Next checkpoint" disabled=${at === list.length - 1} onClick=${() => move(1)}>→</button></div>
    <${Checkpoint} run=${run} checkpoint=${checkpoint} before=${list.find((one) => one.id === checkpoint.parent) ?? list[at - 1]} />`;
}

function SliderMarks({ list, model, at }) {
  const lineages = useMemo(() => [...new Set(list.map((one) => one.lineage).filter(Boolean))], [list]);
  const marks = useMemo(() => {
    const failures = model.failures.map((attempt) => attempt.end);
    const answers = [...model.requests.values()].filter((request) => request.answer).map((request) => request.wait.end);
    const markOf = (one, place) => {
      const [time, next] = [Date.parse(one.time), Date.parse(list[place + 1]?.time) || Infinity];
      const has = (times) => times.some((other) => other > time && other <= next);
      if (one.status === "failed" || has(failures)) return ["bad", "✕", "fault"];
      if (one.source === "answer" || has(answers)) return ["held", "?", "answer"];
      return place > 0 && one.lineage !== list[place - 1].lineage && ["cut", "⑂", "fork"];
    };
    return list.map((one, place) => [place, markOf(one, place)]).filter(([, mark]) => mark).slice(-MAX_MARKS);
  }, [list, model]);
  const x = (place) => (list.length > 1 ? (place / (list.length - 1)) * 100 : 50);
  return html`<div class="slider-marks" aria-hidden="true">${lineages.length > 1 && html`<div class="lineages">${lineages.map((lineage) => {
    const own = list.flatMap((one, place) => (one.lineage === lineage ? [place] : []));
    return html`<span key=${lineage} class=${list[at].lineage === lineage ? "lineage chosen" : "lineage"} style=${{ left: `${x(own[0])}%`, width: `${Math.max(1, x(own.at(-1)) - x(own[0]))}%` }}>${lineage}</span>`;
  })}</div>`}
    <div class="marks">${marks.map(([place, [kind, glyph, word]]) => html`<span key=${place} class=${`mark ${kind}`} title=${word} style=${{ left: `${x(place)}%` }}>${glyph}</span>`)}</div></div>`;
}

function partsOf(state) {
  const own = state?.strata ?? state ?? {};
  const messages = own.messages ?? {};
  const mail = Object.entries(own.buffers ?? {}).filter(([, ids]) => ids?.length);
  const joins = Object.entries(own.joins ?? {}).map(([name, join]) => [name, Object.fromEntries(Object.entries(join?.queue ?? {}).map(([from, ids]) => [from, ids.length]))]);
  const memories = Object.entries(state?.env?.roles ?? {}).map(([name, role]) => [name, role?.rc?.memory?.storage?.length ?? 0]);
  const timers = Object.values(own.timers ?? {});
  return { timers, mail, joins, memories, messages, scopes: scopesOf(own.state), requests: own.requests ?? [], faults: own.faults ?? [], budget: own.budget ?? {} };
}

function scopesOf(state) {
  const named = (scopes, start) => Object.entries(scopes ?? {}).flatMap(([scope, values]) => Object.entries(values ?? {}).map(([key, value]) => [`${start}${scope}/${key}`, value]));
  return Object.fromEntries([...named(state?.env, ""), ...named(state?.role, "role/")]);
}

function Checkpoint({ run, checkpoint, before }) {
  const [isForking, setForking] = useState(false);
  const pathOf = (one) => one && runPath(run, "checkpoints", one.id);
  const loaded = useGet(pathOf(checkpoint));
  const [state] = loaded;
  const [old] = useGet(pathOf(before));
  useEffect(() => setForking(false), [checkpoint.id]);
  const now = useMemo(() => partsOf(state), [state]);
  const then = useMemo(() => (old ? partsOf(old) : null), [old]);
  return html`<div class="part-head"><h2>${checkpoint.id}</h2><${StatusTag} status=${checkpoint.status} /> <span class="note">step ${checkpoint.step}${checkpoint.source && html`, by ${checkpoint.source}`}${checkpoint.lineage && html`, lineage ${checkpoint.lineage}`}${checkpoint.time && html`, <${Time} at=${checkpoint.time} />`}</span>
      <span class="part-controls">${mayOperate(run) && html`<button class="primary" onClick=${() => setForking(true)}>Fork from here</button>`}
      ${before && html`<${Link} class="button" to=${`/compare?a=${encode(`${addressOf(run)}@${before.id}`)}&b=${encode(`${addressOf(run)}@${checkpoint.id}`)}`}>Compare with the one before<//>`}</span></div>
    ${whenLoaded(loaded, () => html`<${StateParts} run=${run} now=${now} then=${then} />`, 8)}
    ${isForking && html`<${ForkSheet} run=${run} at=${checkpoint.id} step=${checkpoint.step} scopes=${now.scopes} onClose=${() => setForking(false)} />`}`;
}

const line = (text) => String(text ?? "").split("\n")[0].slice(0, 200);

function StateParts({ run, now, then }) {
  const tag = (part, key, value) => {
    if (!then) return null;
    const old = Array.isArray(then[part]) ? new Map(then[part]).get(key) : then[part][key];
    return JSON.stringify(old) !== JSON.stringify(value) && html` <span class="tag held">changed</span>`;
  };
  return html`<div class="state-parts">
    <${Listed} isPart title="Mail" list=${now.mail} none="No role has mail." show=${([role, ids]) => html`<li key=${role}><b>${role}</b> <span class="note">${plural(ids.length, "message")}</span>${tag("mail", role, ids)}
      <ul>${ids.slice(0, 10).map((id) => html`<li>${String(now.messages[id]?.content ?? id).slice(0, 200)}</li>`)}</ul></li>`} />
    <${Listed} isPart title="Values" list=${Object.entries(now.scopes)} none="No scope has values." show=${([name, value]) => html`<li key=${name}>${name}${tag("scopes", name, value)}<${Json} value=${value} /></li>`} />
    <${Listed} isPart title="Memory" className="plain columns" list=${now.memories} show=${([role, size]) => html`<li key=${role}>${role} <span class="note">${plural(size, "message")}</span>${tag("memories", role, size)}</li>`} />
    <${Listed} isPart title="Joins" list=${now.joins} show=${([name, queue]) => html`<li key=${name}><b>${name}</b> <span class="note">${Object.entries(queue).map(([from, size]) => `${from}: ${size}`).join(", ") || "empty"}</span>${tag("joins", name, queue)}</li>`} />
    <${Listed} isPart title="Timers" list=${now.timers} show=${(timer) => html`<li><b>${timer.role}</b> <${Time} at=${timer.due} exact /></li>`} />
    <${Listed} isPart title="Open questions" list=${now.requests} show=${(request) => html`<li><b>${request.role}</b> ${line(request.question ?? request.id)}</li>`} />
    <${Listed} isPart title="Open faults" list=${now.faults} show=${(fault) => html`<li><b>${fault.role}.${fault.action}</b> ${fault.kind}: ${line(fault.message)}</li>`} />
    <section><h3>Money</h3><p>${spentOf(now.budget.total ?? 0, now.budget.max)} spent then. ${" "}<${Link} to=${runAddress(run, "calls")}>All calls<//></p></section></div>`;
}
