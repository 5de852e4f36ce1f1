// One run: its head, what it needs, and its tabs.

import { html, useEffect, useMemo, useState } from "./dom.js";
import { Boundary } from "./boundary.js";
import { isOnline, state } from "./connection.js";
import { CallsTab } from "./calls_tab.js";
import { ConversationTab } from "./conversation_tab.js";
import { EventsTab } from "./events_tab.js";
import { plural } from "./figures.js";
import { FilesTab } from "./files_tab.js";
import { ForkSheet } from "./fork_sheet.js";
import { Graph } from "./graph.js";
import { Inspector } from "./inspector.js";
import { useKeys } from "./keys.js";
import { OverviewTab } from "./overview_tab.js";
import { RequestItem } from "./request_item.js";
import { encode, focusTitle, go, Link, route, runAddress } from "./router.js";
import { ask, deleteRun } from "./run_actions.js";
import { RunData } from "./run_data.js";
import { RunNeeds } from "./run_needs.js";
import { attemptOfEvent, selectEvent, selection } from "./selection.js";
import { SendSheet } from "./send_sheet.js";
import { StateTab } from "./state_tab.js";
import { StatusTag, statusOf } from "./status.js";
import { byExpiry, epoch, requestsOf, rolesOf } from "./store.js";
import { Timeline } from "./timeline.js";
import { toast } from "./toast.js";
import { mayOperate } from "./token.js";
import { oneLine } from "./visible.js";
import { copy, Elapsed, Menu, ProblemView, Sheet, Skeleton, Spent, Time, quoted } from "./widgets.js";

const TABS = [
  ["overview", "Overview"], ["timeline", "Timeline"], ["conversation", "Conversation"], ["calls", "Calls"], ["files", "Files"],
  ["state", "State"], ["events", "Events"],
];

export function RunView({ name }) {
  const data = useMemo(() => new RunData(name), [name]);
  useEffect(() => {
    data.start();
    return () => data.stop();
  }, [data]);
  // A reset reads everything again.
  useEffect(() => {
    if (data.isLoaded.value) data.loadRun();
  }, [epoch.value]);
  const run = data.run.value;
  const problem = data.problem.value;
  if (problem) return html`<h1 tabindex="-1">${name}</h1><${ProblemView} problem=${problem} retry=${() => data.start()} />${problem.status === 410 && html`<p class="note">The run was pruned; its newest state may still be there.</p>`}`;
  if (!run) return html`<h1 tabindex="-1">${name}</h1><${Skeleton} lines=${10} />`;
  const tab = TABS.find(([id]) => id === route.value.segments[2])?.[0] ?? "overview";
  return html`<${Head} data=${data} run=${run} />
    <${Waiting} data=${data} run=${run} />
    <${Tabs} name=${name} tab=${tab} />
    <${RunBody} data=${data} run=${run} tab=${tab} />`;
}

function rolesAtWork(data) {
  data.version.value;
  return [...data.model.roles.values()].filter((role) => role.open.size > 0).map((role) => role.name);
}

function Doing({ data, run }) {
  if (run.state === "queued") return "waits for a worker";
  if (run.status === "waiting" || run.requests > 0) {
    const roles = rolesOf(requestsOf(run));
    if (roles.length) return `waits for ${roles.slice(0, 4).join(", ")}`;
    if (run.status === "waiting") return `waits for ${plural(run.requests, "answer")}`;
  }
  if (run.state === "running") {
    const roles = rolesAtWork(data);
    return roles.length ? `at work: ${roles.slice(0, 4).join(", ")}${roles.length > 4 ? ` and ${roles.length - 4} more` : ""}` : "at work";
  }
  return run.ended ? html`ended <${Time} at=${run.ended} />` : "";
}

