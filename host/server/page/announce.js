// What happened, told at the edge of the page to those who see it, and in one region, at most one text each five seconds, to
// those who use a screen reader.

import { html, signal } from "./dom.js";

const PAUSE_MS = 5000;
/** More than this would be news of the past when it is read. */
const MAX_WAITING = 3;
const SHOWN_MS = 6000;
const MAX_SHOWN = 4;

const spoken = signal("");
const shown = signal([]);
let waiting = [];
let timer = 0;
let lastId = 0;

function speak() {
  timer = 0;
  const next = waiting.shift();
  if (next === undefined) return;
  spoken.value = next;
  timer = setTimeout(speak, PAUSE_MS);
}

/** Tells something to those who use a screen reader. */
export function announce(text) {
  if (waiting.includes(text)) return;
  waiting = [...waiting, text].slice(-MAX_WAITING);
  if (!timer) speak();
}

/** Tells something to everybody. What is bad stays until it is closed. */
export function toast(text, { kind = "ok", detail = "" } = {}) {
  lastId += 1;
  const id = lastId;
  shown.value = [...shown.value, { id, text, kind, detail }].slice(-MAX_SHOWN);
  announce(text);
  if (kind !== "bad") setTimeout(() => dismiss(id), SHOWN_MS);
}

export function toastProblem(what, problem) {
  const detail = [problem.detail, problem.hint].filter(Boolean).join(" ");
  toast(`${what}: ${problem.title ?? problem.message}`, { kind: "bad", detail });
}

function dismiss(id) {
  shown.value = shown.value.filter((one) => one.id !== id);
}

export function Toasts() {
  return html`<div class="toasts">${shown.value.map(
    (one) => html`<div key=${one.id} class=${`toast ${one.kind}`}>
      <div><b>${one.text}</b>${one.detail && html`<p>${one.detail}</p>`}</div>
      <button class="close" aria-label="Close" onClick=${() => dismiss(one.id)}>✕</button>
    </div>`,
  )}</div><div class="sr" role="status" aria-live="polite">${spoken.value}</div>`;
}
