// What is selected in a run, in full: an attempt with its result or fault, a role, or an event.

import { html } from "./dom.js";
import { absolute, duration, money, plural } from "./figures.js";
import { Link, runAddress } from "./router.js";
import { attemptOfEvent, selection, selectEvent } from "./selection.js";
import { OutcomeMark } from "./status.js";
import { Json, LongText, jsonLine } from "./widgets.js";

export function Inspector({ data, run }) {
  data.version.value;
  const chosen = selection();
  if (chosen.role !== undefined) return html`<${RoleDetails} model=${data.model} name=${chosen.role} />`;
  if (chosen.event === undefined) return html`<p class="none">Select a bar, a node or a row to see what it is.</p>`;
  const attempt = attemptOfEvent(data.model, chosen.event);
  const event = data.events.find((one) => one.n === chosen.event);
  if (attempt) return html`<${AttemptDetails} data=${data} run=${run} attempt=${attempt} />`;
  if (event) return html`<h2>${event.kind}</h2><p class="note">event ${event.n}, ${absolute(event.time)}</p><${Json} value=${event} />`;
  return html`<p class="none">Event ${chosen.event} is not among those that are read.</p>`;
}

function AttemptDetails({ data, run, attempt }) {
  const calls = data.model.calls.filter((one) => belongs(one.event, attempt)).slice(-20);
  const request = data.model.waits.find((wait) => wait.attempt === attempt);
  return html`<h2>${attempt.role}${attempt.isTurn ? `, turn ${attempt.turn}` : `.${attempt.action}`}</h2>
    <p><${OutcomeMark} outcome=${attempt.outcome} withWord /></p>
    <dl class="pairs"><dt>step</dt><dd>${attempt.step ?? "–"}</dd>${attempt.attempt && html`<dt>attempt</dt><dd>${attempt.attempt}</dd>`}
      <dt>began</dt><dd>${absolute(attempt.start)}</dd><dt>took</dt><dd>${Number.isFinite(attempt.end) ? duration(attempt.end - attempt.start) : "not finished"}</dd>
      <dt>cost</dt><dd>${money(attempt.cost)}, ${plural(attempt.calls, "call")}</dd>
      ${attempt.turn !== undefined && !attempt.isTurn && html`<dt>called in</dt><dd>turn ${attempt.turn}, call ${attempt.toolCall}</dd>`}
      ${attempt.via && html`<dt>for</dt><dd>${attempt.via.role}, turn ${attempt.via.turn}</dd>`}</dl>
    ${attempt.fault && html`<div class="panel bad"><h3>${attempt.fault.fault}${attempt.fault.cause && attempt.fault.cause !== "unspecified" && html` <span class="note">${attempt.fault.cause}</span>`}</h3><${LongText} text=${attempt.fault.message ?? ""} />
      ${attempt.fault.backtrace?.length > 0 && html`<pre class="trace" tabindex="0">${attempt.fault.backtrace.join("\n")}</pre>`}</div>`}
    ${attempt.output && html`<h3>Result</h3><${LongText} text=${attempt.output.content ?? ""} />${attempt.output.data !== undefined && attempt.output.data !== null && html`<h4>Data</h4><${Json} value=${attempt.output.data} />`}`}
    ${request && html`<h3>Question</h3><${LongText} text=${request.event.question ?? ""} />`}
    ${calls.length > 0 && html`<h3>Host calls</h3><ul class="plain">${calls.map(({ n, event, cost }) => html`<li key=${n}><code>${event.call}</code> <span class="one-line">${jsonLine(event.what ?? "", 90)}</span> <span class="note">${event.source === "recorded" ? "recorded, not paid" : money(cost)}</span></li>`)}</ul>`}
    <p class="note"><${Link} to=${runAddress(run.name, "events", `e${attempt.n}`)}>Event ${attempt.n}<//>
      ${attempt.endEvent && attempt.endEvent !== attempt.n && html`, <${Link} to=${runAddress(run.name, "events", `e${attempt.endEvent}`)}>${attempt.endEvent}<//>`}</p>`;
}

const belongs = (event, attempt) =>
  event.role === attempt.role && event.action === attempt.action && event.turn === attempt.turn && event.tool_call === attempt.toolCall &&
  event.n > attempt.n && (!attempt.endEvent || event.n < attempt.endEvent);

function RoleDetails({ model, name }) {
  const role = model.roles.get(name);
  if (!role) return html`<h2>${name}</h2><p class="none">It has done nothing so far.</p>`;
  const attempts = model.attempts.filter((attempt) => attempt.role === name).slice(-15).reverse();
  return html`<h2>${name}</h2>
    <dl class="pairs"><dt>at work</dt><dd>${role.open.size ? [...role.open].map((attempt) => attempt.action).join(", ") : "no"}</dd><dt>attempts</dt><dd>${role.attempts}, ${plural(role.failed, "failure")}</dd>
      <dt>cost</dt><dd>${money(role.spent)}, ${plural(role.calls, "call")}</dd>${role.asked > 0 && html`<dt>questions</dt><dd>${role.asked} open</dd>`}</dl>
    <h3>Newest attempts</h3><ul class="plain">${attempts.map((attempt) => html`<li key=${attempt.n}><${OutcomeMark} outcome=${attempt.outcome} /> <button class="link" onClick=${() => selectEvent(attempt.n)}>${attempt.isTurn ? `turn ${attempt.turn}` : attempt.action}</button>
      <span class="note">${Number.isFinite(attempt.end) ? duration(attempt.end - attempt.start) : ""}</span></li>`)}</ul>`;
}