function Head({ data, run }) {
  const [sheet, setSheet] = useState(null);
  const offline = (state.value, !isOnline());
  const may = mayOperate(run);
  const isActive = ["running", "queued", "resting"].includes(run.state);
  // The title of what was shown while the run was loaded is gone.
  useEffect(() => {
    if (document.activeElement === document.body) focusTitle();
  }, []);
  const title = offline ? "There is no connection to the server" : undefined;
  useKeys({
    s: () => may && setSheet("send"),
    c: async () => (await copy(run.id)) && toast("The id is copied"),
  });
  const button = (text, act, more = {}) => html`<button disabled=${offline} title=${title} onClick=${act} ...${more}>${text}</button>`;
  return html`<header class="run-head">
    <div class="run-title"><h1 tabindex="-1">${run.name}</h1><${StatusTag} status=${statusOf(run)} /><span class="doing"><${Doing} data=${data} run=${run} /></span></div>
    <div class="run-facts"><span>step <b>${run.step ?? 0}</b></span><span><${Elapsed} from=${run.created} to=${run.state === "running" || run.state === "queued" ? null : (run.ended ?? run.updated)} /></span>
      <span><${Spent} spent=${run.spent} budget=${run.budget} /></span><span class="note">${run.team}${run.lineage && html`, lineage ${run.lineage}`}</span></div>
    <div class="run-actions">
      ${may && button("Send", () => setSheet("send"))}
      ${may && run.state === "running" && button("Pause", () => ask(run, "pause"))}
      ${may && (run.status === "paused" || run.status === "interrupted") && button("Resume", () => ask(run, "resume"), { class: "primary" })}
      ${may && isActive && button("Cancel…", () => setSheet("cancel"))}
      <${Menu} label="⋯" title="More"><${MoreActions} ...${{ run, may, offline, setSheet }} /><//>
    </div>
    ${sheet === "send" && html`<${SendSheet} run=${run} data=${data} onClose=${() => setSheet(null)} />`}
    ${sheet === "fork" && html`<${ForkSheet} run=${run} at=${data.model.checkpoints.at(-1)?.id ?? run.checkpoint} step=${data.model.checkpoints.at(-1)?.step} onClose=${() => setSheet(null)} />`}
    ${sheet === "cancel" && html`<${Confirm} title=${`Cancel ${run.name}`} text="The run ends. What it did stays, and it can be forked." word="Cancel the run" onClose=${() => setSheet(null)} act=${() => ask(run, "cancel")} />`}
    ${sheet === "delete" && html`<${Confirm} title=${`Delete ${run.name}`} text="The run, its events and the files that only it has are removed. This cannot be undone." word="Delete the run" onClose=${() => setSheet(null)}
      act=${async () => (await deleteRun(run)) && go("/runs")} />`}
  </header>`;
}

function MoreActions({ run, may, offline, setSheet }) {
  const at = run.checkpoint;
  return html`${may && html`<button disabled=${offline || !at} onClick=${() => setSheet("fork")}>Fork…</button>`}
    ${may && !["running", "queued"].includes(run.state) && run.status !== "done" && html`<button disabled=${offline} onClick=${() => ask(run, "resume")}>Resume</button>`}
    <${Link} to=${`/compare?a=${encode(run.name)}`}>Compare…<//>
    <button onClick=${async () => (await copy(`strata-host inspect ${quoted(run.name)} --server ${location.origin}`)) && toast("The command is copied")}>Copy the command</button>
    <button onClick=${async () => (await copy(run.id)) && toast("The id is copied")}>Copy the id</button>
    ${may && run.state !== "running" && html`<button class="bad" disabled=${offline} onClick=${() => setSheet("delete")}>Delete…</button>`}`;
}

function Confirm({ title, text, word, act, onClose }) {
  const confirm = () => {
    onClose();
    act();
  };
  return html`<${Sheet} title=${title} isNarrow onClose=${onClose}><p>${text}</p><p class="controls"><button class="bad" data-first onClick=${confirm}>${word}</button><button onClick=${onClose}>Back</button></p><//>`;
}

function Waiting({ data, run }) {
  data.version.value;
  const open = requestsOf(run);
  const [answered, setAnswered] = useState([]);
  const leave = (request) => {
    setAnswered((before) => [...before, request]);
    setTimeout(() => setAnswered((before) => before.filter((one) => one !== request)), 3000);
  };
  // The events say more of a question than its list does.
  const item = (request) => html`<${RequestItem} key=${request.id} request=${{ ...detailsOf(data.model.requests.get(request.id)), ...request }} isInRun onAnswered=${leave} />`;
  const isAnswered = (request) => answered.some((one) => one.id === request.id);
  const waiting = open.filter((request) => !isAnswered(request)).sort(byExpiry);
  return html`${answered.map((request) => html`<p key=${request.id} class="panel done-line" role="status"><span class="mark ok" aria-hidden="true">✓</span> <b>${request.role}</b>: Answered, continuing.</p>`)}
    ${waiting.map((request, at) => (at === 0 ? item(request) : html`<details key=${request.id} class="panel held more-items"><summary><b>${request.role}</b> ${oneLine(request.question ?? "").slice(0, 160)}</summary>${item(request)}</details>`))}
    ${data.isLoaded.value && html`<${RunNeeds} run=${run} model=${data.model} />`}`;
}

