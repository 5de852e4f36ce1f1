// Small parts that all views use: times, amounts, problems, dialogs, tables.

import { Component, html, typed, useEffect, useLayoutEffect, useRef, useState } from "./dom.js";
import { call } from "./api.js";
import { isOnline, returns } from "./connection.js";
import { absolute, coarseNow, duration, millis, money, now, relative } from "./figures.js";

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
  return html`<span class="spent">${spentOf(spent, budget)}${share !== null && html`<${Shares} parts=${[[share >= 1 ? "full" : "", share]]} />`}</span>`;
}

export const spentOf = (spent, budget) => (budget > 0 ? `${money(spent)} of ${money(budget)}` : money(spent));

/** A bar with parts, each `[class, share]`. */
export function Shares({ parts }) {
  let from = 0;
  return html`<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="whole" width="100" height="8" />${parts.map(([name, share]) => {
    from += share * 100;
    return html`<rect class=${name} x=${from - share * 100} width=${share * 100} height="8" />`;
  })}</svg>`;
}

/** A button that asks the server for something. While there is no connection it cannot be used, and says so. */
export function ActionButton({ onClick, children, disabled, ...rest }) {
  const [isBusy, setBusy] = useState(false);
  const isAway = !isOnline();
  const click = async () => {
    const done = onClick?.();
    if (!done?.then) return;
    setBusy(true);
    await done;
    setBusy(false);
  };
  return html`<button ...${rest} disabled=${isBusy || isAway || disabled} title=${isAway ? "There is no connection to the server" : undefined} onClick=${click}>${isBusy ? "Sending…" : children}</button>`;
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

const TITLES = { 403: "This token may not do that", 404: "Unknown, or not for this token", 410: "Pruned" };
const titleOf = (problem) => TITLES[problem.status] ?? problem.title ?? String(problem.message ?? problem);

/** A view that fails leaves the rest of the page. Another `of` begins anew. */
export class Boundary extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error, of: this.props.of });
  }

  render({ children, of }, { error, of: failed }) {
    if (!error || failed !== of) return children;
    const problem = { title: "The page cannot show this", detail: String(error?.message ?? error) };
    return html`<${ProblemView} problem=${problem} retry=${() => this.setState({ error: null })} />`;
  }
}

/** The place of something that is being loaded. It is seen only after a while, so that nothing flickers. */
export const Skeleton = ({ lines = 3 }) => html`<div class="skeleton" role="status" aria-label="Loading">${Array.from({ length: lines }, () => html`<div class="bone" aria-hidden="true"></div>`)}</div>`;

/** What had the focus before a dialog took it. */
let opener = null;
document.addEventListener("focusin", ({ target }) => {
  if (!target.closest("dialog")) opener = target;
});

/** A dialog. The focus moves into it, and back when it closes. */
export function Sheet({ title, onClose, children, isNarrow }) {
  const ref = useRef(null);
  // What is typed as soon as it is seen goes into it.
  useLayoutEffect(() => {
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
  const entries = () => [...(ref.current?.querySelectorAll(".menu-items button, .menu-items a") ?? [])];
  useLayoutEffect(() => {
    if (!isOpen) return undefined;
    entries()[0]?.focus();
    const close = (event) => {
      if (!ref.current?.contains(event.target)) setOpen(false);
    };
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, [isOpen]);
  const key = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      setOpen(false);
      ref.current.querySelector("button").focus();
      event.stopPropagation();
    } else if (by) {
      event.preventDefault();
      const all = entries();
      all.at((all.indexOf(document.activeElement) + by) % all.length)?.focus();
    }
  };
  return html`<span class="menu" ref=${ref} onKeyDown=${isOpen ? key : undefined}>
    <button aria-haspopup="true" aria-expanded=${isOpen} title=${title} aria-label=${title} onClick=${() => setOpen(!isOpen)}>${label}</button>
    ${isOpen && html`<span class="menu-items" onClick=${() => setOpen(false)}>${children}</span>`}
  </span>`;
}

/** Loads something: `[value, problem, again]`. The value stays while the same thing, named by `of`, is loaded again. */
export function useLoaded(load, of, round) {
  const [state, setState] = useState({});
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    const stopped = new AbortController();
    const take = (what) => stopped.signal.aborted || setState((before) => ({ value: before.of === of ? before.value : undefined, ...what, of }));
    load(stopped.signal).then((value) => take({ value }), (problem) => take({ problem }));
    return () => stopped.abort();
  }, [of, round, asked]);
  useEffect(() => {
    if (state.problem) setAsked((n) => n + 1);
  }, [returns.value]);
  const { value, problem } = state.of === of ? state : {};
  return [value, problem, () => setAsked((n) => n + 1)];
}

export const useGet = (path, round) => useLoaded((signal) => (path ? call(path, { signal }) : Promise.resolve(null)), path ?? "", round);

export function whenLoaded([value, problem, again], show, lines) {
  if (problem) return html`<${ProblemView} problem=${problem} retry=${again} />`;
  return value === undefined ? html`<${Skeleton} lines=${lines} />` : show(value);
}

/** A list with a title. An empty one is left out, unless `none` is said of it. */
export function Listed({ title, isPart, list, none, show, className = "plain" }) {
  if (!list.length && !none) return null;
  return html`<section>${isPart ? html`<h3>${title}</h3>` : html`<h2>${title} <span class="count">${list.length}</span></h2>`}${list.length ? html`<ul class=${className}>${list.map(show)}</ul>` : html`<p class="none">${none}</p>`}</section>`;
}

export const Live = ({ isOn, follow }) =>
  (isOn ? html`<span class="tag live"><span class="pulse" aria-hidden="true">●</span> Live</span>` : html`<button class="small" onClick=${follow}>Live <kbd>.</kbd></button>`);

/** Returns `[values, take]`, where `take(name)` takes a value of that name. */
export function useFields(initial) {
  const [values, setValues] = useState(initial);
  return [values, (name) => (value) => setValues((before) => ({ ...before, [name]: value }))];
}

/** A table in a box that scrolls. The names of columns of numbers begin with `#`. */
export const Table = ({ heads, className, children }) => html`<div class="scroll" tabindex="0"><table class=${className}><thead><tr>${heads.map((head) =>
  head ? html`<th class=${head[0] === "#" ? "num" : undefined}>${head.replace("#", "")}</th>` : html`<td></td>`)}</tr></thead><tbody>${children}</tbody></table></div>`;

export const Choose = ({ label, value, options, take }) =>
  html`<select aria-label=${label} value=${value} onChange=${typed(take)}>${options.map(([one, text]) => html`<option value=${one}>${text}</option>`)}</select>`;

export const Search = ({ label, hint, value, take, className }) =>
  html`<input type="search" class=${className} aria-label=${label} placeholder=${hint} value=${value} onInput=${typed(take)} />`;

export const Check = ({ className, isOn, take, children }) =>
  html`<label class=${className}><input type="checkbox" checked=${isOn} onChange=${(event) => take(event.target.checked)} /> ${children}</label>`;
