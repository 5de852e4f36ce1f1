// Sends a message to a run.

import { html, useMemo } from "./dom.js";
import { jsonError, useFields, useSubmit } from "./forms.js";
import { newKey, sendMessage } from "./run_actions.js";
import { toast } from "./toast.js";
import { ProblemView, Sheet } from "./widgets.js";

export function SendSheet({ run, data, onClose }) {
  const key = useMemo(newKey, []);
  const labels = useMemo(() => [...new Set(data.model.messages.map((message) => message.cause))], []);
  const [form, set] = useFields({ content: "", cause: "", to: "", data: "" });
  const hasData = form.data.trim() !== "";
  const wrong = hasData && jsonError(form.data);
  const [submit, busy, problem] = useSubmit(async () => {
    const to = form.to.split(",").map((one) => one.trim()).filter(Boolean);
    await sendMessage(run, { content: form.content, cause: form.cause.trim(), ...(to.length ? { to } : {}), ...(hasData ? { data: JSON.parse(form.data) } : {}) }, key);
    toast("Sent");
    onClose();
  });
  return html`<${Sheet} title=${`Send to ${run.name}`} onClose=${onClose}><form onSubmit=${submit}>
    <label>Text<textarea rows="4" data-first value=${form.content} onInput=${set("content")}></textarea></label>
    <div class="row"><label>Label<input type="text" list="labels" value=${form.cause} onInput=${set("cause")} /></label>
      <label>To <span class="note">optional: roles, with commas between them</span><input type="text" list="roles" value=${form.to} onInput=${set("to")} /></label></div>
    <datalist id="labels">${labels.map((label) => html`<option value=${label} />`)}</datalist>
    <datalist id="roles">${[...data.model.roles.keys()].map((role) => html`<option value=${role} />`)}</datalist>
    <label>Data <span class="note">optional, JSON</span><textarea class="code" rows="3" value=${form.data} onInput=${set("data")}></textarea></label>
    ${wrong && html`<p class="field-error">${wrong}</p>`}
    <${ProblemView} problem=${problem} />
    <p class="controls"><button type="submit" class="primary" disabled=${busy || Boolean(wrong) || !form.content || !form.cause.trim()}>${busy ? "Sending…" : "Send"}</button></p>
  </form><//>`;
}
