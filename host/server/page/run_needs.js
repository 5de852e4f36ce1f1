// What a run needs from somebody because it stopped: a fault, a budget or a doubt, and what can be done about it.

import { html, typed, useMemo, useState } from "./dom.js";
import { call, items, runPath, withQuery } from "./api.js";
import { isOnline, state } from "./connection.js";
import { money, plural } from "./figures.js";
import { ForkSheet } from "./fork_sheet.js";
import { jsonError } from "./forms.js";
import { Link, runAddress } from "./router.js";
import { ask } from "./run_actions.js";
import { RunModel } from "./run_model.js";
import { mayOperate } from "./token.js";
import { CommandLine, LongText, quoted, useLoaded, whenLoaded } from "./widgets.js";

const TAIL = 500;

async function loadTail(run, signal) {
  const newest = Number(run.events);
  const model = new RunModel();
  let after = Number.isFinite(newest) ? Math.max(0, newest - TAIL) : 0;
  for (;;) {
    const page = items(await call(withQuery(runPath(run.name, "events"), { after, limit: TAIL }), { signal }));
    for (const event of page) model.apply(event);
    if (page.length < TAIL) return model;
    after = page.at(-1).n;
  }
}

export function RunItem({ run }) {
  const tail = useLoaded((signal) => loadTail(run, signal), [`${run.id} ${run.updated}`]);
  return html`<article>
    <p class="who"><${Link} to=${runAddress(run.name)}><b>${run.name}</b><//> <span class="note">${run.team}</span></p>
    ${whenLoaded(tail, (model) => html`<${RunNeeds} run=${run} model=${model} />`, 6)}
  </article>`;
}

/** Shows what a run needs. Nothing, if it needs nothing but answers. */
export function RunNeeds({ run, model }) {
  switch (run.status) {
    case "failed": return html`<${Faults} run=${run} model=${model} />`;
    case "stalled": return html`<${Stalled} run=${run} />`;
    case "out-of-budget": return html`<${Budget} run=${run} model=${model} />`;
    case "step-limit": return html`<${StepLimit} run=${run} />`;
    case "in-doubt": return html`<${Doubts} run=${run} model=${model} />`;
    default: return null;
  }
}

const serverOption = () => `--server ${location.origin}`;

/** A button that asks the server for something, and says why it cannot be used. */
function ActionButton({ className, onClick, children, disabled }) {
  const [busy, setBusy] = useState(false);
  const offline = (state.value, !isOnline());
  const click = async () => {
    setBusy(true);
    await onClick();
    setBusy(false);
  };
  return html`<button class=${className} disabled=${busy || offline || disabled} title=${offline ? "There is no connection to the server" : undefined} onClick=${click}>${busy ? "Sending…" : children}</button>`;
}

function firstGuestFrame(frames) {
  const own = (frames ?? []).find((frame) => !/^(__rustc::|core::panicking::|std::panicking::|std::sys::backtrace::)/.test(frame));
  return own ?? frames?.[0];
}

function kept(run, model, fault) {
  const finished = model.attempts.filter((one) => one.step === fault.step && one.outcome === "finished" && !one.isTurn).length;
  const results = finished ? `${plural(finished, "result")} of this step, ` : "";
  return `${results}${money(run.spent)}: will not be paid again`;
}

function Fault({ run, model, fault }) {
  const { event } = fault;
  const frame = firstGuestFrame(event.backtrace);
  return html`<div class="panel bad">
    <h2><span aria-hidden="true">✕</span> ${event.fault}: ${event.role}.${event.action}</h2>
    <p class="note">attempt ${event.attempt}, step ${event.step}${event.cause && event.cause !== "unspecified" && html`, cause: ${event.cause}`}${" · "}
      <${Link} to=${runAddress(run.name, "timeline", `e${event.n}`)}>in the timeline<//></p>
    <${LongText} text=${event.message ?? ""} className="message" />
    ${frame && html`<p class="note">at <code>${frame}</code></p>`}
    ${event.backtrace?.length > 1 && html`<details><summary>All ${event.backtrace.length} frames</summary><pre class="trace" tabindex="0">${event.backtrace.join("\n")}</pre></details>`}
    <p class="note">Kept: ${kept(run, model, event)}.</p>
  </div>`;
}

function Faults({ run, model }) {
  const [isForking, setForking] = useState(false);
  const faults = [...model.faults.values()].slice(-20);
  const before = model.checkpoints.at(-1)?.id ?? run.checkpoint;
  return html`<section class="item" aria-label="Faults">
    ${faults.length ? faults.map((fault) => html`<${Fault} key=${fault.event.n} ...${{ run, model, fault }} />`) : html`<div class="panel bad"><h2>✕ failed</h2><p class="note">Its events do not say more.</p></div>`}
    ${mayOperate(run) &&
    html`<p class="controls"><${ActionButton} className="primary" onClick=${() => ask(run, "resume")}>Resume<//>
      ${before && html`<button onClick=${() => setForking(true)}>Fork from before…</button>`}</p>
      <p class="note">Resume repeats what failed, with the same team. With a mended team file:</p>
      <${CommandLine} command=${`strata-host resume ${quoted(run.name)} team.toml ${serverOption()}`} />`}
    ${isForking && html`<${ForkSheet} run=${run} at=${before} onClose=${() => setForking(false)} />`}
  </section>`;
}

