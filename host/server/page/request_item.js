// One question of a run in full: what is asked, what it is about, what happens on yes and no, and the controls.

import { html, typed, useEffect, useMemo, useRef, useState } from "./dom.js";
import { call, items, post, runPath, withQuery } from "./api.js";
import { isOnline, state } from "./connection.js";
import { clock } from "./figures.js";
import { useKeys } from "./keys.js";
import { runAddress, Link } from "./router.js";
import { fieldOf, inputOf, valueOf } from "./schema_fields.js";
import { SchemaForm } from "./schema_form.js";
import { draft, keepDraft } from "./storage.js";
import { may } from "./token.js";
import { Json, LongText, ProblemView, Time, useLoaded, whenLoaded } from "./widgets.js";

const CONTEXT_MESSAGES = 3;

const isApproval = (request) => typeof request.tool === "string";
const draftName = (request) => `answer.${request.run}.${request.id}`;

/** Shows a request. `onAnswered` is called once the server has recorded the answer. */
export function RequestItem({ request, onAnswered, isInRun }) {
  return html`<article class="panel held item" aria-label=${`Question of ${request.role}`}>
    <p class="who"><b>${request.role}</b>${request.action && request.action !== "answer" && html` <span class="note">${request.action}</span>`}
      ${!isInRun && html` in <${Link} to=${runAddress(request.run)}>${request.run}<//>`}
      <span class="when note"><${Deadline} request=${request} /></span></p>
    <div class="question"><${LongText} text=${request.question ?? ""} /></div>
    <${About} request=${request} />
    <${Consequence} request=${request} />
    ${may("answer")
      ? html`<${Answer} key=${`${request.run}/${request.id}`} request=${request} onAnswered=${onAnswered} />`
      : html`<p class="note">This token may not answer.</p>`}
  </article>`;
}

function Deadline({ request }) {
  return html`${request.opened && request.opened !== true && html`asked <${Time} at=${request.opened} />`}
    ${request.expires && html`${request.opened ? ", " : ""}<b>expires <${Time} at=${request.expires} /></b>`}`;
}

function About({ request }) {
  const [isOpen, setOpen] = useState(false);
  return html`${isApproval(request) &&
  html`<h2 class="caption">Calls the tool</h2><p><code class="tool-name">${request.tool}</code></p><h2 class="caption">With the arguments</h2><${Json} value=${request.arguments ?? {}} />
    ${request.said && html`<h2 class="caption">What the model said with it</h2><${LongText} text=${request.said} />`}`}
  <details onToggle=${(event) => setOpen(event.target.open)}><summary>The last messages</summary>${isOpen && html`<${LastMessages} run=${request.run} />`}</details>`;
}

function LastMessages({ run }) {
  const loaded = useLoaded((signal) => call(withQuery(runPath(run, "messages"), { limit: CONTEXT_MESSAGES }), { signal }).then(items), [run]);
  return whenLoaded(loaded, (messages) => (messages.length ? html`<ul class="plain">${messages.map(
    (message) => html`<li key=${message.id} class="card"><p class="who"><b>${message.sent_from || "from outside"}</b> <span class="label">${message.cause_by}</span></p>
      <${LongText} text=${message.content ?? ""} /></li>`,
  )}</ul>` : html`<p class="none">No messages.</p>`));
}

function Consequence({ request }) {
  const otherwise = request.expires
    ? request.default !== undefined && request.default !== null
      ? html` If nobody answers in time, the answer is <code>${JSON.stringify(request.default)}</code>.`
      : html` If nobody answers in time, ${request.role} is told so.`
    : null;
  if (isApproval(request)) {
    return html`<p class="note"><b>Approve</b>: the call is made with these arguments, and ${request.role} goes on with its result.
      <b> Reject</b>: nothing is called, and the model is told your reason.${otherwise}</p>`;
  }
  return html`<p class="note">The answer is recorded, and ${request.role} goes on with it. It cannot be changed afterwards.${otherwise}</p>`;
}

function useSending(request, onAnswered) {
  const [sending, setSending] = useState({ phase: "idle" });
  const send = async (value) => {
    setSending({ phase: "busy" });
    try {
      await post(runPath(request.run, "answers"), { [request.id]: value });
      keepDraft(draftName(request), null);
      setSending({ phase: "sent" });
      onAnswered?.(request);
    } catch (problem) {
      if (problem.status === 409) setSending({ phase: "taken", problem, by: await answeredBy(request) });
      else setSending({ phase: "wrong", problem, errors: fieldErrors(request, problem) });
    }
  };
  return [sending, send, () => setSending({ phase: "idle" })];
}

/** Returns the errors with pointers into the answer: those of the server point into all answers. */
function fieldErrors(request, problem) {
  const start = `/${request.id.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  const within = (pointer) => (pointer === start || pointer.startsWith(`${start}/`) ? pointer.slice(start.length) : pointer);
  const errors = problem.errors.map((one) => ({ pointer: within(String(one.pointer ?? "")), detail: String(one.detail ?? "") }));
  return errors.length ? errors : [{ pointer: "", detail: problem.detail || problem.title }];
}

/** Finds the answer that was there first in the events of the run. */
async function answeredBy(request) {
  try {
    const run = await call(runPath(request.run));
    const after = Math.max(0, (Number(run.events) || 0) - 500);
    const events = items(await call(withQuery(runPath(request.run, "events"), { after, limit: 500 })));
    const event = events.findLast((one) => one.kind === "request-answered" && one.request === request.id);
    return event ? { answer: event.answer, by: event.person ?? event.by, time: event.time } : null;
  } catch {
    return null;
  }
}

function Answer({ request, onAnswered }) {
  const [sending, send, again] = useSending(request, onAnswered);
  // Read so that the controls change with the connection.
  const offline = (state.value, !isOnline());
  if (sending.phase === "sent") return html`<p class="done-line" role="status"><span class="mark ok" aria-hidden="true">✓</span> Answered, continuing.</p>`;
  if (sending.phase === "taken") return html`<${Taken} by=${sending.by} problem=${sending.problem} />`;
  const common = { request, send, again, busy: sending.phase === "busy", offline, errors: sending.errors ?? [] };
  return html`${offline && html`<p class="note" id="offline-reason">There is no connection to the server, so nothing can be sent.</p>`}
    ${isApproval(request) ? html`<${Approval} ...${common} />` : html`<${Question} ...${common} />`}
    ${sending.phase === "wrong" && ![422].includes(sending.problem.status) && html`<${ProblemView} problem=${sending.problem} />`}`;
}

function Taken({ by, problem }) {
  return html`<div class="card" role="status"><p><b>${by ? `Answered by ${by.by ?? "somebody"} at ${clock(by.time)}` : "Answered before"}</b></p>
    ${by ? html`<${Json} value=${by.answer} />` : html`<p>${problem.detail}</p>`}</div>`;
}

function useDraft(request, name, initial) {
  const kept = useMemo(() => draft(draftName(request)) ?? {}, []);
  const [value, setValue] = useState(kept[name] ?? initial);
  const change = (changed) => {
    setValue(changed);
    keepDraft(draftName(request), { ...(draft(draftName(request)) ?? {}), [name]: changed });
  };
  return [value, change];
}

function argumentsField(request) {
  const field = request.input_schema ? fieldOf(request.input_schema) : { kind: "json" };
  const isObject = request.arguments && typeof request.arguments === "object" && !Array.isArray(request.arguments);
  return field.kind === "object" && isObject ? field : { kind: "json" };
}

function Approval({ request, send, busy, offline, errors }) {
  const [mode, setMode] = useDraft(request, "mode", "decide");
  const [reason, setReason] = useDraft(request, "reason", "");
  const field = useMemo(() => argumentsField(request), [request]);
  const original = useMemo(() => inputOf(field, request.arguments), [field]);
  const [edited, setEdited] = useDraft(request, "arguments", original);
  const [wrong, setWrong] = useState([]);
  const approve = useRef(null);
  const disabled = busy || offline;
  useKeys({
    a: () => approve.current?.focus(),
    r: () => setMode("reject"),
    e: () => setMode("edit"),
  });
  const sendEdited = (event) => {
    event.preventDefault();
    const read = valueOf(field, edited);
    setWrong(read.errors ?? []);
    if (!read.errors) send({ approve: true, arguments: read.value });
  };
  const reject = (event) => {
    event.preventDefault();
    send(reason.trim() ? { approve: false, reason: reason.trim() } : { approve: false });
  };
  const back = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    setMode("decide");
  };
  if (mode === "reject") {
    return html`<form class="controls-form" onSubmit=${reject} onKeyDown=${back}>
      <label>Reason, which the model is told<input type="text" data-first autofocus ref=${focusOnce} value=${reason} onInput=${typed(setReason)} /></label>
      <p class="controls"><button type="submit" class="bad" disabled=${disabled}>${busy ? "Sending…" : "Reject"}</button>
        <button onClick=${() => setMode("decide")}>Back</button></p></form>`;
  }
  if (mode === "edit") {
    return html`<form class="controls-form" onSubmit=${sendEdited} onKeyDown=${back}>
      <${SchemaForm} field=${field} input=${edited} onInput=${setEdited} errors=${[...wrong, ...argumentErrors(errors)]} name="Arguments" original=${original} />
      <p class="controls"><button type="submit" class="primary" disabled=${disabled}>${busy ? "Sending…" : "Approve with these arguments"}</button>
        <button onClick=${() => setEdited(original)}>Undo changes</button>
        <button onClick=${() => setMode("decide")}>Back</button></p></form>`;
  }
  return html`<div><p class="controls">
      <button class="primary armed" ref=${approve} disabled=${disabled} aria-describedby=${offline ? "offline-reason" : undefined} onClick=${() => send({ approve: true })}>${busy ? "Sending…" : "Approve"}<span class="enter-hint" aria-hidden="true"> ⏎</span></button>
      <button disabled=${disabled} onClick=${() => setMode("reject")}>Reject…</button>
      <button disabled=${disabled} onClick=${() => setMode("edit")}>Edit arguments</button></p>
    ${errors.length > 0 && html`<p class="field-error" role="alert">${errors.map((one) => one.detail).join("; ")}</p>`}</div>`;
}

