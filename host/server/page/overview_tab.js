// The overview of a run: its newest output, its idea, what it works on and waits for, and what it cost.

import { html } from "./dom.js";
import { runPath } from "./api.js";
import { count, money, plural } from "./figures.js";
import { Link, runAddress } from "./router.js";
import { nameOf } from "./run_model.js";
import { LongText } from "./texts.js";
import { Listed, Shares, Skeleton, Table, Time, useGet } from "./widgets.js";

export function OverviewTab({ data, run }) {
  data.version.value;
  const { model } = data;
  return html`<${Output} data=${data} run=${run} />
    ${run.idea && html`<section><h2>Idea</h2><${LongText} text=${run.idea} className="idea-text" />${run.truncated && html`<p class="note">It is longer; the whole idea is the first message.</p>`}</section>`}
    <${Listed} title="Lists that are worked on" list=${model.expansions} show=${(one) => html`<${Expansion} key=${one.n} one=${one} isOver=${run.state === "ended"} />`} />
    <${Listed} title="Open timers" list=${[...model.timers.values()]} show=${(one) => html`<li key=${one.timer}><b>${one.role}</b> <span class="note">${one.for === "wake" ? "is woken" : "gets a message"}</span> <${Time} at=${one.due} /></li>`} />
    <${Listed} title="Notices that were not delivered" list=${model.notices} show=${(one) => html`<li key=${one.n}><b>${one.notify}</b> ${one.reason}</li>`} />
    <${FaultList} run=${run} model=${model} />
    <${Costs} model=${model} run=${run} isWhole=${data.isWhole.value} />`;
}

/** A list whose items a role works on: how many are done, at work and failed. */
function Expansion({ one, isOver }) {
  const ended = one.done + one.failed + one.cancelled;
  const parts = [["done", "ok", one.done], ["running", "live", isOver ? 0 : Math.max(0, one.begun.size - ended)], ["failed", "bad", one.failed], ["cancelled", "cut", one.cancelled]].filter(([, , number]) => number > 0);
  return html`<li class="expansion"><b>${one.role}</b> <${Shares} parts=${parts.map(([, kind, number]) => [kind, number / Math.max(1, one.of)])} />
    <span class="note">${parts.map(([word, , number]) => `${count(number)} ${word}`).join(", ") || "nothing has begun"}, of ${count(one.of)}</span></li>`;
}

function Output({ data, run }) {
  const { id, from } = data.model.outputMessage ?? {};
  const [message] = useGet(id && `${runPath(run, "messages", id)}?as=tree`);
  const hasEnded = run.state === "ended";
  if (!run.output && !id) return hasEnded && html`<section><h2>Output</h2><p class="none">The run has no output.</p></section>`;
  const text = message?.content ?? run.output ?? "";
  return html`<section class="output"><h2>${hasEnded ? "Output" : "Newest output"} ${from && html`<span class="note">of ${from}</span>`}</h2>
    ${text ? html`<${LongText} key=${Boolean(message)} text=${text} tree=${message?.tree} isOpen=${hasEnded} />` : html`<${Skeleton} />`}</section>`;
}

function FaultList({ run, model }) {
  const failed = model.failures;
  if (!failed.length) return null;
  return html`<section><h2>Faults <span class="count">${failed.length}</span></h2><ul class="plain">${failed.slice(-10).reverse().map(
    (attempt) => html`<li key=${attempt.endEvent} class="fault-line"><span class=${attempt.outcome === "retried" ? "mark" : "mark bad"} aria-hidden="true">✕</span>
      <${Link} to=${runAddress(run, "timeline", `e${attempt.endEvent}`)}>${nameOf(attempt)}<//>
      <span class="note">${attempt.fault.fault}, attempt ${attempt.fault.attempt}${attempt.outcome === "retried" ? ", tried again" : ""}</span>
      <span class="one-line">${(attempt.fault.message ?? "").split("\n")[0].slice(0, 200)}</span></li>`,
  )}</ul>${failed.length > 10 && html`<p class="note">The newest 10 of ${failed.length}. <kbd>f</kbd> goes through all of them.</p>`}</section>`;
}

function Costs({ model, run, isWhole }) {
  const roles = [...model.roles.values()].filter((role) => role.calls > 0 || role.spent > 0).sort((a, b) => b.spent - a.spent);
  const models = [...model.models.values()].sort((a, b) => b.cost - a.cost);
  if (!roles.length && !models.length) return null;
  return html`<section><h2>Cost</h2><div class="costs-pair">
    ${roles.length > 0 && html`<${Table} heads=${["Role", "#Attempts", "#Calls", "#Cost"]}>
      ${roles.slice(0, 30).map((role) => html`<tr key=${role.name}><td>${role.name}</td><td class="num">${count(role.attempts)}</td><td class="num">${count(role.calls)}</td><td class="num">${money(role.spent)}</td></tr>`)}
      ${roles.length > 30 && html`<tr><td colspan="4" class="note">and ${plural(roles.length - 30, "more role")}</td></tr>`}
      <tr class="sum"><td>Spent by the run</td><td></td><td></td><td class="num">${money(run.spent)}</td></tr><//>`}
    ${models.length > 0 && html`<${Table} heads=${["Model", "#Calls", "#Tokens in", "#Tokens out", "#Cost"]}>
      ${models.map((one) => html`<tr key=${one.name}><td>${one.name}</td><td class="num">${count(one.calls)}</td><td class="num">${count(one.input)}</td><td class="num">${count(one.output)}</td><td class="num">${money(one.cost)}</td></tr>`)}<//>`}</div>
    ${!isWhole && html`<p class="note">Counted from the newest events; earlier ones are not read yet.</p>`}</section>`;
}
