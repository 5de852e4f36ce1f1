// Sends a message to a run.

import { html, useMemo } from "./dom.js";
import { toast } from "./announce.js";
import { post, runPath } from "./api.js";
import { Field, FormSheet } from "./forms.js";
import { jsonError } from "./schema_fields.js";
import { useFields } from "./widgets.js";

export function SendSheet({ run, data, onClose }) {
  const labels = useMemo(() => [...new Set(data.model.messages.map((message) => message.cause))], []);
  const [form, take] = useFields({ content: "", cause: "", to: "", data: "" });
  const hasData = form.data.trim() !== "";
  const wrong = hasData && jsonError(form.data);
  const send = async (key) => {
    const to = form.to.split(",").map((one) => one.trim()).filter(Boolean);
    await post(runPath(run, "messages"), { content: form.content, cause: form.cause.trim(), ...(to.length ? { to } : {}), ...(hasData ? { data: JSON.parse(form.data) } : {}) }, { key });
    toast("Sent");
    onClose();
  };
  const options = (id, names) => html`<datalist id=${id}>${names.map((name) => html`<option value=${name} />`)}</datalist>`;
  return html`<${FormSheet} title=${`Send to ${run.name}`} onClose=${onClose} send=${send} word="Send" canSend=${!wrong && form.content && form.cause.trim()}>
    <${Field} label="Text" rows="4" data-first value=${form.content} take=${take("content")} />
    <div class="row"><${Field} label="Label" list="labels" value=${form.cause} take=${take("cause")} />
      <${Field} label="To" note="optional: roles, with commas between them" list="roles" value=${form.to} take=${take("to")} /></div>
    ${options("labels", labels)}${options("roles", [...data.model.roles.keys()])}
    <${Field} label="Data" note="optional, JSON" class="code" rows="3" value=${form.data} take=${take("data")} />
    ${wrong && html`<p class="field-error">${wrong}</p>`}<//>`;
}
