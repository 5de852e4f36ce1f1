// One run: its head, what it needs, and its tabs.

import { html, useEffect, useLayoutEffect, useMemo, useState } from "./dom.js";
import { toast } from "./announce.js";
import { runPath } from "./api.js";
import { CallsTab } from "./calls_tab.js";
import { returns } from "./connection.js";
import { ConversationTab } from "./conversation_tab.js";
import { EventsTab } from "./events_tab.js";
import { FilesTab } from "./files_tab.js";
import { ForkSheet } from "./fork_sheet.js";
import { Graph } from "./graph.js";
import { Inspector } from "./inspector.js";
import { neighbour, useKeys } from "./keys.js";
import { OverviewTab } from "./overview_tab.js";
import { RequestItem } from "./request_item.js";
import { focusTitle, go, Link, route, runAddress, selectEvent, selection } from "./router.js";
import { ask, copyAndTell, deleteRun, download } from "./run_actions.js";
import { RunData } from "./run_data.js";
import { attemptOfEvent } from "./run_model.js";
import { RunNeeds } from "./run_needs.js";
import { SendSheet } from "./send_sheet.js";
import { StateTab } from "./state_tab.js";
import { StatusTag, statusOf } from "./status.js";
import { byExpiry, doing, epoch, requestsOf } from "./store.js";
import { onServer, quoted } from "./texts.js";
import { Timeline } from "./timeline.js";
import { addressOf, mayOperate } from "./token.js";
import { encode, oneLine } from "./visible.js";
import { ActionButton, Boundary, Elapsed, Menu, ProblemView, Sheet, Skeleton, Spent, Time } from "./widgets.js";

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
  useEffect(() => {
    if (data.problem.value) data.start();
  }, [returns.value]);
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

function Doing({ data, run }) {
  data.version.value;
  const atWork = [...data.model.roles.values()].filter((role) => role.open.size > 0).map((role) => role.name);
  const words = doing(run, atWork.length ? atWork : run.at_work);
  return html`${words}${run.ended && run.state === "ended" && html`${words && ", "}ended <${Time} at=${run.ended} />`}`;
}

