// What roles and models said: messages and turns, as a thread per role or all by time.

import { html, signal, typed, useEffect, useMemo, useRef, useState } from "./dom.js";
import { call, items, PAGE, runPath, withQuery } from "./api.js";
import { readStream } from "./event_stream.js";
import { count, money, plural } from "./figures.js";
import { Logs } from "./inspector.js";
import { stepKeys, useKeys } from "./keys.js";
import { selectEvent, selection, selectRole } from "./router.js";
import { selectedRole, useThrottled } from "./run_data.js";
import { lengthOf } from "./run_model.js";
import { jsonError } from "./schema_fields.js";
import { outcomeAppearance, OutcomeMark } from "./status.js";
import { Json, jsonLine, LongText, Titled } from "./texts.js";
import { ProblemView, Skeleton, Time, useLoaded } from "./widgets.js";

const REDRAW_MS = 500;
/** Texts are read again at most so often while the run goes on. */
const RELOAD_MS = 2000;
/** How many entries are shown at first, newest last, and how many more on request. */
const SHOWN = 100;
const AGAIN_MS = 2000;
/** More is cut, because it is shown only until the reply is complete. */
const MAX_TEXT = 64 * 1024;
const SHOW_MS = 100;

/** Reads the texts of turns and messages. Turns that are open are in them, too. */
async function loadTexts(run, signal) {
  const [conversations, messages] = await Promise.all([
    call(`${runPath(run, "conversations")}?as=tree`, { signal }),
    call(withQuery(runPath(run, "messages"), { limit: PAGE, as: "tree" }), { signal }),
  ]);
  return { conversations: items(conversations), messages: new Map(items(messages).map((message) => [message.id, message])) };
}

function entriesOf(model, texts) {
  const turns = new Map();
  for (const conversation of texts?.conversations ?? []) {
    for (const turn of conversation.turns ?? []) turns.set(`${conversation.role}/${conversation.step}/${turn.turn}`, { turn, conversation });
  }
  const entries = [];
  for (const message of model.messages) entries.push({ n: message.n, time: message.time, kind: "message", role: message.from, message, text: texts?.messages.get(message.id) });
  for (const turn of model.turns) entries.push({ n: turn.n, time: turn.time, kind: "turn", role: turn.role, turn, known: turns.get(`${turn.role}/${turn.step}/${turn.turn}`) });
  return entries.sort((a, b) => a.n - b.n);
}

export function ConversationTab({ data, run }) {
  const version = useThrottled(data.version, REDRAW_MS);
  const { model } = data;
  const [shown, setShown] = useState(SHOWN);
  const slow = useThrottled(data.version, RELOAD_MS);
  const size = model.turns.length + model.messages.length;
  const [texts, problem, again] = useLoaded((signal) => loadTexts(run, signal), run.id, `${slow && size}`);
  const role = selectedRole(model);
  const entries = useMemo(() => entriesOf(model, texts), [model, texts, version]);
  const concerns = (entry) => role === null || entry.role === role || (entry.kind === "message" && entry.message.to.includes(role));
  const list = entries.filter(concerns);
  const roles = [...model.roles.keys()];
  useKeys(stepKeys(list, list.findIndex((entry) => entry.n === selection().event), (entry) => selectEvent(entry.n)));
  return html`<div class="filters"><label>Show <select value=${role ?? ""} onChange=${typed(selectRole)}><option value="">all by time</option>${roles.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      <span class="note">${plural(list.length, "entry", "entries")}${data.isWhole.value ? "" : ", earlier ones are not read yet"}</span></div>
    ${problem && html`<${ProblemView} problem=${problem} retry=${again} />`}
    ${!data.isLoaded.value && !entries.length ? html`<${Skeleton} lines=${10} />` : !list.length && html`<p class="empty">Nothing was said yet.</p>`}
    ${list.length > shown && html`<p><button onClick=${() => setShown(shown + SHOWN)}>Earlier (${list.length - shown})</button></p>`}
    <ol class="thread">${list.slice(-shown).map((entry) => (entry.kind === "turn" ? html`<${TurnEntry} key=${entry.n} ...${entry} data=${data} />` : html`<${MessageEntry} key=${entry.n} ...${entry} run=${run} />`))}</ol>
    ${run.state === "running" && html`<${Live} run=${run} data=${data} role=${role} />`}`;
}

/** An entry, which is brought into view when it is selected. */
function Said({ n, kind, children }) {
  const isChosen = selection().event === n;
  const element = useRef(null);
  useEffect(() => {
    if (isChosen) element.current.scrollIntoView({ block: "nearest" });
  }, [isChosen]);
  return html`<li ref=${element} class=${`said ${kind}${isChosen ? " chosen" : ""}`}>${children}</li>`;
}

