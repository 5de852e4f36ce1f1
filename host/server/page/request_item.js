// One question of a run in full: what is asked, what it is about, what happens on yes and no, and the controls.

import { html, typed, useEffect, useMemo, useRef, useState } from "./dom.js";
import { call, eventsAfter, items, PAGE, post, runPath, withQuery } from "./api.js";
import { isOnline } from "./connection.js";
import { clock } from "./figures.js";
import { useKeys } from "./keys.js";
import { runAddress, Link } from "./router.js";
import { fieldOf, inputOf, pointerTo, valueOf } from "./schema_fields.js";
import { SchemaForm } from "./schema_form.js";
import { draft, keepDraft } from "./storage.js";
import { requestKey } from "./store.js";
import { addressOf, may } from "./token.js";
import { Json, LongText, Titled } from "./texts.js";
import { ProblemView, Time, useGet, whenLoaded } from "./widgets.js";

const CONTEXT_MESSAGES = 3;

const isApproval = (request) => typeof request.tool === "string";
const draftName = (request) => `answer.${requestKey(request)}`;

export function RequestItem({ request, onAnswered, isInRun }) {
  return html`<article class="panel held item" aria-label=${`Question of ${request.role}`}>
    <p class="who"><b>${request.role}</b>${request.action && request.action !== "answer" && html` <span class="note">${request.action}</span>`}
      ${!isInRun && html` in <${Link} to=${runAddress(request)}>${addressOf(request)}<//>`}
      <span class="when note"><${Deadline} request=${request} /></span></p>
    <div class="question"><${LongText} text=${request.question ?? ""} /></div>
    <${About} request=${request} />
    <${Consequence} request=${request} />
    ${may("answer")
      ? html`<${Answer} key=${requestKey(request)} request=${request} onAnswered=${onAnswered} />`
      : html`<p class="note">This token may not answer.</p>`}
  </article>`;
}

const Deadline = ({ request: { opened, expires } }) =>
  html`${opened && html`asked <${Time} at=${opened} />`}${expires && html`${opened ? ", " : ""}<b>expires <${Time} at=${expires} /></b>`}`;

/** What a question is about: the call that is to be made, or the messages that the role works on. */
function About({ request }) {
  const [isOpen, setOpen] = useState(false);
  const news = (request.news ?? []).slice(-CONTEXT_MESSAGES);
  return html`${isApproval(request)
      ? html`<h2 class="caption">Calls the tool</h2><p><code class="tool-name">${request.tool}</code></p><${Titled} as="h2" title="With the arguments" value=${request.arguments ?? {}} />
        <${Titled} as="h2" title="What the model said with it" text=${request.said} />`
      : news.length > 0 && html`<h2 class="caption">About</h2><ul class="plain">${news.map((message) => html`<${News} key=${message.id} run=${request} message=${message} />`)}</ul>`}
    ${request.server && html`<p>The MCP server <b>${request.server}</b> asks before it answers a call.${request.url && html` Something is to be done at <code>${request.url}</code>; nobody has opened that address.`}</p>`}
    <details onToggle=${(event) => setOpen(event.target.open)}><summary>The last ${CONTEXT_MESSAGES} messages</summary>${isOpen && html`<${LastMessages} run=${request} />`}</details>`;
}

const MessageCard = ({ from, cause, text, tree }) =>
  html`<li class="card"><p class="who"><b>${from || "from outside"}</b> <span class="label">${cause}</span></p><${LongText} text=${text ?? ""} tree=${tree} /></li>`;

function News({ run, message: { id, from, cause_by: cause, content } }) {
  const [whole] = useGet(`${runPath(run, "messages", id)}?as=tree`);
  return html`<${MessageCard} from=${from} cause=${cause} text=${whole?.content ?? content} tree=${whole?.tree} />`;
}

function LastMessages({ run }) {
  const loaded = useGet(withQuery(runPath(run, "messages"), { limit: CONTEXT_MESSAGES, as: "tree" }));
  return whenLoaded(loaded, (messages) => (items(messages).length ? html`<ul class="plain">${items(messages).map((one) => html`<${MessageCard} key=${one.id} from=${one.sent_from} cause=${one.cause_by} text=${one.content} tree=${one.tree} />`)}</ul>`
    : html`<p class="none">No messages.</p>`));
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
      await post(runPath(request, "answers"), { [request.id]: value });
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

/** The pointers of the server point into all answers, these into one. */
function fieldErrors(request, problem) {
  const start = pointerTo("", request.id);
  const within = (pointer) => (pointer === start || pointer.startsWith(`${start}/`) ? pointer.slice(start.length) : pointer);
  const errors = problem.errors.map((one) => ({ pointer: within(String(one.pointer ?? "")), detail: String(one.detail ?? "") }));
  return errors.length ? errors : [{ pointer: "", detail: problem.detail || problem.title }];
}

/** Finds the answer that was there first. */
async function answeredBy(request) {
  try {
    const run = await call(runPath(request));
    const events = await eventsAfter(request, Math.max(0, (Number(run.events) || 0) - PAGE));
    const event = events.findLast((one) => one.kind === "request-answered" && one.request === request.id);
    return event ? { answer: event.answer, by: event.person ?? event.by, time: event.time } : null;
  } catch {
    return null;
  }
}

function Answer({ request, onAnswered }) {
  const [sending, send, again] = useSending(request, onAnswered);
  const offline = !isOnline();
  if (sending.phase === "sent") return html`<p class="done-line" role="status"><span class="mark ok" aria-hidden="true">✓</span> Answered, continuing.</p>`;
  if (sending.phase === "taken") return html`<${Taken} by=${sending.by} problem=${sending.problem} />`;
  const common = { request, send, again, busy: sending.phase === "busy", offline, errors: sending.errors ?? [] };
  return html`${offline && html`<p class="note" id="offline-reason">There is no connection to the server, so nothing can be sent.</p>`}
    ${isApproval(request) ? html`<${Approval} ...${common} />` : html`<${Question} ...${common} />`}
    ${sending.phase === "wrong" && sending.problem.status !== 422 && html`<${ProblemView} problem=${sending.problem} />`}`;
}

function Taken({ by, problem }) {
  return html`<div class="card" role="status"><p><b>${by ? `Answered by ${by.by ?? "somebody"} at ${clock(by.time)}` : "Answered before"}</b></p>
    ${by ? html`<${Json} value=${by.answer} />` : html`<p>${problem.detail}</p>`}</div>`;
}

/** Returns `[value, change]` of what is put in for a request, which this tab keeps under a name. */
function useDraft(request, name, initial) {
  const [values, setValues] = useState(() => draft(draftName(request)) ?? {});
  const change = (changed) => {
    setValues((before) => ({ ...before, [name]: changed }));
    keepDraft(draftName(request), { ...draft(draftName(request)), [name]: changed });
  };
  return [values[name] ?? initial, change];
}

function argumentsField(request) {
  const field = request.input_schema ? fieldOf(request.input_schema) : { kind: "json" };
  const isObject = request.arguments && typeof request.arguments === "object" && !Array.isArray(request.arguments);
  return field.kind === "object" && isObject ? field : { kind: "json" };
}

/** Returns `[submit, errors]` of a form: what was put in is sent if it can be read. */
function useChecked(field, input, send) {
  const [wrong, setWrong] = useState([]);
  useEffect(() => setWrong((before) => (before.length ? [] : before)), [field.kind, input]);
  const submit = (event) => {
    event.preventDefault();
    const read = valueOf(field, input);
    setWrong(read.errors ?? []);
    if (!read.errors) send(read.value);
  };
  return [submit, wrong];
}

function Approval({ request, send, busy, offline, errors }) {
  const [mode, setMode] = useDraft(request, "mode", "decide");
  const [reason, setReason] = useDraft(request, "reason", "");
  const field = useMemo(() => argumentsField(request), [request]);
  const original = useMemo(() => inputOf(field, request.arguments), [field]);
  const [edited, setEdited] = useDraft(request, "arguments", original);
  const [sendEdited, wrong] = useChecked(field, edited, (value) => send({ approve: true, arguments: value }));
  const approve = useRef(null);
  const disabled = busy || offline;
  useKeys({
    a: () => approve.current?.focus(),
    r: () => setMode("reject"),
    e: () => setMode("edit"),
  });
  const reject = (event) => {
    event.preventDefault();
    send({ approve: false, ...(reason.trim() ? { reason: reason.trim() } : {}) });
  };
  const escape = (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    setMode("decide");
  };
  const form = (submit, fields, word, kind, more) => html`<form class="controls-form" onSubmit=${submit} onKeyDown=${escape}>${fields}
    <p class="controls"><button type="submit" class=${kind} disabled=${disabled}>${busy ? "Sending…" : word}</button>${more}<button onClick=${() => setMode("decide")}>Back</button></p></form>`;
  if (mode === "reject") {
    return form(reject, html`<label>Reason, which the model is told<input type="text" data-first autofocus ref=${focusOnce} value=${reason} onInput=${typed(setReason)} /></label>`, "Reject", "bad");
  }
  if (mode === "edit") {
    const fields = html`<${SchemaForm} field=${field} input=${edited} onInput=${setEdited} errors=${[...wrong, ...argumentErrors(errors)]} name="Arguments" original=${original} />`;
    return form(sendEdited, fields, "Approve with these arguments", "primary", html`<button onClick=${() => setEdited(original)}>Undo changes</button>`);
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

/** Without a schema an answer is a text, or one of the choices. */
function answerField(request) {
  if (request.choices?.length) return { kind: "choice", choices: request.choices };
  return request.schema ? fieldOf(request.schema) : { kind: "text" };
}

function Question({ request, send, again, busy, offline, errors }) {
  const drawn = useMemo(() => answerField(request), [request]);
  const [asJson, setAsJson] = useDraft(request, "asJson", drawn.kind === "json");
  const field = asJson ? { kind: "json" } : drawn;
  const first = useMemo(() => inputOf(field, drawn.initial), [drawn, asJson]);
  const [input, setInput] = useDraft(request, asJson ? "json" : "input", first);
  const [submit, wrong] = useChecked(field, input, send);
  const change = (value) => {
    setInput(value);
    if (errors.length) again();
  };
  return html`<form class="controls-form" onSubmit=${submit}>
    <${SchemaForm} field=${field} input=${input} onInput=${change} errors=${[...wrong, ...errors]} name=${asJson ? "Answer as JSON" : "Answer"} />
    <p class="controls"><button type="submit" class="primary" disabled=${busy || offline || (field.kind === "choice" && input === undefined)}>${busy ? "Sending…" : "Answer"}</button>
      ${drawn.kind !== "json" && html`<button class="small" onClick=${() => setAsJson(!asJson)}>${asJson ? "As a form" : "As JSON"}</button>`}
      ${request.schema && html`<details class="inline"><summary>Schema</summary><${Json} value=${request.schema} /></details>`}</p>
  </form>`;
}
