// How texts are shown that somebody wrote: long ones folded, Markdown as the tree that the server delivers, values as JSON. No
// markup is parsed here, and what is not in the closed set of elements is shown as its text.

import { html, useState } from "./dom.js";
import { oneLine } from "./visible.js";

const FOLDED_LINES = 12;
const FOLDED_CHARS = 1600;
const CUT_CHARS = 64 * 1024;
/** How deep a tree may be. Deeper ones are shown as text. */
const MAX_DEPTH = 40;
/** The schemes that links may have. The server leaves out others; this is checked once more. */
const SAFE = /^(https?:\/\/|mailto:)/i;

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

export function CopyButton({ text, label = "Copy" }) {
  const [done, setDone] = useState("");
  const click = async (event) => {
    event.stopPropagation();
    setDone((await copy(text)) ? "Copied" : "Not allowed here");
    setTimeout(() => setDone(""), 1500);
  };
  return html`<button class="small" onClick=${click} aria-live="polite">${done || label}</button>`;
}

export function CommandLine({ command }) {
  const whole = onServer(command);
  return html`<div class="command-line"><pre class="command" tabindex="0"><code>${whole}</code></pre><${CopyButton} text=${whole} /></div>`;
}

export const onServer = (command) => `strata-host ${command} --server ${location.origin}`;

export const quoted = (text) => (/^[A-Za-z0-9_.,:\/@=+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/**
 * Shows a text, folded if it is long. With a `tree` it is shown as Markdown, and on request as it is. `isOpen` shows all of
 * it at first; `loadAll` gets the whole text if this is only its beginning.
 */
export function LongText({ text, tree, className = "", isOpen: isOpenAtFirst = false, loadAll }) {
  const [loaded, setLoaded] = useState(null);
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const [isAll, setAll] = useState(false);
  const [isRaw, setRaw] = useState(false);
  const whole = loaded ?? (typeof text === "string" ? text : JSON.stringify(text, null, 2));
  const lines = whole.split("\n", FOLDED_LINES + 1);
  const isLong = lines.length > FOLDED_LINES || whole.length > FOLDED_CHARS;
  const isFolded = isLong && !isOpen;
  const isMarkdown = tree && !isRaw && loaded === null;
  const isCut = !isFolded && !isAll && !isMarkdown && whole.length > CUT_CHARS;
  const shown = isFolded ? `${lines.slice(0, FOLDED_LINES).join("\n").slice(0, FOLDED_CHARS)} …` : isCut ? whole.slice(0, CUT_CHARS) : whole;
  const button = (name, act, more) => html`<button class="small" onClick=${act} ...${more}>${name}</button>`;
  return html`<div class=${`long ${className}`}>
    ${isMarkdown
      ? html`<div class=${isFolded ? "document folded" : "document"}>${(isFolded ? tree.slice(0, FOLDED_LINES) : tree).map((node) => element(node, 0))}</div>`
      : html`<pre class="prose" tabindex=${isOpen && isLong ? "0" : undefined}>${shown}</pre>`}
    ${(isLong || tree || loadAll) &&
    html`<div class=${isLong ? "long-actions" : "long-actions at-need"}>${isLong && button(isOpen ? "Fold" : `Show ${whole.length > CUT_CHARS ? "more" : "all"}`, () => setOpen(!isOpen), { "aria-expanded": isOpen })}
      ${isCut && button(`Show all (${Math.ceil(whole.length / 1024)} KiB)`, () => setAll(true))}
      ${loadAll && loaded === null && button("Read the whole text", () => loadAll().then(setLoaded, () => {}))}
      <${CopyButton} text=${whole} />${tree && button("Raw", () => setRaw(!isRaw), { "aria-pressed": isRaw })}</div>`}
  </div>`;
}

export function Json({ value }) {
  return html`<${LongText} text=${typeof value === "string" ? JSON.stringify(value) : JSON.stringify(value ?? null, null, 2)} className="json" />`;
}

/** A text, or a value as JSON, with a title; nothing if there is none. */
export function Titled({ title, as = "h4", text, value = null, ...rest }) {
  if ((text ?? value) === null) return null;
  return html`<${as} class="caption">${title}</>${text === undefined || text === null ? html`<${Json} value=${value} />` : html`<${LongText} text=${text} ...${rest} />`}`;
}

export function jsonLine(value, length = 160) {
  return cut(oneLine(typeof value === "string" ? value : JSON.stringify(value ?? null)), length);
}

export const cut = (text, length) => (text.length > length ? `${text.slice(0, Math.max(1, length - 1))}…` : text);

const plainText = (node) => (typeof node.text === "string" ? node.text : (node.children ?? []).map(plainText).join(""));

function element(node, depth) {
  if (!node || typeof node !== "object") return String(node ?? "");
  if (depth > MAX_DEPTH) return node.text ?? "…";
  const inner = () => (node.children ?? []).map((child) => element(child, depth + 1));
  switch (node.type) {
    case "paragraph": return html`<p>${inner()}</p>`;
    // The title of the section has the second level.
    case "heading": return html`<${`h${Math.min(6, Math.max(1, Number(node.level) || 1) + 2)}`}>${inner()}</>`;
    case "list": return node.ordered ? html`<ol start=${node.start}>${inner()}</ol>` : html`<ul>${inner()}</ul>`;
    case "item": return html`<li>${inner()}</li>`;
    case "quote": return html`<blockquote>${inner()}</blockquote>`;
    case "code": return html`<pre tabindex="0"><code>${plainText(node)}</code></pre>`;
    case "inline-code": return html`<code>${plainText(node)}</code>`;
    case "rule": return html`<hr />`;
    case "table": return html`<div class="scroll" tabindex="0"><table><tbody>${inner()}</tbody></table></div>`;
    case "row": return html`<tr>${(node.children ?? []).map((cell) => html`<${node.head ? "th" : "td"}>${(cell.children ?? []).map((child) => element(child, depth + 2))}</>`)}</tr>`;
    case "emphasis": return html`<em>${inner()}</em>`;
    case "strong": return html`<strong>${inner()}</strong>`;
    case "strike": return html`<s>${inner()}</s>`;
    case "break": return html`<br />`;
    case "link":
      return SAFE.test(node.href ?? "")
        ? html`<a href=${node.href} rel="noopener noreferrer nofollow" target="_blank" title=${node.href}>${inner()}</a>`
        : html`<span>${inner()}</span>`;
    default: return node.children ? html`<span>${inner()}</span>` : (node.text ?? "");
  }
}