function MessageEntry({ run, n, time, message, text }) {
  const data = text?.instruct_content?.value;
  const loadAll = text?.truncated && (() => call(runPath(run, "messages", message.id)).then((whole) => whole.content));
  return html`<${Said} n=${n} kind="message"><p class="who"><b>${message.from || "from outside"}</b> <span class="note">→ ${[...message.to, ...(message.outside ?? [])].join(", ") || "nobody"}</span> <span class="label">${message.cause}</span>
      <span class="when note"><${Time} at=${time} /></span></p>
    ${text && html`<${LongText} text=${text.content ?? ""} tree=${text.tree} loadAll=${loadAll} />`}
    ${data !== undefined && html`<details><summary>Data</summary><${Json} value=${data} /></details>`}<//>`;
}

function TurnEntry({ n, time, turn, known, data }) {
  const host = data.model.calls.findLast((one) => one.event.role === turn.role && one.event.action === "turn" && one.n <= n);
  const tokens = host?.event.tokens;
  const isRecorded = host?.event.source === "recorded";
  return html`<${Said} n=${n} kind="turn"><p class="who"><b>${turn.role}</b> <button class="link note" onClick=${() => selectEvent(n)}>turn ${turn.turn}</button> <span class="note">${turn.model} · ${turn.finish}${
    tokens ? ` · ${tokens.input ?? 0} in, ${tokens.output ?? 0} out` : ""} · ${isRecorded ? "recorded, not paid" : money(turn.cost)}</span><span class="when note"><${Time} at=${time} /></span></p>
    ${known?.conversation.replacements?.filter((one) => one.turn === turn.turn).map((one) => html`<${Replacement} one=${one} />`)}
    ${turn.finish === "length" && html`<p class="omitted">The reply was truncated.</p>`}
    ${known?.turn.reasoning && html`<details><summary>Reasoning</summary><${LongText} text=${known.turn.reasoning} className="reasoning" /></details>`}
    ${known?.turn.text && html`<${LongText} text=${known.turn.text} tree=${known.turn.tree} />`}
    ${(turn.calls ?? []).map((one) => html`<${ToolCall} key=${one.tool_call} turn=${turn} one=${one} known=${known?.turn.calls?.find((call) => call.tool_call === one.tool_call)} data=${data} />`)}
    ${known?.turn.misfit && html`<p class="omitted">Not accepted: ${known.turn.misfit}</p>`}<//>`;
}

/** What the model was not sent any more, and what it was sent in its place. */
function Replacement({ one }) {
  const what = one.messages ? `messages ${one.messages.join(" to ")} were replaced` : "no message could be replaced";
  return html`<details><summary>Before this turn, ${what} <span class="note">${one.how} · about ${count(one.tokens_after)} tokens instead of ${count(one.tokens_before)} · ${money(one.cost)}</span></summary>
    <${LongText} text=${one.summary ?? one.failure ?? ""} /></details>`;
}

const OUTCOME_OF = {
  returned: "finished", "fault-returned": "failed", rejected: "rejected", declined: "declined", failed: "failed", "waits-for-human": "asked", running: "running", pending: "pending",
};

function ToolCall({ turn, one, known, data }) {
  const { model } = data;
  const isOf = (other) => other.role === turn.role && other.turn === turn.turn && (other.toolCall ?? other.tool_call) === one.tool_call;
  const attempts = model.attempts.filter((other) => isOf(other) && other.n > turn.n);
  // One that used a recorded result says nothing of what it took.
  const attempt = attempts.findLast((other) => other.outcome !== "replayed") ?? attempts.at(-1);
  const rejected = data.events.find((event) => event.kind === "tool-rejected" && event.n > turn.n && isOf(event));
  const outcome = known?.outcome ? (OUTCOME_OF[known.outcome.kind] ?? "running") : rejected ? "rejected" : (attempt?.outcome ?? "pending");
  const server = one.tool.includes("/") ? model.mcp.get(one.tool.split("/")[0]) : null;
  const cost = known?.cost || attempt?.cost;
  const result = known?.outcome?.content ?? known?.outcome?.reason ?? known?.outcome?.fault?.message ?? attempt?.output?.content ?? attempt?.fault?.message ?? rejected?.reason;
  const isFromRecord = attempt && model.calls.some((call) => call.n > attempt.n && call.n < (attempt.endEvent ?? Infinity) && call.event.role === turn.role && call.event.source === "recorded");
  return html`<details class=${`tool ${outcomeAppearance(outcome).kind}`}>
    <summary><${OutcomeMark} outcome=${outcome} /> <b>${one.tool}</b> <code class="one-line">${jsonLine(known?.arguments ?? "", 100)}</code> <span class="note">${attempt && lengthOf(attempt)}${cost ? ` · ${money(cost)}` : ""}${isFromRecord ? " · recorded, not paid" : ""}</span></summary>
    ${one.tool.includes("/") && html`<p class="note">of the server ${one.tool.split("/")[0]}${server?.name ? ` (${server.name} ${server.version ?? ""})` : ""}</p>`}
    <${Titled} title="Arguments" text=${known && pretty(known.arguments)} className="json" />
    <${Titled} title="Arguments that a person set" value=${known?.edited_arguments} />
    ${known?.decided_by && html`<p class="note">decided by ${known.decided_by}</p>`}
    <${Titled} title="Result" text=${result} />
    <${Titled} title="Data" value=${known?.outcome?.data} />
    ${attempt?.logs && html`<${Logs} event=${attempt.logs} />`}
    ${known?.nested?.length > 0 && html`<h4>Calls of its code</h4><${Nested} calls=${known.nested} />`}
    ${attempt && html`<p><button class="link" onClick=${() => selectEvent(attempt.n)}>Select the attempt</button></p>`}</details>`;
}

