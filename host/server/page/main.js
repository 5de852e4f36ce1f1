// The page: finds the token, connects, and shows the view of the address.

import { effect, html, render, untracked, useEffect, useState } from "./dom.js";
import { LiveRegion } from "./announce.js";
import { Boundary } from "./boundary.js";
import { Bar, ConnectionLine, Footer, KeysSheet, TokenForm } from "./frame.js";
import { connect, follow } from "./connection.js";
import { startKeys, useKeys } from "./keys.js";
import { lazy } from "./lazy.js";
import { NeedsView } from "./needs_view.js";
import { back, focusTitle, go, Link, route, startRouter } from "./router.js";
import { isNewRunOpen, loadSpentToday, RunsView } from "./runs_view.js";
import { epoch, loadIdentity, loadNeeds, needs, needsLoaded, onRun } from "./store.js";
import { Toasts } from "./toast.js";
import { findToken, may, token, tokenProblem } from "./token.js";
import { Skeleton } from "./widgets.js";

const CompareView = lazy(() => import("./compare_view.js").then((module) => module.CompareView));
const NewRunSheet = lazy(() => import("./new_run.js").then((module) => module.NewRunSheet));
const RunView = lazy(() => import("./run_view.js").then((module) => module.RunView));
const ServerView = lazy(() => import("./server_view.js").then((module) => module.ServerView));

const LATER = [CompareView, NewRunSheet, RunView, ServerView];
const PREPARED_AFTER_MS = 1500;

function View() {
  const [first, second] = route.value.segments;
  const isRun = first === "runs" && second !== undefined;
  useEffect(() => {
    if (!isRun) follow(null, null);
  }, [isRun]);
  if (isRun) return html`<${RunView} key=${second} name=${second} />`;
  switch (first) {
    case undefined: return html`<${Start} />`;
    case "needs": return html`<${NeedsView} />`;
    case "runs": return html`<${RunsView} />`;
    case "compare": return html`<${CompareView} />`;
    case "server": return html`<${ServerView} />`;
    default: return html`<h1 tabindex="-1">Not found</h1><p class="empty">The page has no such address. ${" "}<${Link} to="/runs">All runs<//></p>`;
  }
}

/** The start: what needs somebody, or all runs if nothing does. */
function Start() {
  useEffect(() => {
    if (needsLoaded.value) go(needs.value.total ? "/needs" : "/runs", { replace: true });
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
    "/": () => go("/runs"),
    Escape: () => route.value.segments.length > 1 && back(),
  });
  useEffect(focusTitle, [route.value.segments.slice(0, 2).join("/")]);
  if (!token.value) return html`<main>${tokenProblem.value ? html`<${TokenForm} />` : html`<${Skeleton} />`}</main>`;
  return html`<${Bar} onKeys=${() => showKeys(true)} /><${ConnectionLine} />
    <main id="main"><${Boundary} of=${route.value.segments.slice(0, 2).join("/")}><${View} /><//></main><${Footer} onKeys=${() => showKeys(true)} />
    <${Toasts} /><${LiveRegion} />
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

async function start() {
  startRouter();
  startKeys();
  render(html`<${Page} />`, document.getElementById("page"));
  effect(showNumber);
  // What is fetched later is ready before it is opened.
  setTimeout(() => LATER.map((view) => view.prepare().catch(() => {})), PREPARED_AFTER_MS);
  await findToken();
  connect();
  let timer = 0;
  onRun(() => {
    timer ||= setTimeout(() => {
      timer = 0;
      loadSpentToday();
    }, 5000);
  });
  effect(() => {
    if (!token.value) return;
    untracked(() => {
      loadIdentity();
      loadNeeds();
      loadSpentToday();
      epoch.value += 1;
    });
  });
}

start();
