// The symbol, the word and the colour of states. The colour never stands alone.

import { html } from "./dom.js";

const STATUSES = {
  running: ["live", "●", "running"],
  queued: ["cut", "◌", "queued"],
  done: ["ok", "✓", "done"],
  waiting: ["held", "?", "waiting"],
  "waiting-for-time": ["held", "◷", "waiting"],
  "waiting-for-mail": ["held", "✉", "waiting"],
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

const named = ([kind, glyph, word]) => ({ kind, glyph, word });

export const appearance = (status) => named(STATUSES[status] ?? ["cut", "◌", String(status ?? "unknown")]);
export const outcomeAppearance = (outcome) => named(OUTCOMES[outcome] ?? OUTCOMES.running);

/** The status that is shown: a run in the queue is queued, whatever it was before. */
export function statusOf(run) {
  if (["queued", "refused", "running"].includes(run.state)) return run.state;
  if (run.status === "waiting" && !run.requests) return run.timer ? "waiting-for-time" : "waiting-for-mail";
  return run.status ?? run.state;
}

const Tag = ({ kind, glyph, word, isMoving }) =>
  html`<span class=${`tag ${kind}`}><span class=${isMoving ? "glyph pulse" : "glyph"} aria-hidden="true">${glyph}</span> ${word}</span>`;

export const StatusTag = ({ status }) => html`<${Tag} ...${appearance(status)} isMoving=${status === "running"} />`;

export function OutcomeMark({ outcome, withWord }) {
  const { kind, glyph, word } = outcomeAppearance(outcome);
  if (withWord) return html`<${Tag} ...${{ kind, glyph, word }} />`;
  return html`<span class=${`mark ${kind}`} title=${word}><span aria-hidden="true">${glyph}</span><span class="sr">${word}</span></span>`;
}
