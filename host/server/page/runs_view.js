// All runs: numbers that are filters, filters in the address, and a table by cursor.

import { html, signal, typed, useEffect, useMemo, useRef, useState } from "./dom.js";
import { call, items, withQuery } from "./api.js";
import { state } from "./connection.js";
import { coarseNow, money, relative, startOfDay, plural } from "./figures.js";
import { useKeys } from "./keys.js";
import { go, Link, route, runAddress, setQuery } from "./router.js";
import { bulk } from "./run_actions.js";
import { StatusTag, statusOf } from "./status.js";
import { choice, keepChoice } from "./storage.js";
import { epoch, needs, onRun, requests, requestsOf, rolesOf } from "./store.js";
import { may } from "./token.js";
import { toastProblem } from "./toast.js";
import { oneLine } from "./visible.js";
import { CommandLine, ProblemView, Sheet, Skeleton, Spent, Time, CopyButton } from "./widgets.js";

const PAGE = 50;
const FILTERS = ["status", "state", "team", "prefix", "by", "label", "since", "until", "text"];
const MAX_KEPT_FILTERS = 5;
/** How many runs are counted for the numbers of today. */
const COUNTED = 500;

export const isNewRunOpen = signal(false);

const filtersOf = (query) => Object.fromEntries(FILTERS.map((name) => [name, query.getAll(name)]).filter(([, values]) => values.length));

/** Whether a run belongs to what the filters show: used for runs that change while the list is shown. */
function fits(run, filters) {
  const one = (name, value) => !filters[name] || filters[name].includes(value);
  if (!one("status", run.status) || !one("state", run.state) || !one("team", run.team) || !one("by", run.by)) return false;
  if (filters.prefix && !filters.prefix.some((start) => run.name.startsWith(start))) return false;
  if (filters.label && !filters.label.some((label) => label.split("=")[1] === run.labels?.[label.split("=")[0]])) return false;
  return true;
}

const matchesText = (run, words) => words.every((word) => `${run.name} ${run.idea ?? ""} ${run.team}`.toLowerCase().includes(word));

/** Loads the list page by page, and takes changes of runs that are in it. New ones wait. */
function useRuns(filters) {
  const key = JSON.stringify({ ...filters, text: undefined });
  const [shown, setShown] = useState({ key: null, list: [], next: null, problem: null, isBusy: true });
  const [fresh, setFresh] = useState(new Map());
  const load = async (after, signal) => {
    const { text, ...sent } = filters;
    return call(withQuery("/v1/runs", { ...sent, limit: PAGE, after }), { signal });
  };
  const [round, setRound] = useState(0);
  useEffect(() => {
    const stopped = new AbortController();
    setShown((before) => ({ ...before, isBusy: true }));
    load(null, stopped.signal).then(
      (answer) => {
        if (stopped.signal.aborted) return;
        setShown({ key, list: items(answer), next: answer.next ?? null, problem: null, isBusy: false });
        setFresh(new Map());
      },
      (problem) => !stopped.signal.aborted && setShown((before) => ({ ...before, problem, isBusy: false })),
    );
    return () => stopped.abort();
  }, [key, round, epoch.value]);
  const known = useRef(new Set());
  known.current = new Set(shown.list.map((run) => run.id));
  useEffect(
    () =>
      onRun((run) => {
        if (known.current.has(run.id)) {
          setShown((before) => ({ ...before, list: before.list.map((one) => (one.id === run.id ? { ...one, ...run } : one)) }));
        } else if (fits(run, filters)) {
          setFresh((before) => new Map(before).set(run.id, run));
        }
      }),
    [key],
  );
  const more = async () => {
    try {
      const answer = await load(shown.next);
      setShown((before) => ({ ...before, list: [...before.list, ...items(answer).filter((run) => !known.current.has(run.id))], next: answer.next ?? null }));
    } catch (problem) {
      setShown((before) => ({ ...before, problem }));
    }
  };
  return { ...shown, fresh: [...fresh.values()].filter((run) => !known.current.has(run.id)), again: () => setRound((n) => n + 1), more };
}

