// Shows the fields of a form. What is put in stays in the state of whoever shows the form.

import { html, useId } from "./dom.js";
import { ownValue, pointerTo } from "./schema_fields.js";

/** More choices than these are not buttons. */
const MAX_BUTTONS = 6;

/** Returns the errors at a pointer and, for what has no fields of its own, below it. */
function errorsAt(errors, pointer, isLeaf) {
  return errors.filter((one) => one.pointer === pointer || (isLeaf && one.pointer.startsWith(`${pointer}/`)));
}

function Errors({ errors, id }) {
  if (!errors.length) return null;
  return html`<span class="field-error" id=${id} role="alert">${errors.map((one) => one.detail).join("; ")}</span>`;
}

const label = (value) => (typeof value === "string" ? value : value === true ? "Yes" : value === false ? "No" : JSON.stringify(value));

function Choice({ field: { choices }, input, onInput, name, errorId }) {
  if (choices.length > MAX_BUTTONS) {
    const at = choices.findIndex((one) => same(one, input));
    return html`<select aria-label=${name} aria-describedby=${errorId} value=${String(at)} onChange=${(event) => onInput(choices[Number(event.target.value)])}>
      <option value="-1" disabled>Choose…</option>${choices.map((_, i) => html`<option value=${String(i)}>${label(choices[i])}</option>`)}</select>`;
  }
  return html`<span class="choices" role="group" aria-label=${name}>${choices.map(
    (one) => html`<button class="choice" aria-pressed=${same(one, input)} onClick=${() => onInput(one)}>${label(one)}</button>`,
  )}</span>`;
}

const same = (one, other) => one !== undefined && JSON.stringify(one) === JSON.stringify(other);

function Input({ field, input, onInput, name, id, errorId, isFirst }) {
  const common = {
    id, "aria-label": id ? undefined : name, "aria-describedby": errorId, "data-first": isFirst || undefined,
    onInput: (event) => onInput(event.target.value),
  };
  switch (field.kind) {
    case "choice": return html`<${Choice} ...${{ field, input, onInput, name, errorId }} />`;
    case "number": return html`<input type="text" inputmode=${field.isWhole ? "numeric" : "decimal"} autocomplete="off" value=${input ?? ""} ...${common} />`;
    case "date": return html`<input type="date" value=${input ?? ""} ...${common} />`;
    case "date-time": return html`<input type="datetime-local" value=${input ?? ""} ...${common} />`;
    case "json": return html`<textarea class="code" rows="5" spellcheck=${false} value=${input ?? ""} ...${common}></textarea>`;
    default: return html`<textarea rows=${String(input ?? "").length > 80 || String(input ?? "").includes("\n") ? 4 : 1} maxlength=${field.maxLength} value=${input ?? ""} ...${common}></textarea>`;
  }
}

/** Shows a field, or the fields of an object. `original` marks what differs from it. */
export function SchemaForm({ field, input, onInput, errors = [], pointer = "", name = "Answer", isRequired = true, original, isFirst = true }) {
  const id = useId();
  if (field.kind === "object") {
    return html`<div class="fields">
      ${pointer && html`<h4>${name}</h4>`}
      <${Errors} errors=${errorsAt(errors, pointer, false)} />
      ${field.fields.map(({ name: inner, isRequired: needed, field: one }, i) => {
        const change = (value) => onInput({ ...input, [inner]: value });
        return html`<${SchemaForm} key=${inner} field=${one} input=${ownValue(input, inner)} onInput=${change} errors=${errors} pointer=${pointerTo(pointer, inner)}
          name=${one.title || inner} isRequired=${needed} original=${original === undefined ? undefined : (ownValue(original, inner) ?? "")} isFirst=${isFirst && i === 0} />`;
      })}
    </div>`;
  }
  const own = errorsAt(errors, pointer, true);
  const errorId = own.length ? `${id}-error` : undefined;
  const isChanged = original !== undefined && !same(original ?? "", input ?? "");
  const isGroup = field.kind === "choice";
  const caption = html`${name}${!isRequired && html` <span class="note">optional</span>`}${isChanged && html` <span class="tag held">changed</span>`}`;
  return html`<div class=${`field${isChanged ? " changed" : ""}${own.length ? " wrong" : ""}`}>
    ${isGroup ? html`<span class="field-name">${caption}</span>` : html`<label class="field-name" for=${id}>${caption}</label>`}
    ${field.description && html`<span class="note">${field.description}</span>`}
    <${Input} ...${{ field, input, onInput, name, errorId, isFirst }} id=${isGroup ? undefined : id} />
    <${Errors} errors=${own} id=${errorId} />
  </div>`;
}
