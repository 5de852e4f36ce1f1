// The files that the actions of a run wrote, as of a checkpoint. A file is shown as text or not at all, whatever it is.

import { html, typed, useState } from "./dom.js";
import { call, fetchResponse, items, part, runPath, withQuery } from "./api.js";
import { TextDifference } from "./difference_view.js";
import { bytes, plural } from "./figures.js";
import { draft, keepDraft } from "./storage.js";
import { toastProblem } from "./toast.js";
import { LongText, ProblemView, Skeleton, useLoaded } from "./widgets.js";

/** Larger files are not shown, but can be downloaded. */
const SHOWN_BYTES = 1024 * 1024;

const filePath = (run, path) => `${runPath(run.name, "files")}/${path.replace(/^\/+/, "").split("/").map(part).join("/")}`;

export function FilesTab({ data, run }) {
  const checkpoints = data.model.checkpoints;
  const [at, setAt] = useState("");
  const [chosen, setChosen] = useState(draft(`file.${run.id}`));
  const [answer, problem, again] = useLoaded((signal) => call(withQuery(runPath(run.name, "files"), { at }), { signal }), [`${run.id} ${at} ${at ? "" : data.model.files.size}`]);
  const files = items(answer).filter((file) => file.kind !== "directory").sort((a, b) => a.path.localeCompare(b.path));
  const choose = (path) => {
    setChosen(path);
    keepDraft(`file.${run.id}`, path);
  };
  const shown = files.find((file) => file.path === chosen) ?? files.find((file) => file.kind !== "removed");
  const place = at ? checkpoints.findIndex((one) => one.id === at) : checkpoints.length - 1;
  return html`<div class="filters"><label>As of <select value=${at} onChange=${typed(setAt)}><option value="">now</option>${[...checkpoints].reverse().slice(0, 200).map((one) => html`<option value=${one.id}>step ${one.step} (${one.id})</option>`)}</select></label>
      <span class="note">${answer && plural(files.length, "file")}</span></div>
    ${problem ? html`<${ProblemView} problem=${problem} retry=${again} />` : !answer ? html`<${Skeleton} lines=${6} />` : !files.length ? html`<p class="empty">No action has written a file.</p>`
    : html`<div class="files-pair"><nav class="file-tree" aria-label="Files"><${Tree} files=${files} shown=${shown} choose=${choose} /></nav>
      <div class="file-view">${shown && html`<${File} key=${`${shown.path}@${at}`} run=${run} file=${shown} at=${at} before=${checkpoints[place - 1]?.id} />`}</div></div>`}`;
}

function Tree({ files, shown, choose }) {
  let folder = null;
  return html`<ul class="plain">${files.map((file) => {
    const cut = file.path.lastIndexOf("/") + 1;
    const own = file.path.slice(0, cut);
    const heading = own !== folder && own ? html`<li class="folder">${own}</li>` : null;
    folder = own;
    return html`${heading}<li key=${file.path}><button class=${`link file${file.kind === "removed" ? " removed" : ""}`} aria-current=${file === shown ? "true" : undefined} onClick=${() => choose(file.path)}>${file.path.slice(cut)}</button>
      <span class="note">${file.kind === "removed" ? "removed" : bytes(file.bytes)}</span></li>`;
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

function File({ run, file, at, before }) {
  const [isDifference, setDifference] = useState(false);
  const path = withQuery(filePath(run, file.path), { at });
  const isShown = file.kind !== "removed" && (file.bytes ?? 0) <= SHOWN_BYTES;
  const [content, problem, again] = useLoaded((signal) => (isShown ? textOf(path, signal) : Promise.resolve({})), [`${path} ${file.digest}`]);
  const [old] = useLoaded((signal) => (isDifference && before ? textBefore(withQuery(filePath(run, file.path), { at: before }), signal) : Promise.resolve(null)), [`${path} ${before} ${isDifference}`]);
  return html`<h2>${file.path}</h2><p class="note">${file.kind === "removed" ? "removed" : bytes(file.bytes)} by ${file.by}${file.step !== null && file.step !== undefined && html`, step ${file.step}`}</p>
    <p class="controls">${file.kind !== "removed" && html`<button onClick=${() => download(path, file.path)}>Download</button>`}
      ${before && html`<button aria-pressed=${isDifference} onClick=${() => setDifference(!isDifference)}>Difference to the checkpoint before</button>`}</p>
    ${problem ? html`<${ProblemView} problem=${problem} retry=${again} />` : file.kind === "removed" ? html`<p class="none">The file is not there any more.</p>`
    : !isShown ? html`<p class="none">It is too large to be shown.</p>` : !content ? html`<${Skeleton} />`
    : content.binary !== undefined ? html`<p class="none">It is not text.</p>`
    : isDifference && before ? (old ? html`<${TextDifference} before=${old.text ?? ""} after=${content.text} />` : html`<${Skeleton} />`) : html`<${LongText} text=${content.text} className="file-text" />`}`;
}

async function download(path, name) {
  try {
    const blob = await (await fetchResponse(path)).blob();
    const address = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = name.split("/").at(-1);
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (problem) {
    toastProblem("Not downloaded", problem);
  }
}