function Stalled({ run }) {
  return html`<section class="panel bad item"><h2><span aria-hidden="true">⊟</span> stalled</h2>
    <p>A join waits for a message that nobody will send. Send it what is missing, or fork from an earlier checkpoint.</p>
    <${CommandLine} command=${`strata-host send ${quoted(run.name)} --cause LABEL CONTENT ${serverOption()}`} /></section>`;
}

function Budget({ run, model }) {
  const [cap, setCap] = useState(run.budget ? String(Number(run.budget) * 2) : "");
  const paid = model.calls.findLast((one) => one.cost > 0);
  const amount = Number(cap);
  const isValid = cap.trim() !== "" && Number.isFinite(amount) && amount > Number(run.spent);
  const id = `cap-${run.id}`;
  return html`<section class="panel held item"><h2><span aria-hidden="true">$</span> out of budget</h2>
    <dl class="facts"><div><dt>Spent</dt><dd>${money(run.spent)}</dd></div><div><dt>Budget</dt><dd>${run.budget ? money(run.budget) : "a cap above the run"}</dd></div>
      ${paid && html`<div><dt>The last paid call</dt><dd>${money(paid.cost)}</dd><dd class="note">${paid.event.role}, ${paid.event.model ?? paid.event.call}</dd></div>`}</dl>
    ${mayOperate(run) &&
    html`<form class="controls" onSubmit=${(event) => event.preventDefault()}><label for=${id}>New budget in USD</label>
      <input id=${id} type="text" inputmode="decimal" size="8" value=${cap} onInput=${typed(setCap)} />
      <${ActionButton} className="primary" disabled=${!isValid} onClick=${() => ask(run, "resume", { investment: amount })}>Resume<//></form>
      <p class="note">What was paid is not paid again. The budget counts everything that the run spent.</p>`}</section>`;
}

function StepLimit({ run }) {
  const [limit, setLimit] = useState(String((Number(run.step) || 0) * 2 || 100));
  const id = `steps-${run.id}`;
  return html`<section class="panel held item"><h2><span aria-hidden="true">↧</span> step limit</h2><p>${plural(Number(run.step) || 0, "step")} are done.</p>
    ${mayOperate(run) &&
    html`<p class="controls"><label for=${id}>New limit</label><input id=${id} type="text" inputmode="numeric" size="6" value=${limit} onInput=${typed(setLimit)} />
      <${ActionButton} className="primary" disabled=${!(Number(limit) > Number(run.step))} onClick=${() => ask(run, "resume", { max_steps: Number(limit) })}>Resume<//></p>`}</section>`;
}

/** Returns the name of each doubt as the operator uses it: several of one action are numbered. */
function named(doubts) {
  const seen = new Map();
  return doubts.map(({ event }) => {
    const action = `${event.role}.${event.action}`;
    const nth = (seen.get(action) ?? 0) + 1;
    seen.set(action, nth);
    return { event, id: nth === 1 ? action : `${action}:${nth}` };
  });
}

function Doubts({ run, model }) {
  const doubts = useMemo(() => named([...model.doubts.values()]), [model, model.doubts.size]);
  return html`<section class="item" aria-label="In doubt">
    ${doubts.map(({ event, id }) => html`<${Doubt} key=${id} run=${run} event=${event} id=${id} />`)}
    ${!doubts.length && html`<div class="panel bad"><h2>‼ in doubt</h2><p class="note">Its newest events do not name the call.</p></div>`}
  </section>`;
}

function Doubt({ run, event, id }) {
  const [result, setResult] = useState(null);
  const decide = (verdict) => ask(run, "resume", { in_doubt: { [id]: verdict } });
  return html`<div class="panel bad"><h2><span aria-hidden="true">‼</span> in doubt: ${id}</h2>
    <p>It was sent, and nobody knows whether it took effect:</p><${LongText} text=${event.what ?? ""} className="request" />
    ${mayOperate(run) &&
    html`<dl class="decisions">
      <dt><${ActionButton} onClick=${() => decide("redo")}>Redo<//></dt><dd>Sends it again. It may then have happened twice.</dd>
      <dt><${ActionButton} onClick=${() => decide("skip")}>Skip<//></dt><dd>Goes on as if it had failed. It may have happened all the same.</dd>
      <dt><button aria-expanded=${result !== null} onClick=${() => setResult(result === null ? "" : null)}>Give result…</button></dt><dd>You know what the answer was: the action gets it.</dd>
    </dl>
    ${result !== null &&
    html`<label>The answer, as JSON<textarea class="code" rows="4" value=${result} onInput=${typed(setResult)}></textarea></label>
      <p class="controls"><${ActionButton} className="primary" disabled=${jsonError(result) !== null} onClick=${() => decide({ answer: JSON.parse(result) })}>Go on with this result<//></p>`}`}
  </div>`;
}
