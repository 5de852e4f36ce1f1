// Two texts and what differs between them. Long equal parts are folded.

import { html, useState } from "./dom.js";
import { lineDifference } from "./line_difference.js";
import { plural } from "./figures.js";

const CONTEXT = 3;
const MAX_LINES = 3000;

/** Groups equal lines that are far from any difference. */
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
  return html`<button type="button" class="fold-line" onClick=${() => setOpen(true)}>${plural(lines.length, "equal line")}</button>`;
}