const focusOnce = (element) => {
  if (element && !element.dataset.focused) {
    element.dataset.focused = "1";
    element.focus();
  }
};

const argumentErrors = (errors) =>
  errors.map((one) => ({ ...one, pointer: one.pointer.startsWith("/arguments") ? one.pointer.slice("/arguments".length) : one.pointer }));

/** Returns the field of an answer. Without a schema an answer is a text, or one of the choices. */
function answerField(request) {
  if (Array.isArray(request.choices) && request.choices.length) {
    return { kind: request.choices.length <= 6 ? "choice" : "select", choices: request.choices };
  }
  return request.schema ? fieldOf(request.schema) : { kind: "text" };
}

function Question({ request, send, again, busy, offline, errors }) {
  const drawn = useMemo(() => answerField(request), [request]);
  const [asJson, setAsJson] = useDraft(request, "asJson", drawn.kind === "json");
  const field = asJson ? { kind: "json" } : drawn;
  const [input, setInput] = useDraft(request, "input", inputOf(drawn, drawn.initial));
  const [json, setJson] = useDraft(request, "json", inputOf({ kind: "json" }, drawn.initial));
  const [wrong, setWrong] = useState([]);
  const current = asJson ? json : input;
  const change = (value) => {
    (asJson ? setJson : setInput)(value);
    setWrong([]);
    if (errors.length) again();
  };
  const isOneClick = ["choice", "boolean"].includes(field.kind);
  useEffect(() => setWrong([]), [asJson]);
  const submit = (event) => {
    event.preventDefault();
    const read = valueOf(field, current);
    setWrong(read.errors ?? []);
    if (!read.errors) send(read.value);
  };
  return html`<form class="controls-form" onSubmit=${submit}>
    <${SchemaForm} field=${field} input=${current} onInput=${change} errors=${[...wrong, ...errors]} name=${asJson ? "Answer as JSON" : "Answer"} />
    <p class="controls"><button type="submit" class="primary" disabled=${busy || offline || (isOneClick && current === undefined)}>${busy ? "Sending…" : "Answer"}</button>
      ${drawn.kind !== "json" && html`<button class="small" onClick=${() => setAsJson(!asJson)}>${asJson ? "As a form" : "As JSON"}</button>`}
      ${request.schema && html`<details class="inline"><summary>Schema</summary><${Json} value=${request.schema} /></details>`}</p>
  </form>`;
}
