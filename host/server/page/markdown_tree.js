// Shows Markdown, which the server delivers as a tree of a closed set of elements. Nothing is parsed here, and what is not
// in the set is shown as its text.

import { html } from "./dom.js";

/** How deep a tree may be. Deeper ones are shown as text. */
const MAX_DEPTH = 40;
/** The schemes that links may have. The server leaves out others; this is checked once more. */
const SAFE = /^(https?:\/\/|mailto:)/i;

function children(node, depth) {
  return (node.children ?? []).map((child) => element(child, depth + 1));
}

function plainText(node) {
  return typeof node.text === "string" ? node.text : (node.children ?? []).map(plainText).join("");
}

function rows(node, depth) {
  const all = node.children ?? [];
  return all.map((row) => html`<tr>${(row.children ?? []).map((cell) =>
    row.header || cell.header ? html`<th>${children(cell, depth + 2)}</th>` : html`<td>${children(cell, depth + 2)}</td>`)}</tr>`);
}

function element(node, depth) {
  if (!node || typeof node !== "object") return String(node ?? "");
  if (depth > MAX_DEPTH) return node.text ?? "…";
  const inner = () => children(node, depth);
  switch (node.type) {
    case "paragraph": return html`<p>${inner()}</p>`;
    // The title of the section has the second level.
    case "heading": return html`<${`h${Math.min(6, Math.max(1, Number(node.level) || 1) + 2)}`}>${inner()}</>`;
    case "list": return node.ordered ? html`<ol start=${node.start}>${inner()}</ol>` : html`<ul>${inner()}</ul>`;
    case "item": return html`<li>${inner()}</li>`;
    case "quote": return html`<blockquote>${inner()}</blockquote>`;
    case "code": return html`<pre tabindex="0"><code>${node.text ?? plainText(node)}</code></pre>`;
    case "inline-code": return html`<code>${node.text ?? plainText(node)}</code>`;
    case "rule": return html`<hr />`;
    case "table": return html`<div class="scroll" tabindex="0"><table><tbody>${rows(node, depth)}</tbody></table></div>`;
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

/** Shows a tree. */
export function MarkdownTree({ tree }) {
  const nodes = Array.isArray(tree) ? tree : (tree?.children ?? []);
  return html`<div class="document">${nodes.map((node) => element(node, 0))}</div>`;
}
