// Two texts and what differs between them. Long equal parts are folded.

import { html, useState } from "./dom.js";
import { plural } from "./figures.js";

const CONTEXT = 3;
const MAX_LINES = 3000;
/** Longer texts are compared without looking for the smallest difference. */
const MAX_CELLS = 4_000_000;

function groups(lines) {
  const shown = new Uint8Array(lines.length);
  lines.forEach((line, at) => {
    if (line.kind === "same") return;
    for (let near = Math.max(0, at - CONTEXT); near <= Math.min(lines.length - 1, at + CONTEXT); near += 1) shown[near] = 1;
  });
  const found = [];
  lines.forEach((line, at) => {
    const last = found.at(-1);
    if (last && last.isShown === Boolean(shown[at])) last.lines.push(line);
    else found.push({ isShown: Boolean(shown[at]), lines: [line] });
  });
  return found;
}

function lineDifference(before, after) {
  const old = before.split("\n");
  const fresh = after.split("\n");
  let start = 0;
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < fresh.length - start && old[old.length - 1 - end] === fresh[fresh.length - 1 - end]) end += 1;
  const middle = compare(old.slice(start, old.length - end), fresh.slice(start, fresh.length - end));
  const same = (text) => ({ kind: "same", text });
  return [...old.slice(0, start).map(same), ...middle, ...old.slice(old.length - end).map(same)];
}

function compare(old, fresh) {
  const removed = old.map((text) => ({ kind: "old", text }));
  const added = fresh.map((text) => ({ kind: "new", text }));
  if (!old.length || !fresh.length || old.length * fresh.length > MAX_CELLS) return [...removed, ...added];
  const width = fresh.length + 1;
  const longest = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = fresh.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = old[i] === fresh[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < old.length && j < fresh.length) {
    if (old[i] === fresh[j]) {
      lines.push({ kind: "same", text: old[i] });
      i += 1;
      j += 1;
    } else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) lines.push(removed[i++]);
    else lines.push(added[j++]);
  }
  return [...lines, ...removed.slice(i), ...added.slice(j)];
}

const SIGN = { same: " ", old: "−", new: "+" };

export function TextDifference({ before, after }) {
  const lines = lineDifference(before, after).slice(0, MAX_LINES);
  if (lines.every((line) => line.kind === "same")) return html`<p class="none">No difference.</p>`;
  return html`<pre class="difference" tabindex="0">${groups(lines).map((group, at) => (group.isShown ? group.lines.map((line) => html`<${Line} line=${line} />`) : html`<${Folded} key=${at} lines=${group.lines} />`))}</pre>`;
}

const Line = ({ line }) => html`<span class=${`line ${line.kind}`}><span class="sign">${SIGN[line.kind]}</span>${line.text}${"\n"}</span>`;

function Folded({ lines }) {
  const [isOpen, setOpen] = useState(false);
  if (isOpen) return html`${lines.map((line) => html`<${Line} line=${line} />`)}`;
  return html`<button class="fold-line" onClick=${() => setOpen(true)}>${plural(lines.length, "equal line")}</button>`;
}
