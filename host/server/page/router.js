// Addresses of the page. Each view has one that can be read and shared; going back restores filters and scroll.

import { signal, html } from "./dom.js";
import { withQuery } from "./api.js";
import { keysFor } from "./keys.js";
import { addressOf } from "./token.js";
import { encode } from "./visible.js";

export const route = signal(read());
/** Rises when another address is shown, but not when only its query changed. */
const visits = signal(0);

function read() {
  const segments = location.pathname.split("/").filter(Boolean).map(decode);
  return { segments, query: new URLSearchParams(location.search), hash: decode(location.hash.slice(1)) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function keepScroll() {
  history.replaceState({ ...history.state, scroll: window.scrollY }, "");
}

/** Shows an address. `replace` is for what should not be a step of going back, such as each letter of a filter. */
export function go(address, { replace = false } = {}) {
  const before = location.pathname;
  if (replace) {
    history.replaceState(history.state, "", address);
  } else {
    keepScroll();
    history.pushState({ scroll: 0, depth: (history.state?.depth ?? 0) + 1 }, "", address);
  }
  route.value = read();
  if (location.pathname !== before) {
    if (!replace) visits.value += 1;
    if (!replace && sectionOf(before) !== sectionOf(location.pathname)) window.scrollTo(0, 0);
  }
}

/** The tabs of a run are one section: changing them does not scroll. */
const sectionOf = (path) => path.split("/").slice(0, path.startsWith("/runs/") ? 3 : 2).join("/");

/** How long the field for searching may take to appear. */
const SEARCH_LOADED_MS = 5000;

export function openSearch() {
  const field = document.getElementById("runs-search");
  if (field) return field.focus();
  keysFor.search = "";
  // A view that cannot be loaded does not take the keys for ever.
  setTimeout(() => (keysFor.search = null), SEARCH_LOADED_MS);
  return go("/runs");
}

/** Changes parts of the query of the address. Null removes one. */
export function setQuery(changes, { replace = true } = {}) {
  const { query } = read();
  const kept = Object.fromEntries([...query.keys()].map((name) => [name, query.getAll(name)]));
  go(withQuery(location.pathname, { ...kept, ...changes }) + location.hash, { replace });
}

/** Changes what is selected, which the address has behind `#`. */
export function setHash(hash) {
  go(location.pathname + location.search + (hash ? `#${encode(hash)}` : ""), { replace: true });
}

/** Returns what is selected in a run: an event by its number, a role by its name, a checkpoint, or nothing. */
export function selection() {
  const { hash } = route.value;
  if (/^e\d+$/.test(hash)) return { event: Number(hash.slice(1)) };
  if (hash.startsWith("role:")) return { role: hash.slice(5) };
  if (hash.startsWith("at:")) return { checkpoint: hash.slice(3) };
  return {};
}

export const selectEvent = (n) => setHash(`e${n}`);
export const selectRole = (name) => setHash(`role:${name}`);
export const selectCheckpoint = (id) => setHash(`at:${id}`);

/** Goes back, but never out of the page: from the address with which it was opened to the list of runs. */
export function back() {
  if (history.state?.depth) history.back();
  else go(route.value.segments.length > 1 ? "/runs" : "/");
}

/** Moves the focus to the title of the view, unless something in it has it. */
export function focusTitle() {
  const { activeElement } = document;
  if (visits.value > 0 && !document.querySelector("main")?.contains(activeElement)) document.querySelector("main h1")?.focus({ preventScroll: true });
}

/** Scrolls as soon as the view is long enough for that, or gives up after a second. */
function restoreScroll(top) {
  const until = performance.now() + 1000;
  const attempt = () => {
    window.scrollTo(0, top);
    if (Math.abs(window.scrollY - top) > 2 && performance.now() < until) requestAnimationFrame(attempt);
  };
  requestAnimationFrame(attempt);
}

export function startRouter() {
  history.scrollRestoration = "manual";
  window.addEventListener("popstate", (event) => {
    route.value = read();
    visits.value += 1;
    restoreScroll(event.state?.scroll ?? 0);
  });
  window.addEventListener("pagehide", keepScroll);
  if (history.state?.scroll) restoreScroll(history.state.scroll);
}

/** A link to an address of the page, which `open` shows. Ctrl-click opens it in another tab, as everywhere. */
export function Link({ to, open = go, children, ...rest }) {
  const follow = (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    open(to);
  };
  return html`<a href=${to} onClick=${follow} ...${rest}>${children}</a>`;
}

/** Returns the address of a run, given as for `runPath`. It always names a tab: a name may contain a dot, which would look like a file's. */
export const runAddress = (run, tab = "overview", hash = "") =>
  `/runs/${encode(addressOf(run))}/${tab}${hash ? `#${encode(hash)}` : ""}`;
