// The overview of a run: its newest output, the idea, faults, and what it cost.

import { html } from "./dom.js";
import { call, runPath } from "./api.js";
import { count, money, plural } from "./figures.js";
import { MarkdownTree } from "./markdown_tree.js";
import { Link, runAddress } from "./router.js";
import { CopyButton, LongText, Skeleton, Table, useLoaded } from "./widgets.js";

export function OverviewTab({ data, run }) {
  data.version.value;
  const { model } = data;
  return html`<${Output} data=${data} run=${run} />
    ${run.idea && html`<section><h2>Idea</h2><${LongText} text=${run.idea} className="idea-text" />${run.truncated && html`<p class="note">It is longer; the whole idea is the first message.</p>`}</section>`}
    <${FaultList} run=${run} model=${model} />
    <${Costs} model=${model} run=${run} isWhole=${data.isWhole.value} />`;
}

function Output({ data, run }) {
  const id = data.model.outputMessage?.id;
  const [message] = useLoaded((signal) => (id ? call(`${runPath(run.name, "messages", id)}?as=tree`, { signal }) : Promise.resolve(null)), [`${run.id} ${id}`]);
  if (!run.output && !id) return run.state === "ended" ? html`<section><h2>Output</h2><p class="none">The run has no output.</p></section>` : null;
  const tree = message?.tree;
  const whole = message?.content ?? run.output ?? "";
  return html`<section class="output"><h2>${run.state === "ended" ? "Output" : "Newest output"} ${data.model.outputMessage?.from && html`<span class="note">of ${data.model.outputMessage.from}</span>`}</h2>
    ${tree ? html`<${MarkdownTree} tree=${tree} />` : whole ? html`<div class="document"><${LongText} text=${whole} /></div>` : html`<${Skeleton} />`}
    ${whole && html`<details class="source"><summary>Source</summary><pre class="prose" tabindex="0">${whole.slice(0, 65536)}</pre><${CopyButton} text=${whole} /></details>`}</section>`;
}

function FaultList({ run, model }) {
  const failed = model.attempts.filter((attempt) => attempt.fault);
  if (!failed.length) return null;
  return html`<section><h2>Faults <span class="count">${failed.length}</span></h2><ul class="plain">${failed.slice(-10).reverse().map(
    (attempt) => html`<li key=${attempt.endEvent} class="fault-line"><span class=${attempt.outcome === "retried" ? "mark" : "mark bad"} aria-hidden="true">✕</span>
      <${Link} to=${runAddress(run.name, "timeline", `e${attempt.endEvent}`)}>${attempt.role}.${attempt.action}<//>
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
