// Small parts that all views use: times, commands to copy, long texts, problems, places of what is not there yet.

import { html, typed, useEffect, useRef, useState } from "./dom.js";
import { absolute, coarseNow, money, now, relative, duration, millis } from "./figures.js";
import { oneLine } from "./visible.js";

const FOLDED_LINES = 12;
const CUT_CHARS = 64 * 1024;
/** A skeleton appears only if something takes so long. */
const SKELETON_AFTER_MS = 150;

export function Time({ at, exact }) {
  if (!at) return null;
  const ms = millis(at);
  if (!Number.isFinite(ms)) return html`<span>${String(at)}</span>`;
  // What happened since the last step of the clock of ages is not in the future.
  return html`<time datetime=${new Date(ms).toISOString()} title=${absolute(at)}>${exact ? absolute(at) : relative(at, Math.max(coarseNow.value, Math.min(ms, Date.now())))}</time>`;
}

export function Elapsed({ from, to }) {
  const end = Number.isFinite(millis(to)) ? millis(to) : now.value;
  return html`<span class="figure">${duration(end - millis(from))}</span>`;
}

export function Spent({ spent, budget }) {
  const share = budget > 0 ? Math.min(1, Number(spent) / Number(budget)) : null;
  const text = budget > 0 ? `${money(spent)} of ${money(budget)}` : money(spent);
  return html`<span class="spent">${text}${share !== null &&
  html`<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="whole" width="100" height="8" /><rect
        class=${share >= 1 ? "full" : ""} width=${share * 100} height="8" /></svg>`}</span>`;
}

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
  return html`<div class="command-line"><pre class="command" tabindex="0"><code>${command}</code></pre><${CopyButton} text=${command} /></div>`;
}

