// Where times are on the timeline. Idle spans are folded, unless somebody wants the real time or a logarithmic one.

import { duration, shortDuration } from "./figures.js";
import { endOf } from "./run_model.js";

/** Spans in which nothing is at work are folded if they are longer. */
const FOLDED_AFTER_MS = 10_000;
/** The length of a fold, as a share of everything else. */
const FOLD_SHARE = 0.03;
const LOG_UNIT_MS = 100;

/** The spans in which something is at work, without overlaps. */
function activeSpans(model, end) {
  const all = [];
  for (const attempt of model.attempts) all.push([attempt.start, endOf(attempt, end)]);
  all.sort((a, b) => a[0] - b[0]);
  const spans = [];
  for (const [from, to] of all) {
    const last = spans.at(-1);
    if (last && from <= last[1] + FOLDED_AFTER_MS) last[1] = Math.max(last[1], to);
    else spans.push([from, to]);
  }
  return spans;
}

/** Returns a scale from times to 0…1 and back, with the spans that are folded. */
export function makeScale(model, mode, end) {
  const start = Number.isFinite(model.startedAt) ? model.startedAt : end;
  const length = Math.max(1, end - start);
  if (mode === "log") {
    const whole = Math.log1p(length / LOG_UNIT_MS);
    return {
      start, end, folds: [],
      at: (time) => Math.log1p(Math.max(0, time - start) / LOG_UNIT_MS) / whole,
      time: (at) => start + Math.expm1(at * whole) * LOG_UNIT_MS,
    };
  }
  const spans = mode === "real" ? [[start, start + length]] : activeSpans(model, end);
  const pieces = [];
  let at = start;
  for (const [from, to] of [...spans, [end, end]]) {
    if (from - at > FOLDED_AFTER_MS) pieces.push({ from: at, to: from, isFold: true });
    else if (from > at) pieces.push({ from: at, to: from });
    if (to > from) pieces.push({ from, to });
    at = Math.max(at, to);
  }
  if (!pieces.length) pieces.push({ from: start, to: Math.max(end, start + 1) });
  const busy = pieces.reduce((sum, piece) => sum + (piece.isFold ? 0 : piece.to - piece.from), 0);
  const fold = Math.max(1, busy * FOLD_SHARE);
  const total = pieces.reduce((sum, piece) => sum + (piece.isFold ? fold : piece.to - piece.from), 0) || 1;
  let sum = 0;
  for (const piece of pieces) {
    piece.at = sum / total;
    sum += piece.isFold ? fold : piece.to - piece.from;
    piece.end = sum / total;
  }
  const pieceOf = (value, from, to) => {
    let low = 0;
    let high = pieces.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (pieces[middle][from] <= value) low = middle;
      else high = middle - 1;
    }
    return { ...pieces[low], share: (value - pieces[low][from]) / (pieces[low][to] - pieces[low][from] || 1) };
  };
  return {
    start, end, pieces,
    folds: pieces.filter((piece) => piece.isFold),
    at: (time) => {
      const piece = pieceOf(time, "from", "to");
      return piece.at + Math.min(1, Math.max(0, piece.share)) * (piece.end - piece.at);
    },
    time: (at) => {
      const piece = pieceOf(at, "at", "end");
      return piece.from + Math.min(1, Math.max(0, piece.share)) * (piece.to - piece.from);
    },
  };
}

const STEPS_MS = [100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000];
const LOG_STEPS_MS = [0, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000];

/** Round times for the axis, about `wanted`, and none beside a fold. */
export function ticks(scale, from, to, wanted) {
  const gap = (to - from) / wanted;
  const found = [];
  // Ticks of less than a minute would look the same if only their minutes were written.
  let write = shortDuration;
  const add = (since) => {
    const at = scale.at(scale.start + since);
    const isFree = at >= from && at <= to && at - (found.at(-1)?.at ?? -1) >= gap * 0.9 && !scale.folds.some((fold) => Math.abs((fold.at + fold.end) / 2 - at) < gap * 0.6);
    if (isFree) found.push({ at, time: scale.start + since, text: since ? write(since).replace(".0", "") : "0" });
  };
  if (!scale.pieces) {
    LOG_STEPS_MS.forEach(add);
    return found;
  }
  const seen = scale.pieces.filter((piece) => !piece.isFold && piece.end >= from && piece.at <= to);
  const length = seen.reduce((sum, piece) => sum + Math.min(scale.time(to), piece.to) - Math.max(scale.time(from), piece.from), 0);
  const step = STEPS_MS.find((one) => length / one <= wanted) ?? STEPS_MS.at(-1);
  if (step % 60_000) write = duration;
  for (const piece of seen) {
    const last = Math.min(scale.time(to), piece.to) - scale.start;
    for (let since = Math.ceil((Math.max(scale.time(from), piece.from) - scale.start) / step) * step; since <= last; since += step) add(since);
  }
  return found;
}
