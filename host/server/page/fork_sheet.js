// Begins a new run from a checkpoint of another one.

import { html, useState } from "./dom.js";
import { post, runPath } from "./api.js";
import { Field, FormSheet } from "./forms.js";
import { go, runAddress } from "./router.js";
import { jsonError } from "./schema_fields.js";
import { spentOf } from "./widgets.js";

/** `scopes` are the values as of the checkpoint, by their names in the notation of `fork --set`. */
export function ForkSheet({ run, at, step, scopes = {}, onClose }) {
  const [name, setName] = useState("");
  const [changes, setChanges] = useState([]);
  const wrong = changes.map(errorOf);
  const change = (place, values) => setChanges(changes.map((one, i) => (i === place ? { ...one, ...values } : one)));
  const changeScope = (place, scope) => change(place, { scope, ...(Object.hasOwn(scopes, scope) && !changes[place].value ? { value: JSON.stringify(scopes[scope], null, 2) } : {}) });
  const send = async (key) => {
    const set = Object.fromEntries(changes.map((one) => [one.scope, JSON.parse(one.value)]));
    const made = await post(runPath(run, "fork"), { at, ...(changes.length ? { set } : {}), ...(name.trim() ? { name: name.trim() } : {}) }, { key });
    onClose();
    go(runAddress(made));
  };
  const until = step === undefined || step === null ? "up to there" : `up to step ${step}`;
  return html`<${FormSheet} title="Fork" onClose=${onClose} send=${send} word="Fork" busyWord="Forking…" canSend=${!wrong.some(Boolean)}>
    <p>A new run goes on from <code>${at}</code>. Nothing is paid again ${until}; ${spentOf(run.spent, run.budget)} is spent. The run <b>${run.name}</b> stays as it is.</p>
    <${Field} label="Name" note="optional" data-first value=${name} take=${setName} />
    <h3>Values to change</h3>
    ${changes.map((one, place) => html`<div class="set-value" key=${place}>
      <${Field} label="Scope and key" list="scopes" placeholder="role/Writer/plan" value=${one.scope} take=${(scope) => changeScope(place, scope)} />
      <${Field} label="Value, as JSON" class="code" rows="3" value=${one.value} take=${(value) => change(place, { value })} />
      ${wrong[place] && html`<p class="field-error">${wrong[place]}</p>`}
      <button class="small" onClick=${() => setChanges(changes.filter((_, i) => i !== place))}>Remove</button>
    </div>`)}
    <datalist id="scopes">${Object.keys(scopes).map((scope) => html`<option value=${scope} />`)}</datalist>
    <p><button class="small" onClick=${() => setChanges([...changes, { scope: "", value: "" }])}>Change a value</button></p><//>`;
}

const errorOf = ({ scope, value }) => (scope.includes("/") ? jsonError(value) : "a scope and a key, such as role/Writer/plan");
