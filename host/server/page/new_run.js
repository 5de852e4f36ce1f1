// Starts a run: of a team that was used before, or of files that are dropped here. Only those that the server lacks are uploaded.

import { html, useState } from "./dom.js";
import { toast, toastProblem } from "./announce.js";
import { call, fetchResponse, items, post } from "./api.js";
import { plural } from "./figures.js";
import { Field, FormSheet } from "./forms.js";
import { go, runAddress } from "./router.js";
import { addressOf } from "./token.js";
import { useFields, useLoaded } from "./widgets.js";

/** The largest upload of one file that the server accepts. */
const MAX_FILE = 256 * 1024 * 1024;
/** Folders with more files are probably not what somebody means. */
const MAX_FILES = 2000;

export function NewRunSheet({ onClose }) {
  const [teams] = useLoaded(teamsUsedBefore);
  const [bundle, setBundle] = useState("");
  const [files, setFiles] = useState([]);
  const [form, take] = useFields({ idea: "", name: "", investment: "", labels: "" });
  const [progress, setProgress] = useState("");
  const send = async (key) => {
    setProgress("Uploading…");
    const digest = bundle || (await uploadBundle(files, (done, all) => setProgress(`Uploading ${done + 1} of ${all}…`)));
    setProgress("Starting…");
    const run = await post("/v1/runs", bodyOf(form, digest), { key });
    onClose();
    toast(`Started: ${run.name}`);
    go(runAddress(run));
  };
  const hasTeam = files.some((one) => one.path === "team.toml");
  const useTeam = (found, used = "") => {
    setFiles(found);
    setBundle(used);
  };
  const drop = (event) => {
    event.preventDefault();
    droppedFiles(event.dataTransfer).then((found) => useTeam(found), (problem) => toastProblem("Not taken", problem));
  };
  return html`<${FormSheet} title="New run" onClose=${onClose} send=${send} word="Start" busyWord=${progress} canSend=${bundle || hasTeam}>
    ${teams?.length > 0 && html`<label>A team that was used before<select value=${bundle} onChange=${(event) => useTeam([], event.target.value)}><option value="">None</option>${teams.map((one) => html`<option value=${one.bundle}>${one.team} (as in ${one.run})</option>`)}</select></label>`}
    <div class="drop" onDragOver=${(event) => event.preventDefault()} onDrop=${drop}>
      <p>${teams?.length > 0 ? "Or drop" : "Drop"} the folder of a team here, with its <code>team.toml</code>.</p>
      <label class="file-button">Choose a folder<input type="file" multiple webkitdirectory onChange=${(event) => useTeam(chosenFiles(event.target.files))} /></label>
      ${files.length > 0 && html`<p class=${hasTeam ? "note" : "field-error"}>${plural(files.length, "file")}${hasTeam ? "" : ", and none of them is team.toml"}</p>`}
    </div>
    <${Field} label="Idea" rows="3" value=${form.idea} take=${take("idea")} />
    <div class="row"><${Field} label="Name" note="optional" value=${form.name} take=${take("name")} />
      <${Field} label="Budget in USD" note="optional" inputmode="decimal" value=${form.investment} take=${take("investment")} /></div>
    <${Field} label="Labels" note="KEY=VALUE, with spaces between them" value=${form.labels} take=${take("labels")} /><//>`;
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

async function digestOf(bytes) {
  if (!crypto.subtle) throw new Error("This browser computes digests only on loopback addresses and over TLS. `strata-host submit` works everywhere.");
  const hash = await crypto.subtle.digest("SHA-256", bytes);
  return `sha256:${Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

async function droppedFiles(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
  const found = [];
  for (const entry of entries) await collect(entry, "", found);
  return withoutCommonFolder(found);
}

async function collect(entry, folder, found) {
  if (found.length >= MAX_FILES) throw new Error(`more than ${MAX_FILES} files`);
  const path = folder ? `${folder}/${entry.name}` : entry.name;
  if (entry.isFile) {
    found.push({ path, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return;
    for (const one of some) await collect(one, path, found);
  }
}

function chosenFiles(list) {
  return withoutCommonFolder([...list].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
}

/** A folder that holds all files is not part of their paths. */
function withoutCommonFolder(files) {
  const first = files[0]?.path.split("/")[0];
  const isCommon = files.length > 0 && files.every((one) => one.path.startsWith(`${first}/`));
  return isCommon ? files.map((one) => ({ ...one, path: one.path.slice(first.length + 1) })) : files;
}

async function uploadBundle(files, onProgress) {
  const contents = new Map();
  const digests = {};
  for (const { path, file } of files) {
    if (file.size > MAX_FILE) throw new Error(`${path} is too large`);
    const bytes = await file.arrayBuffer();
    const digest = await digestOf(bytes);
    contents.set(digest, bytes);
    Object.defineProperty(digests, path, { value: digest, enumerable: true });
  }
  try {
    return (await post("/v1/bundles", { files: digests })).digest;
  } catch (problem) {
    const missing = problem.document?.missing;
    if (!Array.isArray(missing)) throw problem;
    let done = 0;
    for (const digest of missing) {
      onProgress?.(done, missing.length);
      if (contents.has(digest)) await fetchResponse(`/v1/blobs/${digest}`, { method: "PUT", raw: contents.get(digest), more: { "Content-Type": "application/octet-stream" } });
      done += 1;
    }
    return (await post("/v1/bundles", { files: digests })).digest;
  }
}

async function teamsUsedBefore() {
  const runs = items(await call("/v1/runs?limit=200"));
  const seen = new Map();
  for (const run of runs) {
    // The files of another tenant are not this one's.
    if (run.bundle && addressOf(run) === run.name && !seen.has(run.bundle)) seen.set(run.bundle, { team: run.team, bundle: run.bundle, run: run.name });
  }
  return [...seen.values()].slice(0, 20);
}
