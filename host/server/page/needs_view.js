// The start page if something waits for somebody: four groups on the left, what is chosen on the right.

import { html, useEffect, useRef, useState } from "./dom.js";
import { announce } from "./announce.js";
import { Boundary } from "./boundary.js";
import { money } from "./figures.js";
import { useKeys } from "./keys.js";
import { RequestItem } from "./request_item.js";
import { encode, Link, route, setHash } from "./router.js";
import { RunItem } from "./run_needs.js";
import { appearance } from "./status.js";
import { byExpiry, epoch, loadNeeds, needs, needsLoaded, needsProblem, onRequest, requestKey } from "./store.js";
import { oneLine } from "./visible.js";
import { ProblemView, Skeleton, Time } from "./widgets.js";

/** How long an answered question stays in the list. */
const LEAVES_AFTER_MS = 3000;

const GROUP_NAMES = [
  ["questions", "Questions and approvals"],
  ["faults", "Faults"],
  ["budgets", "Out of budget"],
  ["doubts", "In doubt"],
];

/** The entries of a group, in one form. */
function entriesOf(group, list) {
  if (group !== "questions") return list.map((run) => ({ key: run.id, run }));
  return list.map((request) => ({ key: requestKey(request), request }));
}

export function NeedsView() {
  const groups = needs.value;
  // What was answered here stays for a while, and what is chosen stays as long as it is chosen.
  const [left, setLeft] = useState(new Map());
  const list = useRef(null);
  const chosenKey = route.value.hash;
  const questions = withLeft(groups.questions, left);
  const all = GROUP_NAMES.map(([group, title]) => [group, title, entriesOf(group, group === "questions" ? questions : groups[group])]);
  const flat = all.flatMap(([, , entries]) => entries);
  // What is shown stays until another one is chosen or it has left.
  const stays = useRef(null);
  const isIn = (key) => flat.find((entry) => entry.key === key);
  const chosen = chosenKey ? isIn(chosenKey) : isIn(stays.current?.key);
  const shown = chosen ?? (chosenKey && stays.current?.key === chosenKey ? stays.current : flat[0]);
  stays.current = shown;

  useEffect(() => onRequest((request, isAnswered) => isAnswered && keep(setLeft, request)), []);
  useEffect(() => {
    if (chosenKey && chosen) document.getElementById(`entry-${chosenKey}`)?.scrollIntoView({ block: "nearest" });
  }, [chosenKey]);
  const step = (by) => {
    const at = flat.findIndex((entry) => entry.key === shown?.key);
    const next = flat[Math.min(flat.length - 1, Math.max(0, at + by))];
    if (next) setHash(next.key);
  };
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    Enter: () => document.querySelector(".needs-item button, .needs-item textarea, .needs-item input")?.focus(),
    Escape: () => list.current?.querySelector("[aria-current]")?.focus(),
  });
  if (!needsLoaded.value) return needsProblem.value ? html`<${ProblemView} problem=${needsProblem.value} retry=${loadNeeds} />` : html`<${Skeleton} lines=${8} />`;
  if (!flat.length && !shown) {
    return html`<h1 tabindex="-1">Needs you</h1><p class="empty">Nothing waits for you. ${" "}<${Link} to="/runs">All runs</${Link}></p>`;
  }
  return html`<h1 class="sr" tabindex="-1">Needs you</h1>
    <div class="needs">
      <nav class="needs-list" aria-label="What needs you" ref=${list}>
        ${all.map(([group, title, entries]) => html`<${Group} key=${group} ...${{ title, entries, shown, left }} />`)}
      </nav>
      <div class="needs-item" key=${shown?.key}>
        <${Boundary} of=${shown?.key}>${shown?.request && html`<${RequestItem} key=${shown.key} request=${shown.request} onAnswered=${(request) => keep(setLeft, request)} />`}
        ${shown?.run && html`<${RunItem} key=${shown.key} run=${shown.run} />`}</${Boundary}>
      </div>
    </div>`;
}

function keep(setLeft, request) {
  const key = requestKey(request);
  setLeft((before) => new Map(before).set(key, request));
  announce(`answered: ${request.role}`);
  setTimeout(() => setLeft((before) => {
    const after = new Map(before);
    after.delete(key);
    return after;
  }), LEAVES_AFTER_MS);
}

function withLeft(questions, left) {
  const open = new Set(questions.map(requestKey));
  return [...questions, ...[...left.values()].filter((request) => !open.has(requestKey(request)))].sort(byExpiry);
}

function Group({ title, entries, shown, left }) {
  if (!entries.length) return html`<p class="group-empty">${title} <span class="count">0</span></p>`;
  return html`<section class="group"><h2>${title} <span class="count">${entries.length}</span></h2>
    <ul class="plain">${entries.map((entry) => html`<${Entry} key=${entry.key} entry=${entry} isShown=${entry.key === shown?.key} isLeaving=${left.has(entry.key)} />`)}</ul></section>`;
}

function Entry({ entry, isShown, isLeaving }) {
  const follow = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    setHash(entry.key);
  };
  const { request, run } = entry;
  const line = request ? (request.tool ? `${request.tool}: ${request.question}` : request.question) : lineOf(run);
  return html`<li id=${`entry-${entry.key}`}><a href=${`/needs#${encode(entry.key)}`} class=${isLeaving ? "entry leaving" : "entry"}
      aria-current=${isShown ? "true" : undefined} onClick=${follow}>
    <span class="entry-head"><b>${request ? request.role : run.name}</b><span class="note">${request ? request.run : run.team}</span>
      <span class="note when">${request ? html`<${Expiry} request=${request} />` : html`<${Time} at=${run.ended ?? run.updated} />`}</span></span>
    ${isLeaving ? html`<span class="entry-line"><span class="mark ok" aria-hidden="true">✓</span> answered, continuing</span>` : html`<span class="entry-line">${oneLine(line ?? "").slice(0, 200)}</span>`}
  </a></li>`;
}

function Expiry({ request }) {
  if (request.expires) return html`expires <${Time} at=${request.expires} />`;
  return request.opened && request.opened !== true ? html`<${Time} at=${request.opened} />` : null;
}

const lineOf = (run) => `${appearance(run.status).word}, step ${run.step ?? 0}, ${money(run.spent)}`;
