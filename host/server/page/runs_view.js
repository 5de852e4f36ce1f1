// All runs: numbers that are filters, filters in the address, and a table by cursor.

import { html, typed, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./dom.js";
import { call, items, PAGE as WHOLE_PAGE, post, withQuery } from "./api.js";
import { returns, state } from "./connection.js";
import { coarseNow, relative, startOfDay, plural } from "./figures.js";
import { keysFor, stepKeys, useKeys } from "./keys.js";
import { go, Link, route, runAddress, setQuery } from "./router.js";
import { carryOut, copyAndTell } from "./run_actions.js";
import { StatusTag, statusOf } from "./status.js";
import { choice, keepChoice } from "./storage.js";
import { counted, doing, epoch, isNewRunOpen, loadToday, needs, onRun, shownSpent, spentToday } from "./store.js";
import { CommandLine, CopyButton } from "./texts.js";
import { addressOf, may } from "./token.js";
import { hasText, oneLine } from "./visible.js";
import { Choose, ProblemView, Sheet, Skeleton, Spent, Time } from "./widgets.js";

const PAGE = 50;
const MAX_KEPT_FILTERS = 5;
const STATUSES = ["running", "waiting", "failed", "done", "out-of-budget", "in-doubt", "stalled", "step-limit", "paused", "interrupted", "cancelled"];
/** What can be filtered by, and how a person calls it. */
const FILTERS = { status: "status", state: "state", team: "team", by: "by", label: "label", prefix: "name begins with", since: "since", until: "until", text: "text" };
const isTime = (name) => name === "since" || name === "until";

const filtersOf = (query) => Object.fromEntries(Object.keys(FILTERS).map((name) => [name, query.getAll(name)]).filter(([, values]) => values.length));

/** Whether a run that changed belongs to what the filters show. */
function fits(run, filters) {
  const one = (name, fit) => !filters[name] || filters[name].some(fit);
  return ["status", "state", "team", "by"].every((name) => one(name, (value) => value === run[name])) && one("prefix", (start) => run.name.startsWith(start)) &&
    one("label", (label) => label.split("=")[1] === run.labels?.[label.split("=")[0]]);
}

const matchesText = (run, words) => words.every((word) => hasText(`${run.name} ${run.idea ?? ""} ${run.team}`, word));

/** Loads the list page by page, and takes changes of runs that are in it. New ones wait. */
function useRuns({ text, ...sent }) {
  const key = JSON.stringify(sent);
  const [shown, setShown] = useState({ list: [], next: null, problem: null, isBusy: true });
  const [fresh, setFresh] = useState(new Map());
  const [round, setRound] = useState(0);
  const known = useRef(new Set());
  known.current = new Set(shown.list.map((run) => run.id));
  // The server does not search texts: more runs are looked at once, and those that do not fit are left out.
  const limit = text ? WHOLE_PAGE : PAGE;
  const load = async (after, before, signal) => {
    setShown((now) => ({ ...now, isBusy: true }));
    try {
      const answer = await call(withQuery("/v1/runs", { ...sent, limit, after }), { signal });
      if (signal?.aborted) return;
      setShown({ list: [...before, ...items(answer).filter((run) => !after || !known.current.has(run.id))], next: answer.next ?? null, problem: null, isBusy: false });
      if (!after) setFresh(new Map());
    } catch (problem) {
      if (!signal?.aborted) setShown((now) => ({ ...now, problem, isBusy: false }));
    }
  };
  useEffect(() => {
    const stopped = new AbortController();
    load(null, [], stopped.signal);
    return () => stopped.abort();
  }, [key, limit, round, epoch.value]);
  useEffect(() => {
    if (shown.problem) setRound((n) => n + 1);
  }, [returns.value]);
  useEffect(
    () =>
      onRun((run) => {
        if (known.current.has(run.id)) setShown((now) => ({ ...now, list: now.list.map((one) => (one.id === run.id ? { ...one, ...run } : one)) }));
        else if (fits(run, sent)) setFresh((now) => new Map(now).set(run.id, run));
      }),
    [key],
  );
  return { ...shown, fresh: [...fresh.keys()].filter((id) => !known.current.has(id)).length, again: () => setRound((n) => n + 1), more: () => load(shown.next, shown.list) };
}

export function RunsView() {
  const filters = filtersOf(route.value.query);
  const runs = useRuns(filters);
  const [at, setAt] = useState(-1);
  const [chosen, setChosen] = useState(new Set());
  const last = useRef(-1);
  const words = (filters.text?.[0] ?? "").split(/\s+/).filter(Boolean);
  const list = runs.list.filter((run) => matchesText(run, words));
  const toggle = (place, isRange) => {
    const next = new Set(chosen);
    const [from, to] = isRange && last.current >= 0 ? [Math.min(last.current, place), Math.max(last.current, place)] : [place, place];
    const value = !next.has(addressOf(list[place]));
    for (let one = from; one <= to; one += 1) value ? next.add(addressOf(list[one])) : next.delete(addressOf(list[one]));
    last.current = place;
    setChosen(next);
  };
  const focusRow = (place) => {
    setAt(place);
    document.querySelector(`[data-row="${place}"] a`)?.focus();
  };
  useKeys({
    ...stepKeys([...list.keys()], at, focusRow),
    x: () => list[at] && toggle(at, false),
    Enter: () => list[at] && go(runAddress(list[at])),
    c: () => list[at] && copyAndTell(list[at].id, "The id"),
    Escape: () => setChosen(new Set()),
  });
  return html`<div class="runs-head"><h1 tabindex="-1">Runs</h1>${may("submit") && html`<button class="primary" onClick=${() => (isNewRunOpen.value = true)}>New run</button>`}</div>
    <${Numbers} filters=${filters} />
    <${Filters} filters=${filters} />
    ${runs.fresh > 0 && html`<p><button class="fresh" onClick=${runs.again}>${plural(runs.fresh, "new run")}</button></p>`}
    ${chosen.size > 0 && html`<${Selected} names=${[...chosen]} onDone=${() => setChosen(new Set())} />`}
    ${runs.problem && html`<${ProblemView} problem=${runs.problem} retry=${runs.again} />`}
    ${runs.isBusy && !runs.list.length && html`<${Skeleton} lines=${8} />`}
    ${!runs.isBusy && !runs.problem && !list.length && html`<${Empty} hasFilters=${Object.keys(filters).length > 0} looked=${runs.next ? runs.list.length : 0} />`}
    ${list.length > 0 && html`<${RunTable} ...${{ list, at, chosen, toggle, setAt }} isStale=${runs.isBusy || state.value === "lost"} />`}
    ${runs.next && html`<p class="more"><button onClick=${runs.more}>More runs</button> <span class="note">${list.length} are shown</span></p>`}`;
}

function Empty({ hasFilters, looked }) {
  if (hasFilters) return html`<p class="empty">${looked ? `None of the newest ${looked} runs fits these filters.` : "No run fits these filters."} ${" "}<button onClick=${() => go("/runs")}>Show all</button></p>`;
  return html`<div class="empty"><p>No runs yet. Submit a team from a terminal:</p><${CommandLine} command="submit team.toml" />
    <p class="note">It sends the token in <code>$STRATA_TOKEN</code>. The server keeps one in the file <code>token</code> of its storage.</p></div>`;
}

function Numbers({ filters }) {
  const [counts, setCounts] = useState(null);
  const day = startOfDay(coarseNow.value);
  const reload = useRef(0);
  const [round, setRound] = useState(0);
  useEffect(() => onRun(() => {
    // Many runs may change at once.
    clearTimeout(reload.current);
    reload.current = setTimeout(() => setRound((n) => n + 1), 1000);
  }), []);
  useEffect(() => {
    const stopped = new AbortController();
    loadCounts(day, stopped.signal).then((loaded) => !stopped.signal.aborted && setCounts(loaded), () => {});
    return () => stopped.abort();
  }, [day, round, epoch.value, returns.value]);
  const since = new Date(day).toISOString();
  const none = { status: null, state: null, since: null };
  const number = (name, value, filter) => {
    const isOn = Object.keys(none).every((one) => (filters[one] ?? []).join() === (filter[one] ?? ""));
    return html`<button class="number" aria-pressed=${isOn} onClick=${() => setQuery({ ...none, ...(isOn ? {} : filter) }, { replace: false })}><span class="value">${value ?? "–"}</span><span>${name}</span></button>`;
  };
  return html`<div class="numbers" role="group" aria-label="Numbers, which are filters">
    ${number("waiting", counts?.waiting, { status: "waiting" })}
    ${number("failed", counts?.failed ?? needs.value.faults.length, { status: "failed" })}
    ${number("running", counts?.running, { state: "running" })}
    ${number("queued", counts?.queued, { state: "queued" })}
    ${number("done today", counts?.done, { status: "done", since })}
    ${number("spent today", spentToday.value && shownSpent(), { since })}
  </div>`;
}

async function loadCounts(day, signal) {
  const size = (query) => counted(query, signal).then(({ list, isPartial }) => (isPartial ? `${list.length}+` : list.length));
  const [waiting, failed, running, queued, today] = await Promise.all([
    size({ status: "waiting" }), size({ status: "failed" }), size({ state: "running" }), size({ state: "queued" }), loadToday(day, signal),
  ]);
  return { waiting, failed, running, queued, done: today.list.filter((run) => run.status === "done").length };
}

function Filters({ filters }) {
  const field = useRef(null);
  const addressed = filters.text?.[0] ?? "";
  const sent = useRef(addressed);
  const [text, setText] = useState(addressed);
  const timer = useRef(0);
  useKeys({ "/": () => field.current.focus() });
  // What was typed since the address was changed stays: only another address changes the field.
  useLayoutEffect(() => {
    if (addressed !== sent.current) setText(addressed);
    sent.current = addressed;
  }, [addressed]);
  const recent = useMemo(() => choice("filters") ?? [], [JSON.stringify(filters)]);
  const search = (value) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      sent.current = value;
      setQuery({ text: value });
    }, 150);
  };
  useLayoutEffect(() => {
    if (keysFor.search === null) return;
    field.current.focus();
    if (keysFor.search) search(keysFor.search);
    keysFor.search = null;
  }, []);
  const chips = Object.entries(filters).filter(([name]) => name !== "text").flatMap(([name, values]) => values.map((value) => [name, value]));
  useEffect(() => {
    if (!chips.length) return;
    const address = location.search;
    keepChoice("filters", [address, ...(choice("filters") ?? []).filter((one) => one !== address)].slice(0, MAX_KEPT_FILTERS));
  }, [JSON.stringify(chips)]);
  const remove = (name, value) => setQuery({ [name]: filters[name].filter((one) => one !== value) }, { replace: false });
  return html`<div class="filters" role="search">
    <label class="sr" for="runs-search">Search names and ideas</label>
    <input id="runs-search" type="search" ref=${field} placeholder="Name or idea ( / )" value=${text} onInput=${typed(search)} onKeyDown=${(event) => event.key === "Escape" && event.target.blur()} />
    ${chips.map(([name, value]) => html`<span class="chip on" key=${`${name}=${value}`}>${shownFilter([name, value])} <button class="close" aria-label=${`Remove ${name} ${value}`} onClick=${() => remove(name, value)}>✕</button></span>`)}
    <${AddFilter} filters=${filters} />
    ${chips.length > 0 && html`<button class="small" onClick=${() => go("/runs")}>Clear</button>`}
    ${recent.length > 0 && html`<details class="inline"><summary>Last filters</summary><ul class="plain">${recent.map((address) => html`<li key=${address}><${Link} to=${`/runs${address}`}>${[...new URLSearchParams(address)].map(shownFilter).join(", ")}<//></li>`)}</ul></details>`}
  </div>`;
}

