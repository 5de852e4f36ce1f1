// What a screen reader is told without being asked: one region, at most one text each five seconds.

import { html, signal } from "./dom.js";

const PAUSE_MS = 5000;
/** More than this would be news of the past when it is read. */
const MAX_WAITING = 3;

const spoken = signal("");
let waiting = [];
let timer = 0;

function speak() {
  timer = 0;
  const next = waiting.shift();
  if (next === undefined) return;
  spoken.value = next;
  timer = setTimeout(speak, PAUSE_MS);
}

/** Announces a text politely. */
export function announce(text) {
  if (waiting.includes(text)) return;
  waiting = [...waiting, text].slice(-MAX_WAITING);
  if (!timer) speak();
}

/** The region. There is one in the page. */
export function LiveRegion() {
  return html`<div class="sr" role="status" aria-live="polite">${spoken.value}</div>`;
}
