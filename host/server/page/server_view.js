// The server: its workers, what waits in the queue, and its tokens.

import { html, useState } from "./dom.js";
import { call, items, newKey, part, post, withQuery } from "./api.js";
import { duration } from "./figures.js";
import { useFields, useSubmit } from "./forms.js";
import { Link, runAddress } from "./router.js";
import { toast, toastProblem } from "./toast.js";
import { identity } from "./token.js";
import { CopyButton, ProblemView, Table, Time, useLoaded, whenLoaded } from "./widgets.js";

/** What a token may not see is left out. */
const orNothing = (promise) => promise.catch((problem) => {
  if (problem.status === 403 || problem.status === 404) return null;
  throw problem;
});

async function load(signal) {
  const [workers, tokens, queued, document] = await Promise.all([
    orNothing(call("/v1/workers", { signal })), orNothing(call("/v1/tokens", { signal })), call("/v1/runs?state=queued&state=refused&limit=100", { signal }),
    orNothing(call("/v1/openapi.json", { signal })),
  ]);
  return { workers: workers && items(workers), tokens: tokens && items(tokens), queued: items(queued), more: Boolean(queued?.next), version: document?.info?.version };
}

export function ServerView() {
  const state = useLoaded(load, ["server"]);
  const again = state[2];
  return html`<h1 tabindex="-1">Server</h1>${whenLoaded(state, (loaded) => html`
    <p class="note server-line">${location.host}${loaded.version && html`, version ${loaded.version}`}${identity.value?.tenant && html`, tenant ${identity.value.tenant}`}. <button class="small" onClick=${again}>Read again</button></p>
    ${loaded.workers && html`<${Workers} list=${loaded.workers} />`}
    <${Queue} list=${loaded.queued} more=${loaded.more} />
    ${loaded.tokens && html`<${Tokens} list=${loaded.tokens} again=${again} />`}`, 8)}`;
}

function Workers({ list }) {
  if (!list.length) return html`<section><h2>Workers</h2><p class="none">No worker takes runs.</p></section>`;
  return html`<section><h2>Workers <span class="count">${list.length}</span></h2><${Table} heads=${["Worker", "Machine", "Version", "Labels", "#Runs", "#Room", "Beat"]}>
    ${list.map((worker) => html`<tr key=${worker.id}><td>${String(worker.id).slice(0, 13)}</td><td>${worker.host}</td><td>${worker.version}</td><td>${worker.labels.join(", ")}</td>
      <td class="num">${worker.runs}</td><td class="num">${worker.room}</td><td>${beatOf(worker)}</td></tr>`)}<//></section>`;
}

function beatOf(worker) {
  const beat = `${duration(Math.floor(worker.beat_age_ms / 1000) * 1000).replace(".0", "")} ago`;
  return worker.draining ? `${beat}, draining` : beat;
}

function Queue({ list, more }) {
  return html`<section><h2>Queue <span class="count">${list.length}${more ? "+" : ""}</span></h2>${list.length ? html`<ul class="plain">${list.map((run) => html`<li key=${run.id}><${Link} to=${runAddress(run.name)}>${run.name}<//> <span class="note">${run.state}, <${Time} at=${run.created} /></span>${run.problem && html` <span class="bad-text">${run.problem}</span>`}</li>`)}</ul>` : html`<p class="none">Nothing waits for a worker.</p>`}</section>`;
}

function Tokens({ list, again }) {
  const revoke = async ({ name, tenant }) => {
    try {
      // A token without a tenant revokes those of any.
      const of = identity.value?.tenant ? {} : { tenant };
      await call(withQuery(`/v1/tokens/${part(name)}`, of), { method: "DELETE" });
      toast(`Revoked: ${name}`);
      again();
    } catch (problem) {
      toastProblem("Not revoked", problem);
    }
  };
  return html`<section><h2>Tokens <span class="count">${list.length}</span></h2>
    <${Table} heads=${["Name", "Tenant", "Rights", "Expires", ""]}>${list.map((one) => html`<tr key=${`${one.tenant}/${one.name}`}><td>${one.name}</td><td>${one.tenant ?? "all"}</td><td>${(one.rights ?? []).join(", ")}</td><td>${one.expires ? html`<${Time} at=${one.expires} />` : "never"}</td>
      <td>${one.name !== identity.value?.name && html`<${Revoke} name=${one.name} revoke=${() => revoke(one)} />`}</td></tr>`)}<//>
    <${NewToken} again=${again} /></section>`;
}

function Revoke({ name, revoke }) {
  const [isAsked, setAsked] = useState(false);
  if (!isAsked) return html`<button class="small" aria-label=${`Revoke ${name}`} onClick=${() => setAsked(true)}>Revoke…</button>`;
  return html`<button class="small bad" onClick=${revoke}>Revoke ${name}</button> <button class="small" onClick=${() => setAsked(false)}>Back</button>`;
}

const RIGHTS = ["submit", "view", "answer", "operate", "admin"];

function NewToken({ again }) {
  const [made, setMade] = useState(null);
  const [form, set] = useFields({ name: "", tenant: "" });
  const [rights, setRights] = useState(["view"]);
  const [submit, busy, problem] = useSubmit(async () => {
    const of = identity.value?.tenant ?? form.tenant.trim();
    setMade(await post("/v1/tokens", { name: form.name.trim(), rights, ...(of ? { tenant: of } : {}) }, { key: newKey() }));
    again();
  });
  const toggle = (right) => setRights(rights.includes(right) ? rights.filter((one) => one !== right) : [...rights, right]);
  return html`${made && html`<div class="panel live" role="status"><p>The token <b>${made.name}</b>. It is shown once:</p><pre class="command" tabindex="0"><code>${made.token}</code></pre><${CopyButton} text=${made.token} /></div>`}
    <details class="source"><summary>New token</summary><form onSubmit=${submit}><label>Name<input type="text" autocomplete="off" value=${form.name} onInput=${set("name")} /></label>
    ${!identity.value?.tenant && html`<label>Tenant <span class="note">without one it sees all</span><input type="text" autocomplete="off" placeholder="default" value=${form.tenant} onInput=${set("tenant")} /></label>`}
    <fieldset><legend>Rights</legend>${RIGHTS.map((right) => html`<label class="chip"><input type="checkbox" checked=${rights.includes(right)} onChange=${() => toggle(right)} /> ${right}</label>`)}</fieldset>
    <${ProblemView} problem=${problem} /><p class="controls"><button type="submit" class="primary" disabled=${busy || !form.name.trim() || !rights.length}>Make a token</button></p></form></details>`;
}
