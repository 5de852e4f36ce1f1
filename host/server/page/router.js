// Addresses of the page. Each view has one that can be read and shared; going back restores filters and scroll.

import { signal, html } from "./dom.js";
import { wellFormed } from "./visible.js";

/** Percent-encodes a part of an address, also if it is no well-formed text. */
export const encode = (text) => encodeURIComponent(wellFormed(text));

export const route = signal(read());
/** Rises when the page was asked to show another address, but not when only its query changed. */
export const visits = signal(0);

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

/** The part of an address that decides whether another one is another view: the tabs of a run are one. */
const sectionOf = (path) => path.split("/").slice(0, path.startsWith("/runs/") ? 3 : 2).join("/");

/** Changes parts of the query of the address. Null removes one. */
export function setQuery(changes, { replace = true } = {}) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, one);
    }
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : "") + location.hash, { replace });
}

/** Changes what is selected, which the address has behind `#`. */
export function setHash(hash) {
  go(location.pathname + location.search + (hash ? `#${encode(hash)}` : ""), { replace: true });
}

/** Goes back, but never out of the page: from the address with which it was opened to the list of runs. */
export function back() {
  if (history.state?.depth) history.back();
  else go(route.value.segments.length > 1 ? "/runs" : "/");
}

/** Moves the focus to the title of the view that was opened, unless something has it. */
export function focusTitle() {
  const { activeElement } = document;
  if (visits.value > 0 && !document.querySelector("main")?.contains(activeElement)) document.querySelector("main h1")?.focus({ preventScroll: true });
}

/** Restores the scroll position as soon as the view is long enough for it, or gives up after a second. */
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

/** A link to an address of the page. Ctrl-click opens it in another tab, as everywhere. */
export function Link({ to, children, ...rest }) {
  const follow = (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return html`<a href=${to} onClick=${follow} ...${rest}>${children}</a>`;
}

/** Returns the address of a run. It always names a tab: a name may contain a dot, which would look like a file's. */
export const runAddress = (name, tab = "overview", hash = "") =>
  `/runs/${encode(name)}/${tab}${hash ? `#${encode(hash)}` : ""}`;
