// Begins a new run from a checkpoint of another one.

import { html, typed, useMemo, useState } from "./dom.js";
import { money } from "./figures.js";
import { jsonError, useSubmit } from "./forms.js";
import { go, runAddress } from "./router.js";
import { fork, newKey } from "./run_actions.js";
import { ProblemView, Sheet } from "./widgets.js";

/** `scopes` are the values as of the checkpoint, by their names in the notation of `fork --set`. */
export function ForkSheet({ run, at, step, scopes = {}, onClose }) {
  const key = useMemo(newKey, []);
  const [name, setName] = useState("");
  const [changes, setChanges] = useState([]);
  const wrong = changes.map(errorOf);
  const change = (place, values) => setChanges(changes.map((one, i) => (i === place ? { ...one, ...values } : one)));
  const [submit, busy, problem] = useSubmit(async () => {
    const set = changes.length ? Object.fromEntries(changes.map((one) => [one.scope, JSON.parse(one.value)])) : null;
    const made = await fork(run, { at, set, name: name.trim() }, key);
    onClose();
    go(runAddress(made.name));
  });
  const until = step === undefined || step === null ? "up to there" : `up to step ${step}`;
  const spent = run.budget > 0 ? `${money(run.spent)} of ${money(run.budget)} is spent` : `${money(run.spent)} is spent`;
  return html`<${Sheet} title="Fork" onClose=${onClose}>
    <form onSubmit=${submit}>
      <p>A new run goes on from <code>${at}</code>. Nothing is paid again ${until}; ${spent}. The run <b>${run.name}</b> stays as it is.</p>
      <label>Name <span class="note">optional</span><input type="text" data-first autocomplete="off" value=${name} onInput=${typed(setName)} /></label>
      <h3>Values to change</h3>
      ${changes.map((one, place) => html`<div class="set-value" key=${place}>
        <label>Scope and key<input type="text" list="scopes" placeholder="role/Writer/plan" value=${one.scope} onInput=${(event) => {
          const scope = event.target.value;
          change(place, { scope, ...(Object.hasOwn(scopes, scope) && !one.value ? { value: JSON.stringify(scopes[scope], null, 2) } : {}) });
        }} /></label>
        <label>Value, as JSON<textarea class="code" rows="3" value=${one.value} onInput=${(event) => change(place, { value: event.target.value })}></textarea></label>
        ${wrong[place] && html`<p class="field-error">${wrong[place]}</p>`}
        <button class="small" onClick=${() => setChanges(changes.filter((_, i) => i !== place))}>Remove</button>
      </div>`)}
      <datalist id="scopes">${Object.keys(scopes).map((scope) => html`<option value=${scope} />`)}</datalist>
      <p><button class="small" onClick=${() => setChanges([...changes, { scope: "", value: "" }])}>Change a value</button></p>
      <${ProblemView} problem=${problem} />
      <p class="controls"><button type="submit" class="primary" disabled=${busy || wrong.some(Boolean)}>${busy ? "Forking…" : "Fork"}</button></p>
    </form><//>`;
}

const errorOf = ({ scope, value }) => (scope.includes("/") ? jsonError(value) : "a scope and a key, such as role/Writer/plan");