function Nested({ calls }) {
  return html`<ul class="plain">${calls.map((one) => html`<li key=${one.number}><${OutcomeMark} outcome=${OUTCOME_OF[one.outcome?.kind] ?? "pending"} /> <b>${one.tool}</b> <code class="one-line">${jsonLine(one.arguments, 100)}</code>${one.nested?.length > 0 && html`<${Nested} calls=${one.nested} />`}</li>`)}</ul>`;
}

const pretty = (text) => (jsonError(text) ? String(text) : JSON.stringify(JSON.parse(text), null, 2));

function Live({ run, data, role }) {
  const live = useMemo(() => new LiveText(run, (name) => data.model.roles.get(name)?.calls ?? 0), [run.id]);
  useEffect(() => {
    live.start();
    return () => live.stop();
  }, [live]);
  // The record has the text of a turn that ended.
  const size = (useThrottled(data.version, REDRAW_MS), data.model.calls.length);
  useEffect(() => live.forgetRecorded(), [size]);
  const shown = live.texts.value.filter((open) => role === null || open.role === role);
  return html`${live.isElsewhere.value && html`<p class="note">Another server works on this run. What its models write is shown once it is complete.</p>`}
    <ol class="thread">${shown.map((open) => html`<li key=${`${open.role}/${open.turn}/${open.attempt}`} class="said turn writing"><p class="who"><b>${open.role}</b> <span class="note">turn ${open.turn}, writes</span></p><pre class="prose">${open.text}<span class="caret" aria-hidden="true"></span></pre></li>`)}</ol>`;
}

const encoder = new TextEncoder();

/** What models write as it arrives. It is not durable: the text of a finished call is what the record says. */
class LiveText {
  /** `callsOf(role)` is how many calls of the role are recorded. */
  constructor(run, callsOf) {
    this.callsOf = callsOf;
    this.path = runPath(run, "stream");
    /** The texts of open calls: `{role, turn, attempt, text}`. */
    this.texts = signal([]);
    /** Whether another server works on the run, which alone sees the texts. */
    this.isElsewhere = signal(false);
    this.calls = new Map();
    this.timer = 0;
    this.stopped = new AbortController();
  }

  async start() {
    while (!this.stopped.signal.aborted) {
      try {
        const ended = await readStream(this.path, { signal: this.stopped.signal, onOpen: () => (this.isElsewhere.value = false), onMessage: (message) => this.take(message) });
        if (ended === "ended") return;
      } catch (problem) {
        if (problem.status >= 400 && problem.status < 500) return;
      }
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  stop() {
    this.stopped.abort();
    clearTimeout(this.timer);
  }

  take({ event, data }) {
    if (event !== "text" && event !== "source") return;
    let piece;
    try {
      piece = JSON.parse(data);
    } catch {
      return;
    }
    if (event === "source") return (this.isElsewhere.value = piece.live === false);
    const key = `${piece.role}/${piece.turn}/${piece.attempt}`;
    const open = this.calls.get(key) ?? { role: piece.role, turn: piece.turn, attempt: piece.attempt, text: "", bytes: 0, callsBefore: this.callsOf(piece.role) };
    const size = encoder.encode(piece.text ?? "").length;
    // The first message of an open call has everything so far; a repeated one has nothing new.
    if (piece.offset === 0) {
      open.text = piece.text ?? "";
      open.bytes = size;
    } else if (piece.offset === open.bytes) {
      open.text += piece.text;
      open.bytes += size;
    }
    if (open.text.length > MAX_TEXT) open.text = open.text.slice(-MAX_TEXT);
    this.calls.set(key, open);
    this.show();
  }

  /** Forgets the texts of calls that are complete: the record has them. */
  forgetRecorded() {
    for (const [key, open] of this.calls) if (this.callsOf(open.role) > open.callsBefore) this.calls.delete(key);
    this.show();
  }

  show() {
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.texts.value = [...this.calls.values()].map((open) => ({ ...open }));
    }, SHOW_MS);
  }
}