const shownFilter = ([name, value]) => `${FILTERS[name] ?? name}: ${isTime(name) ? relative(value, coarseNow.value) : value}`;

function AddFilter({ filters }) {
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const add = (added) => {
    if (!added) return;
    setQuery({ [name]: [...new Set([...(filters[name] ?? []), isTime(name) ? new Date(added).toISOString() : added])] }, { replace: false });
    setName("");
    setValue("");
  };
  const submit = (event) => {
    event.preventDefault();
    add(value);
  };
  const names = Object.entries(FILTERS).filter(([one]) => one !== "state" && one !== "text");
  return html`<form class="add-filter" onSubmit=${submit}>
    <${Choose} label="Add a filter" value=${name} options=${[["", "+ Filter"], ...names]} take=${setName} />
    ${name === "status" && html`<${Choose} label="Status" value="" options=${[["", "Choose…"], ...STATUSES.map((one) => [one, one])]} take=${add} />`}
    ${name && name !== "status" && html`<input type=${isTime(name) ? "datetime-local" : "text"} aria-label=${FILTERS[name]} placeholder=${name === "label" ? "KEY=VALUE" : ""} value=${value} onInput=${typed(setValue)} /><button type="submit" class="small">Add</button>`}
  </form>`;
}

function RunTable({ list, at, chosen, toggle, isStale, setAt }) {
  return html`<div class=${isStale ? "scroll dimmed" : "scroll"} tabindex="-1"><table class="runs">
    <thead><tr><th class="check"><span class="sr">Select</span></th><th>State</th><th>Name</th><th class="wide">Team</th><th class="num">Step</th><th>Now</th><th class="num">Spent</th><th>Updated</th><th class="wide">By</th></tr></thead>
    <tbody>${list.map(
      (run, place) => html`<tr key=${run.id} data-row=${place} class=${place === at ? "current" : ""} aria-selected=${chosen.has(addressOf(run))} onFocusIn=${() => setAt(place)}>
        <td class="check"><input type="checkbox" aria-label=${`Select ${addressOf(run)}`} checked=${chosen.has(addressOf(run))} onClick=${(event) => toggle(place, event.shiftKey)} /></td>
        <td><${StatusTag} status=${statusOf(run)} /></td>
        <td class="name"><${Link} to=${runAddress(run)}>${addressOf(run)}<//>${run.idea && html`<span class="idea-line note">${oneLine(run.idea).slice(0, 120)}</span>`}</td>
        <td class="wide">${run.team}</td><td class="num">${run.step ?? ""}</td><td class="now">${doing(run)}</td>
        <td class="num"><${Spent} spent=${run.spent} budget=${run.budget} /></td><td class="when"><${Time} at=${run.updated} /></td><td class="wide">${run.by}</td></tr>`,
    )}</tbody></table></div>`;
}