const detailsOf = (event) => (event ? { opened: event.time, input_schema: event.input_schema } : {});

function Tabs({ name, tab }) {
  const choose = (id) => go(runAddress(name, id, route.value.hash));
  useKeys(Object.fromEntries(TABS.map(([id], i) => [String(i + 1), () => choose(id)])));
  const key = (event) => {
    const at = TABS.findIndex(([id]) => id === tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (to === undefined || !TABS[to]) return;
    event.preventDefault();
    choose(TABS[to][0]);
    document.getElementById(`tab-${TABS[to][0]}`)?.focus();
  };
  // On a narrow screen the tabs are scrolled; what is above and below stays where it is.
  useEffect(() => {
    const chosen = document.getElementById(`tab-${tab}`);
    const left = chosen.offsetLeft - chosen.parentElement.offsetLeft;
    const box = chosen.parentElement;
    if (left < box.scrollLeft || left + chosen.offsetWidth > box.scrollLeft + box.clientWidth) box.scrollLeft = left - (box.clientWidth - chosen.offsetWidth) / 2;
  }, [tab]);
  return html`<div class="tabs" role="tablist" aria-label="Parts of the run" onKeyDown=${key}>${TABS.map(
    ([id, text]) => html`<${Link} key=${id} to=${runAddress(name, id, route.value.hash)} id=${`tab-${id}`} role="tab" aria-selected=${id === tab} aria-controls="tab-panel" tabindex=${id === tab ? "0" : "-1"}>${text}<//>`,
  )}</div>`;
}

function useFailures(data) {
  useKeys({
    f: () => stepFailure(data, 1),
    F: () => stepFailure(data, -1),
  });
}

function stepFailure(data, by) {
  const failures = data.model.attempts.filter((attempt) => attempt.fault).map((attempt) => attempt.endEvent).sort((a, b) => a - b);
  if (!failures.length) return toast("Nothing failed");
  const { event } = selection();
  const current = event === undefined ? null : (attemptOfEvent(data.model, event)?.endEvent ?? event);
  const next = by > 0 ? failures.find((n) => current === null || n > current) : failures.findLast((n) => current === null || n < current);
  selectEvent(next ?? (by > 0 ? failures[0] : failures.at(-1)));
}

function RunBody({ data, run, tab }) {
  useFailures(data);
  const isWide = useMedia("(min-width: 70rem)");
  const retry = () => data.loadEvents();
  const problem = data.eventsProblem.value;
  if (problem && !data.events.length) return html`<div id="tab-panel" role="tabpanel" aria-labelledby=${`tab-${tab}`}><${ProblemView} problem=${problem} retry=${retry} /></div>`;
  const isGraphical = tab === "overview" || tab === "timeline";
  const inspector = isWide && html`<aside class="inspector" aria-label="What is selected"><${Inspector} data=${data} run=${run} /></aside>`;
  const content = {
    // While a run goes on, what grows is below what does not.
    overview: () => html`${run.state === "ended" && html`<${OverviewTab} key="result" data=${data} run=${run} />`}<${Graph} key="graph" data=${data} run=${run} />${isWide && html`<${Timeline} key="timeline" data=${data} run=${run} />`}
      ${run.state !== "ended" && html`<${OverviewTab} key="so-far" data=${data} run=${run} />`}`,
    timeline: () => html`${isWide && html`<${Graph} data=${data} run=${run} />`}<${Timeline} data=${data} run=${run} />${!isWide && html`<${Inspector} data=${data} run=${run} />`}`,
    conversation: () => html`<${ConversationTab} data=${data} run=${run} />`,
    calls: () => html`<${CallsTab} data=${data} run=${run} />`,
    files: () => html`<${FilesTab} data=${data} run=${run} />`,
    state: () => html`<${StateTab} data=${data} run=${run} />`,
    events: () => html`<${EventsTab} data=${data} run=${run} />`,
  }[tab];
  return html`<div id="tab-panel" role="tabpanel" aria-labelledby=${`tab-${tab}`} class=${isGraphical && isWide ? "with-inspector" : ""}><div class="tab-content"><${Boundary} of=${tab}>${content()}<//></div>${isGraphical && inspector}</div>`;
}

function useMedia(query) {
  const list = useMemo(() => window.matchMedia(query), [query]);
  const [isMatch, setMatch] = useState(list.matches);
  useEffect(() => {
    const change = () => setMatch(list.matches);
    list.addEventListener("change", change);
    return () => list.removeEventListener("change", change);
  }, [list]);
  return isMatch;
}