export const quoted = (text) => (/^[A-Za-z0-9_.,:\/@=+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

export function LongText({ text, className = "", raw }) {
  const whole = typeof text === "string" ? text : JSON.stringify(text, null, 2);
  const [isOpen, setOpen] = useState(false);
  const [isAll, setAll] = useState(false);
  const lines = whole.split("\n", FOLDED_LINES + 1);
  const isLong = lines.length > FOLDED_LINES || whole.length > 1600;
  let shown = whole;
  if (isLong && !isOpen) shown = lines.slice(0, FOLDED_LINES).join("\n").slice(0, 1600);
  else if (!isAll && whole.length > CUT_CHARS) shown = whole.slice(0, CUT_CHARS);
  const isCut = isOpen && !isAll && whole.length > CUT_CHARS;
  return html`<div class=${`long ${className}`}>
    <pre class="prose" tabindex=${isOpen && isLong ? "0" : undefined}>${shown}${isLong && !isOpen ? " …" : ""}</pre>
    ${isLong &&
    html`<div class="long-actions"><button class="small" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>${
      isOpen ? "Fold" : `Show ${whole.length > CUT_CHARS ? "more" : "all"}`
    }</button>${isCut && html` <button class="small" onClick=${() => setAll(true)}>Show all (${Math.ceil(whole.length / 1024)} KiB)</button>`}
    ${" "}<${CopyButton} text=${whole} /></div>`}
    ${raw}
  </div>`;
}

export function Json({ value }) {
  return html`<${LongText} text=${typeof value === "string" ? JSON.stringify(value) : JSON.stringify(value ?? null, null, 2)} className="json" />`;
}

export function jsonLine(value, length = 160) {
  const text = oneLine(typeof value === "string" ? value : JSON.stringify(value ?? null));
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

export function ProblemView({ problem, retry }) {
  if (!problem) return null;
  return html`<div class="panel bad problem" role="alert">
    <h2>${titleOf(problem)}</h2>
    ${problem.detail && html`<p class="prose-text">${problem.detail}</p>`}
    ${problem.errors?.length > 0 && html`<ul>${problem.errors.map((one) => html`<li><code>${one.pointer || "/"}</code> ${one.detail}</li>`)}</ul>`}
    ${problem.hint && html`<p class="advice">${problem.hint}</p>`}
    ${problem.path && html`<p class="note">Request: <code>${problem.path}</code>${problem.status > 0 && html`, status ${problem.status}`}</p>`}
    ${retry && html`<p><button onClick=${retry}>Try again</button></p>`}
  </div>`;
}

function titleOf(problem) {
  if (problem.status === 404) return "Unknown, or not for this token";
  if (problem.status === 403) return "This token may not do that";
  if (problem.status === 410) return "Pruned";
  return problem.title ?? String(problem.message ?? problem);
}

/** The place of something that is being loaded. It is empty at first, so that what comes at once does not flicker. */
export function Skeleton({ lines = 3, label = "Loading" }) {
  const [isShown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), SKELETON_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  return html`<div class=${isShown ? "skeleton shown" : "skeleton"} role="status" aria-label=${label}>
    ${Array.from({ length: lines }, () => html`<div class="bone" aria-hidden="true"></div>`)}
  </div>`;
}

/** What had the focus before a dialog took it. */
let opener = null;
document.addEventListener("focusin", ({ target }) => {
  if (!target.closest("dialog")) opener = target;
});

/** A dialog beside the page. The focus moves into it, and back when it closes. */
export function Sheet({ title, onClose, children, isNarrow }) {
  const ref = useRef(null);
  useEffect(() => {
    const dialog = ref.current;
    dialog.showModal();
    dialog.querySelector("[data-first], input, textarea, select, button:not(.close)")?.focus();
    return () => {
      if (dialog.open) dialog.close();
      const isThere = opener?.isConnected && !opener.closest(".menu-items");
      (isThere ? opener : document.querySelector("main h1"))?.focus();
    };
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${ref} class=${isNarrow ? "sheet narrow" : "sheet"} aria-label=${title} onCancel=${cancel}>
    <div class="sheet-head"><h2>${title}</h2><button class="close" aria-label="Close" onClick=${onClose}>✕</button></div>
    ${children}
  </dialog>`;
}

export function Menu({ label, children, title }) {
  const [isOpen, setOpen] = useState(false);
  const ref = useRef(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    ref.current.querySelector(".menu-items button, .menu-items a")?.focus();
    const close = (event) => {
      if (!ref.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, [isOpen]);
  const key = (event) => {
    const entries = [...(ref.current?.querySelectorAll(".menu-items button, .menu-items a") ?? [])];
    const at = entries.indexOf(document.activeElement);
    if (event.key === "Escape") {
      setOpen(false);
      ref.current.querySelector("button").focus();
      event.stopPropagation();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      entries.at((at + (event.key === "ArrowDown" ? 1 : -1)) % entries.length)?.focus();
    }
  };
  return html`<span class="menu" ref=${ref} onKeyDown=${isOpen ? key : undefined}>
    <button aria-haspopup="true" aria-expanded=${isOpen} title=${title} aria-label=${title} onClick=${() => setOpen(!isOpen)}>${label}</button>
    ${isOpen && html`<span class="menu-items" onClick=${() => setOpen(false)}>${children}</span>`}
  </span>`;
}

/** Loads something for a view: `[value, problem, again]`. The value stays while it is loaded again. */
export function useLoaded(load, dependencies) {
  const [state, setState] = useState({ value: undefined, problem: null, of: null });
  const [round, setRound] = useState(0);
  const identity = JSON.stringify(dependencies.slice(0, 1));
  useEffect(() => {
    const stopped = new AbortController();
    load(stopped.signal).then(
      (value) => !stopped.signal.aborted && setState({ value, problem: null, of: identity }),
      (problem) => !stopped.signal.aborted && setState((before) => ({ ...before, problem, of: identity })),
    );
    return () => stopped.abort();
  }, [...dependencies, round]);
  const isCurrent = state.of === identity;
  return [isCurrent ? state.value : undefined, isCurrent ? state.problem : null, () => setRound((n) => n + 1)];
}

/** A table in a box that scrolls. The names of columns of numbers begin with `#`. */
export const Table = ({ heads, className, children }) => html`<div class="scroll" tabindex="0"><table class=${className}><thead><tr>${heads.map((head) =>
  head ? html`<th class=${head[0] === "#" ? "num" : undefined}>${head.replace("#", "")}</th>` : html`<td></td>`)}</tr></thead><tbody>${children}</tbody></table></div>`;

export const Choose = ({ label, value, options, take }) =>
  html`<select aria-label=${label} value=${value} onChange=${typed(take)}>${options.map(([one, text]) => html`<option value=${one}>${text}</option>`)}</select>`;

export const Search = ({ label, hint, value, take, className }) =>
  html`<input type="search" class=${className} aria-label=${label} placeholder=${hint} value=${value} onInput=${typed(take)} />`;

/** Shows what was loaded with `useLoaded`, or that it is loading, or why it could not be. */
export function whenLoaded([value, problem, again], show, lines) {
  if (problem) return html`<${ProblemView} problem=${problem} retry=${again} />`;
  return value === undefined ? html`<${Skeleton} lines=${lines} />` : show(value);
}
