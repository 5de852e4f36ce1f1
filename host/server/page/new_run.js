// Starts a run: of a team that was used before, or of files that are dropped here.

import { html, useMemo, useState } from "./dom.js";
import { newKey, post } from "./api.js";
import { plural } from "./figures.js";
import { useFields, useSubmit } from "./forms.js";
import { go, runAddress } from "./router.js";
import { toast } from "./toast.js";
import { chosenFiles, droppedFiles, teamsUsedBefore, uploadBundle } from "./upload.js";
import { ProblemView, Sheet, useLoaded } from "./widgets.js";

export function NewRunSheet({ onClose }) {
  const key = useMemo(newKey, []);
  const [teams] = useLoaded(teamsUsedBefore, ["teams"]);
  const [bundle, setBundle] = useState("");
  const [files, setFiles] = useState([]);
  const [form, set] = useFields({ idea: "", name: "", investment: "", labels: "" });
  const [progress, setProgress] = useState("");
  const [submit, busy, problem, setProblem] = useSubmit(async () => {
    setProgress("Uploading…");
    const digest = bundle || (await uploadBundle(files, (done, all) => setProgress(`Uploading ${done + 1} of ${all}…`)));
    setProgress("Starting…");
    const run = await post("/v1/runs", bodyOf(form, digest), { key });
    onClose();
    toast(`Started: ${run.name}`);
    go(runAddress(run.name));
  });
  const hasTeam = files.some((one) => one.path === "team.toml");
  const take = (found) => {
    setFiles(found);
    setBundle("");
    setProblem(null);
  };
  const drop = async (event) => {
    event.preventDefault();
    try {
      take(await droppedFiles(event.dataTransfer));
    } catch (failed) {
      setProblem(failed);
    }
  };
  return html`<${Sheet} title="New run" onClose=${onClose}><form onSubmit=${submit}>
    ${teams?.length > 0 && html`<label>A team that was used before<select value=${bundle} onChange=${(event) => {
      setBundle(event.target.value);
      setFiles([]);
    }}><option value="">None</option>${teams.map((one) => html`<option value=${one.bundle}>${one.team} (as in ${one.run})</option>`)}</select></label>`}
    <div class="drop" onDragOver=${(event) => event.preventDefault()} onDrop=${drop}>
      <p>${teams?.length > 0 ? "Or drop" : "Drop"} the folder of a team here, with its <code>team.toml</code>.</p>
      <label class="file-button">Choose a folder<input type="file" multiple webkitdirectory onChange=${(event) => take(chosenFiles(event.target.files))} /></label>
      ${files.length > 0 && html`<p class=${hasTeam ? "note" : "field-error"}>${plural(files.length, "file")}${hasTeam ? "" : ", and none of them is team.toml"}</p>`}
    </div>
    <label>Idea<textarea rows="3" value=${form.idea} onInput=${set("idea")}></textarea></label>
    <div class="row"><label>Name <span class="note">optional</span><input type="text" autocomplete="off" value=${form.name} onInput=${set("name")} /></label>
      <label>Budget in USD <span class="note">optional</span><input type="text" inputmode="decimal" value=${form.investment} onInput=${set("investment")} /></label></div>
    <label>Labels <span class="note">KEY=VALUE, with spaces between them</span><input type="text" value=${form.labels} onInput=${set("labels")} /></label>
    <${ProblemView} problem=${problem} />
    <p class="controls"><button type="submit" class="primary" disabled=${busy || !(bundle || hasTeam)}>${busy ? progress : "Start"}</button></p>
  </form><//>`;
}

function bodyOf(form, bundle) {
  const labels = Object.fromEntries(form.labels.split(/\s+/).filter(Boolean).map((one) => [one.split("=")[0], one.split("=").slice(1).join("=")]));
  return {
    bundle, idea: form.idea,
    ...(form.name.trim() ? { name: form.name.trim() } : {}),
    ...(form.investment.trim() ? { investment: Number(form.investment) } : {}),
    ...(Object.keys(labels).length ? { labels } : {}),
  };
}
