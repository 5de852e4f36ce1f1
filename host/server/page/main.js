// The page: finds the token, connects, and shows the view of the address.

import { effect, html, render, untracked, useEffect, useLayoutEffect, useState } from "./dom.js";
import { Toasts } from "./announce.js";
import { Bar, ConnectionLine, Footer, KeysSheet, TokenForm } from "./frame.js";
import { connect, follow, returns } from "./connection.js";
import { startKeys, useKeys } from "./keys.js";
import { lazy } from "./lazy.js";
import { back, focusTitle, go, Link, openSearch, route, startRouter } from "./router.js";
import { epoch, isNewRunOpen, loadIdentity, loadNeeds, loadSpentToday, needs, needsLoaded, onRun } from "./store.js";
import { findToken, may, token, tokenProblem } from "./token.js";
import { Boundary, Skeleton } from "./widgets.js";

const CompareView = lazy(() => import("./compare_view.js"), "CompareView");
const NeedsView = lazy(() => import("./needs_view.js"), "NeedsView");
const NewRunSheet = lazy(() => import("./new_run.js"), "NewRunSheet");
const RunsView = lazy(() => import("./runs_view.js"), "RunsView");
const RunView = lazy(() => import("./run_view.js"), "RunView");
const ServerView = lazy(() => import("./server_view.js"), "ServerView");

const LATER = [NeedsView, RunsView, RunView, NewRunSheet, CompareView, ServerView];
const PREPARED_AFTER_MS = 1500;
/** How long the first view may take until what there is is drawn. */
const FIRST_VIEW_MS = 200;

const VIEWS = { __proto__: null, needs: NeedsView, runs: RunsView, compare: CompareView, server: ServerView };
const viewOf = ([first, second]) => (first === "runs" && second ? RunView : VIEWS[first]);

function View() {
  const [first, second] = route.value.segments;
  const view = viewOf(route.value.segments);
  useEffect(() => {
    if (view !== RunView) follow(null, null);
  }, [view]);
  if (view) return html`<${view} key=${second ?? first} name=${second} />`;
  if (first === undefined) return html`<${Start} />`;
  return html`<h1 tabindex="-1">Not found</h1><p class="empty">The page has no such address. ${" "}<${Link} to="/runs">All runs<//></p>`;
}

/** The start: what needs somebody, or all runs if nothing does. */
const openStart = () => go(needs.value.total ? "/needs" : "/runs", { replace: true });

function Start() {
  useEffect(() => {
    if (needsLoaded.value) openStart();
  }, [needsLoaded.value]);
  return html`<${Skeleton} lines=${8} />`;
}

function Page() {
  const [areKeysShown, showKeys] = useState(false);
  useKeys({
    "g n": () => go("/needs"),
    "g r": () => go("/runs"),
    "?": () => showKeys(true),
    n: () => may("submit") && (isNewRunOpen.value = true),
    "/": openSearch,
    Escape: () => route.value.segments.length > 1 && back(),
  });
  useLayoutEffect(focusTitle, [route.value.segments.slice(0, 2).join("/")]);
  if (!token.value) return html`<main>${tokenProblem.value ? html`<${TokenForm} />` : html`<${Skeleton} />`}</main>`;
  return html`<${Bar} onKeys=${() => showKeys(true)} /><${ConnectionLine} />
    <main id="main"><${Boundary} of=${route.value.segments.slice(0, 2).join("/")}><${View} /><//></main><${Footer} onKeys=${() => showKeys(true)} />
    <${Toasts} />
    ${areKeysShown && html`<${KeysSheet} onClose=${() => showKeys(false)} />`}
    ${isNewRunOpen.value && html`<${NewRunSheet} onClose=${() => (isNewRunOpen.value = false)} />`}`;
}

function showNumber() {
  const { total } = needs.value;
  const [first, second] = route.value.segments;
  const name = first === "runs" && second ? second : { needs: "Needs you", runs: "Runs", compare: "Compare", server: "Server" }[first] ?? "strata-host";
  document.title = `${total ? `(${total}) ` : ""}${name} – strata-host`;
  const icon = document.getElementById("icon");
  const other = document.getElementById("icon-needs");
  icon.dataset.plain ??= icon.getAttribute("href");
  const wanted = total ? other.getAttribute("href") : icon.dataset.plain;
  if (icon.getAttribute("href") !== wanted) icon.setAttribute("href", wanted);
}

/** Waits for what the first view shows, so that it is drawn with the bar. */
async function firstView(needsRead) {
  if (!route.value.segments.length) {
    await needsRead;
    if (needsLoaded.value) openStart();
  }
  await viewOf(route.value.segments)?.prepare();
}

async function start() {
  startRouter();
  startKeys();
  await findToken();
  let needsRead = null;
  effect(() => {
    if (!token.value) return;
    untracked(() => {
      // How runs are named depends on the tenant of the token.
      needsRead = loadIdentity().then(loadNeeds);
      epoch.value += 1;
    });
  });
  await Promise.race([firstView(needsRead).catch(() => {}), new Promise((resolve) => setTimeout(resolve, FIRST_VIEW_MS))]);
  const page = document.getElementById("page");
  // What is there while the scripts are fetched.
  page.replaceChildren();
  render(html`<${Page} />`, page);
  effect(showNumber);
  connect();
  effect(() => token.value && returns.value >= 0 && untracked(loadSpentToday));
  let timer = 0;
  onRun(() => {
    timer ||= setTimeout(() => {
      timer = 0;
      loadSpentToday();
    }, 5000);
  });
  // What is fetched later is ready before it is opened.
  setTimeout(() => LATER.map((view) => view.prepare().catch(() => {})), PREPARED_AFTER_MS);
}

start();
