// The symbol, the word and the colour of states. The colour never stands alone.

import { html } from "./dom.js";

const STATUSES = {
  running: ["live", "●", "running"],
  queued: ["cut", "◌", "queued"],
  done: ["ok", "✓", "done"],
  waiting: ["held", "?", "waiting"],
  paused: ["held", "‖", "paused"],
  "out-of-budget": ["held", "$", "out of budget"],
  "step-limit": ["held", "↧", "step limit"],
  failed: ["bad", "✕", "failed"],
  "in-doubt": ["bad", "‼", "in doubt"],
  stalled: ["bad", "⊟", "stalled"],
  interrupted: ["cut", "↯", "interrupted"],
  cancelled: ["cut", "⊘", "cancelled"],
  refused: ["bad", "✕", "refused"],
};

/** Returns how a status is shown: `{kind, glyph, word}`. */
export function appearance(status) {
  const [kind, glyph, word] = STATUSES[status] ?? ["cut", "◌", String(status ?? "unknown")];
  return { kind, glyph, word };
}

/** Returns the status that is shown of a run: a run that waits in the queue is queued, whatever it was before. */
export function statusOf(run) {
  if (run.state === "queued") return "queued";
  if (run.state === "refused") return "refused";
  if (run.state === "running") return "running";
  return run.status ?? run.state;
}

/** Shows a status as a symbol and a word. */
export function StatusTag({ status, word }) {
  const shown = appearance(status);
  return html`<span class=${`tag ${shown.kind}`}><span class=${status === "running" ? "glyph pulse" : "glyph"} aria-hidden="true"
    >${shown.glyph}</span> ${word ?? shown.word}</span>`;
}

/** The states of attempts, tool calls and bars. */
const OUTCOMES = {
  running: ["live", "●", "running"],
  finished: ["ok", "✓", "finished"],
  failed: ["bad", "✕", "failed"],
  asked: ["held", "?", "waits for an answer"],
  suspended: ["held", "$", "suspended"],
  retried: ["cut", "↻", "failed, tried again"],
  interrupted: ["cut", "↯", "interrupted"],
  replayed: ["ok", "✓", "recorded result used"],
  rejected: ["bad", "✕", "rejected"],
  declined: ["cut", "⊘", "declined"],
  pending: ["cut", "◌", "not begun"],
};

/** Returns how the outcome of an attempt is shown. */
export function outcomeAppearance(outcome) {
  const [kind, glyph, word] = OUTCOMES[outcome] ?? OUTCOMES.running;
  return { kind, glyph, word };
}

/** Shows an outcome as a symbol, with its word for those who do not see it. */
export function OutcomeMark({ outcome, withWord }) {
  const { kind, glyph, word } = outcomeAppearance(outcome);
  if (withWord) return html`<span class=${`tag ${kind}`}><span aria-hidden="true">${glyph}</span> ${word}</span>`;
  return html`<span class=${`mark ${kind}`} title=${word}><span aria-hidden="true">${glyph}</span><span class="sr">${word}</span></span>`;
}
