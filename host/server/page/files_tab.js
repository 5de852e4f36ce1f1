// The files that the actions of a run wrote, as of a checkpoint. A file is shown as text or not at all, whatever it is.

import { html, typed, useState } from "./dom.js";
import { fetchResponse, items, runPath, withQuery } from "./api.js";
import { TextDifference } from "./difference_view.js";
import { bytes, plural } from "./figures.js";
import { download } from "./run_actions.js";
import { draft, keepDraft } from "./storage.js";
import { LongText } from "./texts.js";
import { Time, useGet, useLoaded, whenLoaded } from "./widgets.js";

const SHOWN_BYTES = 1024 * 1024;

const filePath = (run, path) => runPath(run, "files", ...path.replace(/^\/+/, "").split("/"));

export function FilesTab({ data, run }) {
  const checkpoints = data.model.checkpoints;
  const [at, setAt] = useState("");
  const [chosen, setChosen] = useState(draft(`file.${run.id}`));
  const loaded = useGet(withQuery(runPath(run, "files"), { at }), at || data.model.files.size);
  const files = items(loaded[0]).filter((file) => file.kind !== "directory").sort((a, b) => a.path.localeCompare(b.path));
  const choose = (path) => {
    setChosen(path);
    keepDraft(`file.${run.id}`, path);
  };
  const shown = files.find((file) => file.path === chosen) ?? files.find((file) => file.kind !== "removed");
  const place = at ? checkpoints.findIndex((one) => one.id === at) : checkpoints.length - 1;
  const written = at ? null : data.model.files.get(shown?.path)?.time;
  return html`<div class="filters"><label>As of <select value=${at} onChange=${typed(setAt)}><option value="">now</option>${[...checkpoints].reverse().slice(0, 200).map((one) => html`<option value=${one.id}>step ${one.step} (${one.id})</option>`)}</select></label>
      <span class="note">${loaded[0] && plural(files.length, "file")}</span></div>
    ${whenLoaded(loaded, () => (files.length ? html`<div class="files-pair"><nav class="file-tree" aria-label="Files"><${Tree} files=${files} shown=${shown} choose=${choose} /></nav>
      <div class="file-view">${shown && html`<${File} key=${`${shown.path}@${at}`} run=${run} file=${shown} at=${at} before=${checkpoints[place - 1]?.id} written=${written} />`}</div></div>` : html`<p class="empty">No action has written a file.</p>`), 6)}`;
}

const sizeOf = (file) => (file.kind === "removed" ? "removed" : bytes(file.bytes));

function Tree({ files, shown, choose }) {
  let folder = null;
  return html`<ul class="plain">${files.map((file) => {
    const cut = file.path.lastIndexOf("/") + 1;
    const own = file.path.slice(0, cut);
    const heading = own !== folder && own ? html`<li class="folder">${own}</li>` : null;
    folder = own;
    return html`${heading}<li key=${file.path}><button class=${`link file${file.kind === "removed" ? " removed" : ""}`} aria-current=${file === shown ? "true" : undefined} onClick=${() => choose(file.path)}>${file.path.slice(cut)}</button>
      <span class="note">${sizeOf(file)}</span></li>`;
  })}</ul>`;
}

async function textOf(path, signal) {
  const response = await fetchResponse(path, { signal });
  const data = await response.arrayBuffer();
  try {
    return { text: new TextDecoder("utf-8", { fatal: true }).decode(data) };
  } catch {
    return { binary: data.byteLength };
  }
}

/** What was there at the checkpoint before; nothing if the file was not. */
const textBefore = (path, signal) => textOf(path, signal).catch((problem) => {
  if (problem.status === 404) return { text: "" };
  throw problem;
});

function File({ run, file, at, before, written }) {
  const [isDifference, setDifference] = useState(false);
  const path = withQuery(filePath(run, file.path), { at });
  const why = file.kind === "removed" ? "The file is not there any more." : (file.bytes ?? 0) > SHOWN_BYTES ? "It is too large to be shown." : null;
  const content = useLoaded((signal) => (why ? Promise.resolve({}) : textOf(path, signal)), `${path} ${file.digest}`);
  const old = useLoaded((signal) => (isDifference && before ? textBefore(withQuery(filePath(run, file.path), { at: before }), signal) : Promise.resolve(null)), `${path} ${before} ${isDifference}`);
  const show = ({ text, binary }) => {
    if (why || binary !== undefined) return html`<p class="none">${why ?? "It is not text."}</p>`;
    if (!isDifference || !before) return html`<${LongText} text=${text} className="file-text" />`;
    return whenLoaded(old, (one) => html`<${TextDifference} before=${one?.text ?? ""} after=${text} />`);
  };
  return html`<h2>${file.path}</h2><p class="note">${sizeOf(file)} by ${file.by}${file.step !== null && file.step !== undefined && `, step ${file.step}`}${written && html`, <${Time} at=${written} />`}</p>
    <p class="controls">${file.kind !== "removed" && html`<button onClick=${() => download(path, file.path.split("/").at(-1))}>Download</button>`}
      ${before && html`<button aria-pressed=${isDifference} onClick=${() => setDifference(!isDifference)}>Difference to the checkpoint before</button>`}</p>
    ${whenLoaded(content, show)}`;
}
