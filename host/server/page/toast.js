// What happened to something that was asked for, at the edge of the page.

import { html, signal } from "./dom.js";
import { announce } from "./announce.js";

const SHOWN_MS = 6000;
const MAX_SHOWN = 4;

const shown = signal([]);
let next = 0;

/** Shows a text for a while; a problem stays until it is closed. */
export function toast(text, { kind = "ok", detail = "", stays = kind === "bad" } = {}) {
  next += 1;
  const id = next;
  shown.value = [...shown.value, { id, text, kind, detail }].slice(-MAX_SHOWN);
  announce(text);
  if (!stays) setTimeout(() => dismiss(id), SHOWN_MS);
}

/** Shows why something was not done. */
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
      <button type="button" class="close" aria-label="Close" onClick=${() => dismiss(one.id)}>✕</button>
    </div>`,
  )}</div>`;
}