export function RunsView() {
  const filters = filtersOf(route.value.query);
  const runs = useRuns(filters);
  const [at, setAt] = useState(-1);
  const [chosen, setChosen] = useState(new Set());
  const last = useRef(-1);
  const words = (filters.text?.[0] ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const list = runs.list.filter((run) => matchesText(run, words));
  const toggle = (place, isRange) => {
    const next = new Set(chosen);
    const [from, to] = isRange && last.current >= 0 ? [Math.min(last.current, place), Math.max(last.current, place)] : [place, place];
    const value = !next.has(list[place].name);
    for (let one = from; one <= to; one += 1) value ? next.add(list[one].name) : next.delete(list[one].name);
    last.current = place;
    setChosen(next);
  };
  const focusRow = (place) => {
    const bounded = Math.max(0, Math.min(list.length - 1, place));
    setAt(bounded);
    document.querySelector(`[data-row="${bounded}"] a`)?.focus();
  };
  useKeys({
    j: () => focusRow(at + 1),
    k: () => focusRow(at - 1),
    x: () => at >= 0 && list[at] && toggle(at, false),
    Enter: () => list[at] && go(runAddress(list[at].name)),
    c: () => list[at] && navigator.clipboard?.writeText(list[at].id),
    Escape: () => setChosen(new Set()),
  });
  const hasFilters = Object.keys(filters).length > 0;
  return html`<div class="runs-head"><h1 tabindex="-1">Runs</h1>${may("submit") && html`<button class="primary" onClick=${() => (isNewRunOpen.value = true)}>New run</button>`}</div>
    <${Numbers} filters=${filters} />
    <${Filters} filters=${filters} />
    ${runs.fresh.length > 0 && html`<p><button class="fresh" onClick=${runs.again}>${plural(runs.fresh.length, "new run")}</button></p>`}
    ${chosen.size > 0 && html`<${Selected} names=${[...chosen]} onDone=${() => setChosen(new Set())} />`}
    ${runs.problem && html`<${ProblemView} problem=${runs.problem} retry=${runs.again} />`}
    ${runs.isBusy && !runs.list.length && html`<${Skeleton} lines=${8} />`}
    ${!runs.isBusy && !runs.problem && !list.length && html`<${Empty} hasFilters=${hasFilters} />`}
    ${list.length > 0 && html`<${Table} ...${{ list, at, chosen, toggle, isBusy: runs.isBusy, setAt }} />`}
    ${runs.next && html`<p class="more"><button onClick=${runs.more}>More runs</button> <span class="note">${runs.list.length} are shown</span></p>`}`;
}

function Empty({ hasFilters }) {
  if (hasFilters) return html`<p class="empty">No run fits these filters. ${" "}<button onClick=${() => go("/runs")}>Show all</button></p>`;
  return html`<div class="empty"><p>No runs yet. Submit a team from a terminal:</p><${CommandLine} command=${`strata-host submit team.toml --server ${location.origin}`} />
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
  }, [day, round, epoch.value]);
  const waiting = new Set([...requests.value.values()].map((request) => request.run)).size;
  const since = new Date(day).toISOString();
  const number = (name, value, status, more = {}) => {
    const isOn = filters.status?.length === 1 && filters.status[0] === status && Boolean(filters.since) === Boolean(more.since);
    const change = isOn ? { status: null, since: null, state: null } : { status, since: null, state: null, ...more };
    return html`<button class="number" aria-pressed=${isOn} onClick=${() => setQuery(change, { replace: false })}><span class="value">${value ?? "–"}</span><span>${name}</span></button>`;
  };
  return html`<div class="numbers" role="group" aria-label="Numbers, which are filters">
    ${number("waiting", counts?.waiting ?? waiting, "waiting")}
    ${number("failed", counts ? counts.failed : needs.value.faults.length, "failed")}
    ${number("running", counts?.running, "running")}
    ${number("queued", counts?.queued, "queued")}
    ${number("done today", counts?.done, "done", { since })}
    <div class="number"><span class="value">${counts ? `${counts.isPartial ? "≥ " : ""}${money(counts.spent)}` : "–"}</span><span>spent today</span></div>
  </div>`;
}

/** What was counted last: shared with the bar. */
export const spentToday = signal(null);

const counted = (query, signal) => call(withQuery("/v1/runs", { ...query, limit: COUNTED }), { signal }).then((answer) => ({ list: items(answer), isPartial: Boolean(answer.next) }));

async function loadToday(day, signal) {
  const today = await counted({ since: new Date(day).toISOString() }, signal);
  const spent = today.list.reduce((sum, run) => sum + (Number(run.spent) || 0), 0);
  spentToday.value = { spent, isPartial: today.isPartial };
  return { ...today, spent };
}

async function loadCounts(day, signal) {
  const list = (query) => counted(query, signal);
  const [waiting, failed, running, queued, today] = await Promise.all([
    list({ status: "waiting" }), list({ status: "failed" }), list({ state: "running" }), list({ state: "queued" }), loadToday(day, signal),
  ]);
  const size = ({ list: all, isPartial }) => (isPartial ? `${all.length}+` : all.length);
  return {
    waiting: size(waiting), failed: size(failed), running: size(running), queued: size(queued),
    done: today.list.filter((run) => run.status === "done").length, spent: today.spent, isPartial: today.isPartial,
  };
}

/** Reads what was spent today, for the bar of views that do not show the numbers. */
export const loadSpentToday = () => loadToday(startOfDay(Date.now())).catch(() => {});

function Filters({ filters }) {
  const field = useRef(null);
  const [text, setText] = useState(filters.text?.[0] ?? "");
  const timer = useRef(0);
  useKeys({ "/": () => field.current?.focus() });
  useEffect(() => setText(filters.text?.[0] ?? ""), [filters.text?.[0]]);
  const recent = useMemo(() => choice("filters") ?? [], [JSON.stringify(filters)]);
  const search = (value) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setQuery({ text: value }), 150);
  };
  const chips = Object.entries(filters).filter(([name]) => name !== "text").flatMap(([name, values]) => values.map((value) => [name, value]));
  useEffect(() => {
    if (!chips.length) return;
    const address = location.search;
    keepChoice("filters", [address, ...(choice("filters") ?? []).filter((one) => one !== address)].slice(0, MAX_KEPT_FILTERS));
  }, [JSON.stringify(chips)]);
  const remove = (name, value) => setQuery({ [name]: filters[name].filter((one) => one !== value) }, { replace: false });
  return html`<div class="filters" role="search">
    <label class="sr" for="runs-search">Search names and ideas</label>
    <input id="runs-search" type="search" ref=${field} placeholder="Name or idea ( / )" value=${text} onInput=${(event) => search(event.target.value)} onKeyDown=${(event) => event.key === "Escape" && event.target.blur()} />
    ${chips.map(([name, value]) => html`<span class="chip on" key=${`${name}=${value}`}>${name}: ${shownValue(name, value)} <button class="close" aria-label=${`Remove ${name} ${value}`} onClick=${() => remove(name, value)}>✕</button></span>`)}
    <${AddFilter} filters=${filters} />
    ${chips.length > 0 && html`<button class="small" onClick=${() => go("/runs")}>Clear</button>`}
    ${recent.length > 0 && html`<details class="inline"><summary>Last filters</summary><ul class="plain">${recent.map((address) => html`<li key=${address}><${Link} to=${`/runs${address}`}>${[...new URLSearchParams(address)].map(([name, value]) => `${name}: ${shownValue(name, value)}`).join(", ")}<//></li>`)}</ul></details>`}
  </div>`;
}

const shownValue = (name, value) => (name === "since" || name === "until" ? relative(value, coarseNow.value) : value);

const STATUSES = ["running", "waiting", "failed", "done", "out-of-budget", "in-doubt", "stalled", "step-limit", "paused", "interrupted", "cancelled"];

function AddFilter({ filters }) {
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const add = (event) => {
    event?.preventDefault();
    if (!name || !value) return;
    setQuery({ [name]: [...new Set([...(filters[name] ?? []), time(name, value)])] }, { replace: false });
    setName("");
    setValue("");
  };
  return html`<form class="add-filter" onSubmit=${add}>
    <select aria-label="Add a filter" value=${name} onChange=${typed(setName)}><option value="">+ Filter</option><option value="status">status</option>
      <option value="team">team</option><option value="by">by</option><option value="label">label</option><option value="prefix">name begins with</option><option value="since">since</option><option value="until">until</option></select>
    ${name === "status" && html`<select aria-label="Status" value=${value} onChange=${(event) => setQuery({ status: [...(filters.status ?? []), event.target.value] }, { replace: false }) ?? setName("")}><option value="">Choose…</option>${STATUSES.map((one) => html`<option value=${one}>${one}</option>`)}</select>`}
    ${name && name !== "status" && html`<input type=${name === "since" || name === "until" ? "datetime-local" : "text"} aria-label=${name} placeholder=${name === "label" ? "KEY=VALUE" : ""} value=${value} onInput=${typed(setValue)} /><button type="submit" class="small">Add</button>`}
  </form>`;
}

const time = (name, value) => (name === "since" || name === "until" ? new Date(value).toISOString() : value);

function activity(run) {
  if (run.state === "queued") return "waits for a worker";
  if (run.state === "refused") return run.problem ?? "refused";
  if (run.status === "waiting") {
    const asked = requestsOf(run);
    const roles = rolesOf(asked);
    const since = asked.map((request) => Date.parse(request.opened)).filter(Number.isFinite).sort((a, b) => a - b)[0];
    const who = roles.length ? `waits for ${roles.slice(0, 3).join(", ")}` : `waits for ${plural(run.requests || 1, "answer")}`;
    return since ? `${who}, ${relative(since, coarseNow.value).replace(" ago", "")}` : who;
  }
  if (run.state === "running") return run.requests > 0 ? `at work, ${plural(run.requests, "question")} open` : "at work";
  if (run.faults > 0) return plural(run.faults, "fault");
  return "";
}

function Table({ list, at, chosen, toggle, isBusy, setAt }) {
  const isStale = state.value === "lost";
  return html`<div class=${isBusy || isStale ? "scroll dimmed" : "scroll"} tabindex="-1"><table class="runs">
    <thead><tr><th class="check"><span class="sr">Select</span></th><th>State</th><th>Name</th><th class="wide">Team</th><th class="num">Step</th><th>Now</th><th class="num">Spent</th><th>Updated</th><th class="wide">By</th></tr></thead>
    <tbody>${list.map(
      (run, place) => html`<tr key=${run.id} data-row=${place} class=${place === at ? "current" : ""} aria-selected=${chosen.has(run.name)} onFocusIn=${() => setAt(place)}>
        <td class="check"><input type="checkbox" aria-label=${`Select ${run.name}`} checked=${chosen.has(run.name)} onClick=${(event) => toggle(place, event.shiftKey)} /></td>
        <td><${StatusTag} status=${statusOf(run)} /></td>
        <td class="name"><${Link} to=${runAddress(run.name)}>${run.name}<//>${run.idea && html`<span class="idea-line note">${oneLine(run.idea).slice(0, 120)}</span>`}</td>
        <td class="wide">${run.team}</td><td class="num">${run.step ?? ""}</td><td class="now">${activity(run)}</td>
        <td class="num"><${Spent} spent=${run.spent} budget=${run.budget} /></td><td class="when"><${Time} at=${run.updated} /></td><td class="wide">${run.by}</td></tr>`,
    )}</tbody></table></div>`;
}

function Selected({ names, onDone }) {
  const [asked, setAsked] = useState(null);
  const [results, setResults] = useState(null);
  const carryOut = async () => {
    try {
      setResults(await bulk(asked, names));
    } catch (problem) {
      toastProblem(`Not done (${asked})`, problem);
      setAsked(null);
    }
  };
  const verb = asked && asked[0].toUpperCase() + asked.slice(1);
  return html`<div class="selected card" role="region" aria-label="Selected runs"><b>${plural(names.length, "run")} selected</b>
    ${may("operate", "submit") && ["cancel", "pause", "resume", "prune"].map((what) => html`<button key=${what} onClick=${() => setAsked(what)}>${what[0].toUpperCase() + what.slice(1)}…</button>`)}
    <${CopyButton} text=${names.join("\n")} label="Copy names" /><button class="small" onClick=${onDone}>Clear</button>
    ${asked && html`<${Sheet} isNarrow title=${`${verb} ${plural(names.length, "run")}`} onClose=${() => {
      setAsked(null);
      if (results) onDone();
      setResults(null);
    }}>
      ${results
        ? html`<ul class="results">${results.results.map(({ run, problem }) => html`<li><b>${run}</b> ${problem ? html`<span class="bad-text">${problem.detail ?? problem.title}</span>` : html`<span class="mark ok">✓</span>`}</li>`)}</ul>`
        : html`<ul class="results">${names.map((name) => html`<li>${name}</li>`)}</ul><p class="controls"><button class="primary" data-first onClick=${carryOut}>${verb}</button></p>`}
    <//>`}
  </div>`;
}
