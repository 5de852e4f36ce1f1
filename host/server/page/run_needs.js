// What a run needs from somebody because it stopped: a fault, a budget or a doubt, and what can be done about it.

import { html, useMemo, useState } from "./dom.js";
import { eventsAfter, PAGE } from "./api.js";
import { money, plural } from "./figures.js";
import { ForkSheet } from "./fork_sheet.js";
import { Field } from "./forms.js";
import { Link, runAddress } from "./router.js";
import { ask } from "./run_actions.js";
import { RunModel } from "./run_model.js";
import { jsonError } from "./schema_fields.js";
import { CommandLine, LongText, quoted } from "./texts.js";
import { addressOf, mayOperate } from "./token.js";
import { ActionButton, useLoaded, whenLoaded } from "./widgets.js";

/** Reads the newest events of a run, which say why it stopped. */
const loadTail = async (run, signal) => RunModel.of(await eventsAfter(run, Math.max(0, (Number(run.events) || 0) - PAGE), { signal }));

export function RunItem({ run }) {
  const tail = useLoaded((signal) => loadTail(run, signal), `${run.id} ${run.updated}`);
  return html`<article>
    <p class="who"><${Link} to=${runAddress(run)}><b>${addressOf(run)}</b><//> <span class="note">${run.team}</span></p>
    ${whenLoaded(tail, (model) => html`<${RunNeeds} run=${run} model=${model} />`, 6)}
  </article>`;
}

export function RunNeeds({ run, model }) {
  switch (run.status) {
    case "failed": return html`<${Faults} run=${run} model=${model} />`;
    case "stalled": return html`<${Stalled} run=${run} />`;
    case "out-of-budget": return html`<${Budget} run=${run} model=${model} />`;
    case "step-limit": return html`<${Limit} run=${run} glyph="↧" title="step limit" name="New limit" first=${(Number(run.step) || 0) * 2 || 100} above=${run.step} terms=${(limit) => ({ max_steps: limit })}><p>${plural(Number(run.step) || 0, "step")} are done.</p><//>`;
    case "in-doubt": return html`<${Doubts} run=${run} model=${model} />`;
    default: return null;
  }
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
      <${Link} to=${runAddress(run, "timeline", `e${event.n}`)}>in the timeline<//></p>
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
    html`<p class="controls"><${ActionButton} class="primary" onClick=${() => ask(run, "resume")}>Resume<//>
      ${before && html`<button onClick=${() => setForking(true)}>Fork from before…</button>`}</p>
      <p class="note">Resume repeats what failed, with the same team. With a mended team file:</p>
      <${CommandLine} command=${`resume ${quoted(addressOf(run))} team.toml`} />`}
    ${isForking && html`<${ForkSheet} run=${run} at=${before} onClose=${() => setForking(false)} />`}
  </section>`;
}

function Stalled({ run }) {
  return html`<section class="panel bad item"><h2><span aria-hidden="true">⊟</span> stalled</h2>
    <p>A join waits for a message that nobody will send. Send it what is missing, or fork from an earlier checkpoint.</p>
    <${CommandLine} command=${`send ${quoted(addressOf(run))} --cause LABEL CONTENT`} /></section>`;
}

/** A run that stopped at a limit, which can be raised. */
function Limit({ run, glyph, title, name, first, above, terms, children }) {
  const [text, setText] = useState(String(first));
  const limit = Number(text);
  const isValid = text.trim() !== "" && Number.isFinite(limit) && limit > Number(above);
  return html`<section class="panel held item"><h2><span aria-hidden="true">${glyph}</span> ${title}</h2>${children}
    ${mayOperate(run) &&
    html`<form class="controls" onSubmit=${(event) => event.preventDefault()}><${Field} label=${name} inputmode="decimal" size="8" value=${text} take=${setText} />
      <${ActionButton} class="primary" disabled=${!isValid} onClick=${() => ask(run, "resume", terms(limit))}>Resume<//></form>`}</section>`;
}

function Budget({ run, model }) {
  const paid = model.calls.findLast((one) => one.cost > 0);
  return html`<${Limit} run=${run} glyph="$" title="out of budget" name="New budget in USD" first=${run.budget ? Number(run.budget) * 2 : ""} above=${run.spent} terms=${(investment) => ({ investment })}>
    <dl class="facts"><div><dt>Spent</dt><dd>${money(run.spent)}</dd></div><div><dt>Budget</dt><dd>${run.budget ? money(run.budget) : "a cap above the run"}</dd></div>
      ${paid && html`<div><dt>The last paid call</dt><dd>${money(paid.cost)}</dd><dd class="note">${paid.event.role}, ${paid.event.model ?? paid.event.call}</dd></div>`}</dl>
    <p class="note">What was paid is not paid again. The budget counts everything that the run spent.</p><//>`;
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

/** Whether a model called a tool of an MCP server, so that it can be told that the result is unknown. */
function canBeUnknown(event) {
  return event.call === "mcp" && event.tool_call !== undefined;
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
      ${canBeUnknown(event) && html`<dt><${ActionButton} onClick=${() => decide("unknown")}>Tell the model<//></dt><dd>Its model is told that the result is unknown.</dd>`}
    </dl>
    ${result !== null &&
    html`<${Field} label="The answer, as JSON" class="code" rows="4" value=${result} take=${setResult} />
      <p class="controls"><${ActionButton} class="primary" disabled=${jsonError(result) !== null} onClick=${() => decide({ answer: JSON.parse(result) })}>Go on with this result<//></p>`}`}
  </div>`;
}
