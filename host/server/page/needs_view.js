// The start page if something waits for somebody: four groups on the left, what is chosen on the right.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./dom.js";
import { announce } from "./announce.js";
import { money, plural } from "./figures.js";
import { stepKeys, useKeys } from "./keys.js";
import { lazy } from "./lazy.js";
import { RequestItem } from "./request_item.js";
import { Link, route, setHash } from "./router.js";
import { appearance } from "./status.js";
import { byExpiry, GROUPS, loadNeeds, needs, needsLoaded, needsProblem, onRequest, requestKey } from "./store.js";
import { addressOf } from "./token.js";
import { encode, oneLine } from "./visible.js";
import { Boundary, Time, whenLoaded } from "./widgets.js";

const LEAVES_AFTER_MS = 3000;

const RunItem = lazy(() => import("./run_needs.js"), "RunItem");

const entryOf = (one) => (one.question === undefined ? { key: one.id, run: one } : { key: requestKey(one), request: one });

export function NeedsView() {
  const groups = needs.value;
  // What was answered here stays for a while, and what is chosen stays as long as it is chosen.
  const [left, setLeft] = useState(new Map());
  // What came since the list was shown waits, so that nothing moves under the pointer.
  const known = useRef(null);
  const [, draw] = useState(0);
  const list = useRef(null);
  const chosenKey = route.value.hash;
  const whole = Object.entries(GROUPS).map(([group, [title]]) => [group, title, (group === "questions" ? withLeft(groups.questions, left) : groups[group]).map(entryOf)]);
  const keys = whole.flatMap(([, , entries]) => entries.map((entry) => entry.key));
  if (needsLoaded.value && !keys.some((key) => known.current?.has(key))) known.current = new Set(keys);
  const isShown = ({ key }) => known.current?.has(key) || key === chosenKey;
  const all = whole.map(([group, title, entries]) => [group, title, entries.filter(isShown), entries.length]);
  const flat = all.flatMap(([, , entries]) => entries);
  const fresh = keys.length - flat.length;
  // What is shown stays until another one is chosen or it has left.
  const stays = useRef(null);
  const isIn = (key) => flat.find((entry) => entry.key === key);
  const chosen = chosenKey ? isIn(chosenKey) : isIn(stays.current?.key);
  const shown = chosen ?? (chosenKey && stays.current?.key === chosenKey ? stays.current : flat[0]);
  stays.current = shown;

  useLayoutEffect(() => onRequest((request, isAnswered) => isAnswered && keep(setLeft, request)), []);
  useEffect(() => {
    if (chosenKey && chosen) document.getElementById(`entry-${chosenKey}`)?.scrollIntoView({ block: "nearest" });
  }, [chosenKey]);
  useKeys({
    ...stepKeys(flat, flat.findIndex((entry) => entry.key === shown?.key), (entry) => setHash(entry.key)),
    Enter: () => document.querySelector(".needs-item button, .needs-item textarea, .needs-item input")?.focus(),
    Escape: () => list.current?.querySelector("[aria-current]")?.focus(),
  });
  if (!needsLoaded.value) return html`<h1 class="sr" tabindex="-1">Needs you</h1>${whenLoaded([undefined, needsProblem.value, loadNeeds], null, 8)}`;
  if (!shown) return html`<h1 tabindex="-1">Needs you</h1><p class="empty">Nothing waits for you. ${" "}<${Link} class="button" to="/runs">All runs<//></p>`;
  const showFresh = () => {
    known.current = new Set(keys);
    draw(fresh);
  };
  return html`<h1 class="sr" tabindex="-1">Needs you</h1>
    <div class="needs">
      <nav class="needs-list" aria-label="What needs you" ref=${list}>
        ${fresh > 0 && html`<p><button class="fresh" onClick=${showFresh}>${fresh} new</button></p>`}
        ${all.map(([group, title, entries, number]) => html`<${Group} key=${group} ...${{ title, entries, number, shown, left }} />`)}
      </nav>
      <div class="needs-item" key=${shown.key}>
        <${Boundary} of=${shown.key}>${shown.request ? html`<${RequestItem} key=${shown.key} request=${shown.request} onAnswered=${(request) => keep(setLeft, request)} />` : html`<${RunItem} key=${shown.key} run=${shown.run} />`}<//>
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

function Group({ title, entries, number, shown, left }) {
  if (!entries.length) return html`<p class="group-empty">${title} <span class="count">${number}</span></p>`;
  return html`<section class="group"><h2>${title} <span class="count">${number}</span></h2>
    <ul class="plain">${entries.map((entry) => html`<${Entry} key=${entry.key} entry=${entry} isShown=${entry.key === shown?.key} isLeaving=${left.has(entry.key)} />`)}</ul></section>`;
}

function Entry({ entry: { key, request, run }, isShown, isLeaving }) {
  const follow = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    setHash(key);
  };
  const line = request ? `${request.tool ? `${request.tool}: ` : ""}${request.question}` : `${appearance(run.status).word}, step ${run.step ?? 0}, ${money(run.spent)}${run.faults > 1 ? `, ${plural(run.faults, "fault")}` : ""}`;
  return html`<li id=${`entry-${key}`}><a href=${`/needs#${encode(key)}`} class=${isLeaving ? "entry leaving" : "entry"}
      aria-current=${isShown ? "true" : undefined} onClick=${follow}>
    <span class="entry-head"><b>${request ? request.role : addressOf(run)}</b><span class="note">${request ? addressOf(request) : run.team}</span>
      <span class="note when"><${Time} at=${request ? request.opened : (run.ended ?? run.updated)} /></span></span>
    ${isLeaving ? html`<span class="entry-line"><span class="mark ok" aria-hidden="true">✓</span> answered, continuing</span>`
    : html`<span class="entry-line">${oneLine(line).slice(0, 200)}</span>${request?.expires && html`<span class="entry-expiry">expires <${Time} at=${request.expires} /></span>`}`}
  </a></li>`;
}