function Head({ data, run }) {
  const [sheet, setSheet] = useState(null);
  const may = mayOperate(run);
  const isActive = ["running", "queued", "resting"].includes(run.state);
  // The title of what was shown while the run was loaded is gone.
  useLayoutEffect(() => {
    if (document.activeElement === document.body) focusTitle();
  }, []);
  useKeys({
    s: () => may && setSheet("send"),
    c: () => copyAndTell(run.id, "The id"),
  });
  const close = () => setSheet(null);
  const last = data.model.checkpoints.at(-1);
  const [origin, at] = run.forked_from?.split("@") ?? [];
  return html`<header class="run-head">
    <div class="run-title"><h1 tabindex="-1">${addressOf(run)}</h1><${StatusTag} status=${statusOf(run)} /><span class="doing"><${Doing} data=${data} run=${run} /></span></div>
    <div class="run-facts"><span>step <b>${run.step ?? 0}</b></span><span><${Elapsed} from=${run.created} to=${run.state === "running" || run.state === "queued" ? null : (run.ended ?? run.updated)} /></span>
      <span><${Spent} spent=${run.spent} budget=${run.budget} /></span><span class="note">${run.team}${run.lineage && run.lineage !== "main" && `, lineage ${run.lineage}`}${origin && html`, forked from <${Link} to=${runAddress(origin, "state", `at:${at}`)}>${at}<//>`}</span></div>
    <div class="run-actions">
      ${may && html`<${ActionButton} onClick=${() => setSheet("send")}>Send<//>`}
      ${may && run.state === "running" && html`<${ActionButton} onClick=${() => ask(run, "pause")}>Pause<//>`}
      ${may && (run.status === "paused" || run.status === "interrupted") && html`<${ActionButton} class="primary" onClick=${() => ask(run, "resume")}>Resume<//>`}
      ${may && isActive && html`<${ActionButton} onClick=${() => setSheet("cancel")}>Cancel…<//>`}
      <${Menu} label="⋯" title="More"><${MoreActions} ...${{ run, may, setSheet }} /><//>
    </div>
    ${sheet === "send" && html`<${SendSheet} run=${run} data=${data} onClose=${close} />`}
    ${sheet === "fork" && html`<${ForkSheet} run=${run} at=${last?.id ?? run.checkpoint} step=${last?.step} onClose=${close} />`}
    ${sheet === "cancel" && html`<${Confirm} title=${`Cancel ${run.name}`} text="The run ends. What it did stays, and it can be forked." word="Cancel the run" onClose=${close} act=${() => ask(run, "cancel")} />`}
    ${sheet === "delete" && html`<${Confirm} title=${`Delete ${run.name}`} text="The run, its events and the files that only it has are removed. This cannot be undone." word="Delete the run" onClose=${close}
      act=${async () => (await deleteRun(run)) && go("/runs")} />`}
  </header>`;
}

function MoreActions({ run, may, setSheet }) {
  const canResume = !["running", "queued"].includes(run.state) && run.status !== "done";
  return html`${may && html`<${ActionButton} disabled=${!run.checkpoint} onClick=${() => setSheet("fork")}>Fork…<//>`}
    ${may && canResume && html`<${ActionButton} onClick=${() => ask(run, "resume")}>Resume<//>`}
    <${Link} to=${`/compare?a=${encode(addressOf(run))}`}>Compare…<//>
    <${ActionButton} onClick=${() => download(runPath(run, "report"), `${run.name}.html`)}>Report<//>
    <button onClick=${() => copyAndTell(onServer(`inspect ${quoted(addressOf(run))}`), "The command")}>Copy the command</button>
    <button onClick=${() => copyAndTell(run.id, "The id")}>Copy the id</button>
    ${may && run.state !== "running" && html`<${ActionButton} class="bad" onClick=${() => setSheet("delete")}>Delete…<//>`}`;
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
  const [answered, setAnswered] = useState([]);
  const leave = (request) => {
    setAnswered((before) => [...before, request]);
    setTimeout(() => setAnswered((before) => before.filter((one) => one !== request)), 3000);
  };
  const waiting = requestsOf(run).filter((request) => !answered.some((one) => one.id === request.id)).sort(byExpiry);
  return html`${answered.map((request) => html`<p key=${request.id} class="panel done-line" role="status"><span class="mark ok" aria-hidden="true">✓</span> <b>${request.role}</b>: Answered, continuing.</p>`)}
    ${waiting.map((request, at) => html`<${Asked} key=${request.id} request=${request} isFirst=${at === 0} onAnswered=${leave} />`)}
    ${data.isLoaded.value && html`<${RunNeeds} run=${run} model=${data.model} />`}`;
}

/** The first question is shown in full, others are a line that opens. */
function Asked({ request, isFirst, onAnswered }) {
  const [isOpen, setOpen] = useState(false);
  const item = () => html`<${RequestItem} request=${request} isInRun onAnswered=${onAnswered} />`;
  if (isFirst) return item();
  return html`<details class="panel held more-items" onToggle=${(event) => setOpen(event.target.open)}><summary><b>${request.role}</b> ${oneLine(request.question ?? "").slice(0, 160)}</summary>${isOpen && item()}</details>`;
}

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

function stepFailure(data, by) {
  const failures = data.model.failures.map((attempt) => attempt.endEvent).sort((a, b) => a - b);
  if (!failures.length) return toast("Nothing failed");
  const { event } = selection();
  const current = event === undefined ? null : (attemptOfEvent(data.model, event)?.endEvent ?? event);
  const next = by > 0 ? failures.find((n) => current === null || n > current) : failures.findLast((n) => current === null || n < current);
  selectEvent(next ?? neighbour(failures, -1, by));
}

function RunBody({ data, run, tab }) {
  useKeys({ f: () => stepFailure(data, 1), F: () => stepFailure(data, -1) });
  const isWide = useMedia("(min-width: 70rem)");
  const retry = () => data.loadEvents();
  const problem = data.eventsProblem.value;
  if (problem && !data.events.length) return html`<div id="tab-panel" role="tabpanel" aria-labelledby=${`tab-${tab}`}><${ProblemView} problem=${problem} retry=${retry} /></div>`;
  const isGraphical = tab === "overview" || tab === "timeline";
  const show = (Part, key) => html`<${Part} key=${key} data=${data} run=${run} />`;
  const inspector = isWide && html`<aside class="inspector" aria-label="What is selected">${show(Inspector)}</aside>`;
  const hasEnded = run.state === "ended";
  // While a run goes on, what grows is below what does not.
  const parts = {
    overview: { result: hasEnded && OverviewTab, graph: Graph, timeline: isWide && Timeline, soFar: !hasEnded && OverviewTab },
    timeline: { graph: isWide && Graph, timeline: Timeline, inspector: !isWide && Inspector },
    conversation: { ConversationTab }, calls: { CallsTab }, files: { FilesTab }, state: { StateTab }, events: { EventsTab },
  }[tab];
  return html`<div id="tab-panel" role="tabpanel" aria-labelledby=${`tab-${tab}`} class=${isGraphical && isWide ? "with-inspector" : ""}><div class="tab-content"><${Boundary} of=${tab}>${Object.entries(parts).map(([key, Part]) => Part && show(Part, key))}<//></div>${isGraphical && inspector}</div>`;
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
