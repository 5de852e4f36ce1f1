// The server: its workers, what waits in the queue, and its tokens.

import { html, useState } from "./dom.js";
import { call, items, orElse, post, withQuery } from "./api.js";
import { plural, wholeDuration } from "./figures.js";
import { Field, Form } from "./forms.js";
import { Link, runAddress } from "./router.js";
import { carryOut } from "./run_actions.js";
import { CopyButton } from "./texts.js";
import { addressOf, identity } from "./token.js";
import { encode } from "./visible.js";
import { ActionButton, Check, Listed, Table, Time, useFields, useLoaded, whenLoaded } from "./widgets.js";

async function load(signal) {
  const get = (path) => orElse(call(path, { signal }), null);
  const [workers, triggers, tokens, queued, health] = await Promise.all(["/v1/workers", "/v1/triggers?limit=500", "/v1/tokens", "/v1/runs?state=queued&state=refused&limit=500", "/health"].map(get));
  return { workers, triggers, tokens, queued, version: health?.version };
}

export function ServerView() {
  const state = useLoaded(load);
  const again = state[2];
  return html`<h1 tabindex="-1">Server</h1>${whenLoaded(state, ({ workers, triggers, tokens, queued, version }) => html`
    <p class="note server-line">${location.host}${version && `, version ${version}`}${identity.value?.tenant && `, tenant ${identity.value.tenant}`}${workers?.database && html`, database <code>${workers.database}</code>`}. <button class="small" onClick=${again}>Read again</button></p>
    ${workers && html`<${Workers} list=${items(workers)} />`}
    <${Queue} list=${items(queued)} />
    ${triggers && html`<${Triggers} list=${items(triggers)} again=${again} />`}
    ${tokens && html`<${Tokens} list=${items(tokens)} again=${again} />`}`, 8)}`;
}

function Workers({ list }) {
  if (!list.length) return html`<section><h2>Workers</h2><p class="none">No worker takes runs.</p></section>`;
  return html`<section><h2>Workers <span class="count">${list.length}</span></h2><${Table} heads=${["Worker", "Machine", "Version", "Labels", "#Runs", "#Room", "Beat"]}>
    ${list.map((worker) => html`<tr key=${worker.id}><td>${String(worker.id).slice(0, 13)}</td><td>${worker.host}</td><td>${worker.version}</td><td>${worker.labels.join(", ")}</td>
      <td class="num">${worker.runs}</td><td class="num">${worker.room}</td><td>${beatOf(worker)}</td></tr>`)}<//></section>`;
}

const beatOf = (worker) => `${wholeDuration(worker.beat_age_ms)} ago${worker.draining ? ", draining" : ""}`;

function Triggers({ list, again }) {
  if (!list.length) return null;
  const fire = async (one) => (await carryOut(() => post(`/v1/triggers/${encode(one.name)}/fire`), `Fired: ${one.name}`, "Not fired")) && again();
  return html`<section><h2>Triggers <span class="count">${list.length}</span></h2><${Table} heads=${["Trigger", "Run", "Next", "Last", "Missed", ""]}>
    ${list.map((one) => html`<tr key=${`${one.run} ${one.name}`}><td>${one.name}<span class="note"> ${one.cron ?? (one.hook && "hook")} ${one.tz}</span></td><td>${one.run && html`<${Link} to=${runAddress(one)}>${addressOf(one)}<//>`}</td><td><${Time} at=${one.next} /></td><td><${Time} at=${one.last} /></td>
      <td>${Array.isArray(one.missed) ? plural(one.missed.length, "time") : typeof one.missed === "number" ? plural(one.missed, "time") : html`<${Time} at=${one.missed} />`}</td><td><${ActionButton} class="small" onClick=${() => fire(one)}>Fire now<//></td></tr>`)}<//></section>`;
}

const Queue = ({ list }) => html`<${Listed} title="Queue" list=${list} none="Nothing waits for a worker." show=${(run) => html`<li key=${run.id}><${Link} to=${runAddress(run)}>${addressOf(run)}<//> <span class="note">${run.state}, <${Time} at=${run.created} /></span>${run.problem && html` <span class="bad-text">${run.problem}</span>`}</li>`} />`;

function Tokens({ list, again }) {
  const revoke = async ({ name, tenant }) => {
    // A token without a tenant revokes those of any.
    const path = withQuery(`/v1/tokens/${encode(name)}`, { tenant: identity.value?.tenant ? null : tenant });
    if (await carryOut(() => call(path, { method: "DELETE" }), `Revoked: ${name}`, "Not revoked")) again();
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
  const [form, take] = useFields({ name: "", tenant: "" });
  const [rights, setRights] = useState(["view"]);
  const own = identity.value?.tenant;
  const send = async (key) => {
    const of = own ?? form.tenant.trim();
    setMade(await post("/v1/tokens", { name: form.name.trim(), rights, ...(of ? { tenant: of } : {}) }, { key }));
    again();
  };
  const toggle = (right) => setRights(rights.includes(right) ? rights.filter((one) => one !== right) : [...rights, right]);
  return html`${made && html`<div class="panel live" role="status"><p>The token <b>${made.name}</b>. It is shown once:</p><pre class="command" tabindex="0"><code>${made.token}</code></pre><${CopyButton} text=${made.token} /></div>`}
    <details class="source"><summary>New token</summary><${Form} send=${send} word="Make a token" canSend=${form.name.trim() && rights.length}><${Field} label="Name" value=${form.name} take=${take("name")} />
    ${!own && html`<${Field} label="Tenant" note="without one it sees all" value=${form.tenant} take=${take("tenant")} />`}
    <fieldset><legend>Rights</legend>${RIGHTS.map((right) => html`<${Check} className="chip" isOn=${rights.includes(right)} take=${() => toggle(right)}>${right}<//>`)}</fieldset><//></details>`;
}
