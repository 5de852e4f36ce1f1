// What is selected in a run, in full: an attempt with its result or fault, a role, or an event.

import { html } from "./dom.js";
import { absolute, money, plural } from "./figures.js";
import { Link, runAddress, selectEvent, selection } from "./router.js";
import { attemptOfEvent, deedOf, lengthOf, nameOf } from "./run_model.js";
import { OutcomeMark } from "./status.js";
import { Json, LongText, jsonLine, Titled } from "./texts.js";

export function Inspector({ data, run }) {
  data.version.value;
  const chosen = selection();
  if (chosen.role !== undefined) return html`<${RoleDetails} model=${data.model} name=${chosen.role} />`;
  if (chosen.event === undefined) return html`<p class="none">Select a bar, a node or a row to see what it is.</p>`;
  const attempt = attemptOfEvent(data.model, chosen.event);
  if (attempt) return html`<${AttemptDetails} data=${data} run=${run} attempt=${attempt} />`;
  const event = data.events.find((one) => one.n === chosen.event);
  if (event) return html`<h2>${event.kind}</h2><p class="note">event ${event.n}, ${absolute(event.time)}</p><${Json} value=${event} />`;
  return html`<p class="none">Event ${chosen.event} is not among those that are read.</p>`;
}

/** Names and what they have; what is undefined is left out. */
const Pairs = ({ of }) => html`<dl class="pairs">${of.map(([name, value]) => value !== undefined && value !== null && value !== false && html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;

export const Logs = ({ event }) => html`<h4>Log</h4>${event.left_out > 0 && html`<p class="note">${plural(event.left_out, "line")} came before these.</p>`}<${LongText} text=${event.lines.join("\n")} className="request" />`;

function AttemptDetails({ data, run, attempt }) {
  const calls = data.model.calls.filter((one) => belongs(one.event, attempt)).slice(-20);
  const request = data.model.waits.find((wait) => wait.attempt === attempt);
  const { fault, output } = attempt;
  return html`<h2>${nameOf(attempt)}</h2>
    <p><${OutcomeMark} outcome=${attempt.outcome} withWord /></p>
    <${Pairs} of=${[
      ["step", attempt.step], ["attempt", attempt.attempt], ["began", absolute(attempt.start)], ["took", lengthOf(attempt)], ["cost", `${money(attempt.cost)}, ${plural(attempt.calls, "call")}`],
      ["called in", attempt.turn !== undefined && !attempt.isTurn && `turn ${attempt.turn}, call ${attempt.toolCall}`], ["for", attempt.via && `${attempt.via.role}, turn ${attempt.via.turn}`],
    ]} />
    ${fault && html`<div class="panel bad"><h3>${fault.fault}${fault.cause && fault.cause !== "unspecified" && html` <span class="note">${fault.cause}</span>`}</h3><${LongText} text=${fault.message ?? ""} />
      ${fault.backtrace?.length > 0 && html`<pre class="trace" tabindex="0">${fault.backtrace.join("\n")}</pre>`}</div>`}
    <${Titled} title="Result" text=${output?.content} /><${Titled} title="Data" value=${output?.data} />
    <${Titled} title="Question" text=${request?.event.question} />
    ${attempt.logs && html`<${Logs} event=${attempt.logs} />`}
    ${calls.length > 0 && html`<h3>Host calls</h3><ul class="plain">${calls.map(({ n, event, cost }) => html`<li key=${n}><code>${event.call}</code> <span class="one-line">${jsonLine(event.what ?? "", 90)}</span> <span class="note">${event.source === "recorded" ? "recorded, not paid" : money(cost)}</span></li>`)}</ul>`}
    <p class="note">Events ${[...new Set([attempt.n, attempt.endEvent ?? attempt.n])].map((n) => html` <${Link} to=${runAddress(run, "events", `e${n}`)}>${n}<//>`)}</p>`;
}

const belongs = (event, attempt) =>
  event.role === attempt.role && event.action === attempt.action && event.turn === attempt.turn && event.tool_call === attempt.toolCall &&
  event.n > attempt.n && (!attempt.endEvent || event.n < attempt.endEvent);

function RoleDetails({ model, name }) {
  const role = model.roles.get(name);
  if (!role) return html`<h2>${name}</h2><p class="none">It has done nothing so far.</p>`;
  const attempts = model.attempts.filter((attempt) => attempt.role === name).slice(-15).reverse();
  return html`<h2>${name}</h2>
    <${Pairs} of=${[
      ["at work", role.open.size ? [...role.open].map((attempt) => attempt.action).join(", ") : "no"], ["attempts", `${role.attempts}, ${plural(role.failed, "failure")}`],
      ["cost", `${money(role.spent)}, ${plural(role.calls, "call")}`], ["questions", role.asked > 0 && `${role.asked} open`],
    ]} />
    <h3>Newest attempts</h3><ul class="plain">${attempts.map((attempt) => html`<li key=${attempt.n}><${OutcomeMark} outcome=${attempt.outcome} /> <button class="link" onClick=${() => selectEvent(attempt.n)}>${deedOf(attempt)}</button>
      <span class="note">${Number.isFinite(attempt.end) ? lengthOf(attempt) : ""}</span></li>`)}</ul>`;
}