const title = (word) => word[0].toUpperCase() + word.slice(1);

function Selected({ names, onDone }) {
  const [asked, setAsked] = useState(null);
  const [results, setResults] = useState(null);
  const send = async () => {
    const isDone = await carryOut(async () => setResults((await post("/v1/bulk", { do: asked, runs: names })).results), null, `Not done (${asked})`);
    if (!isDone) setAsked(null);
  };
  const close = () => {
    setAsked(null);
    if (results) onDone();
    setResults(null);
  };
  return html`<div class="selected card" role="region" aria-label="Selected runs"><b>${plural(names.length, "run")} selected</b>
    ${may("operate", "submit") && ["cancel", "pause", "resume", "prune"].map((what) => html`<button key=${what} onClick=${() => setAsked(what)}>${title(what)}…</button>`)}
    <${CopyButton} text=${names.join("\n")} label="Copy names" /><button class="small" onClick=${onDone}>Clear</button>
    ${asked && html`<${Sheet} isNarrow title=${`${title(asked)} ${plural(names.length, "run")}`} onClose=${close}>
      <ul class="results">${(results ?? names.map((run) => ({ run }))).map(({ run, problem }) => html`<li><b>${run}</b> ${problem ? html`<span class="bad-text">${problem.detail ?? problem.title}</span>` : results && html`<span class="mark ok">✓</span>`}</li>`)}</ul>
      ${!results && html`<p class="controls"><button class="primary" data-first onClick=${send}>${title(asked)}</button></p>`}<//>`}
  </div>`;
}
