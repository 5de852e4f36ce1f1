// Uploads the files of a team: each by the digest of its content, and only those that the server does not have.

import { call, fetchResponse, part, post } from "./api.js";

/** The largest upload of one file that the server accepts. */
const MAX_FILE = 256 * 1024 * 1024;
/** Folders with more files are probably not what somebody means. */
const MAX_FILES = 2000;

async function digestOf(bytes) {
  if (!crypto.subtle) throw new Error("This browser computes digests only on loopback addresses and over TLS. `strata-host submit` works everywhere.");
  const hash = await crypto.subtle.digest("SHA-256", bytes);
  return `sha256:${Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** Returns the files of a drop, with their paths, also those in folders. */
export async function droppedFiles(transfer) {
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

/** Returns the files that were chosen in a field, with their paths. */
export function chosenFiles(list) {
  return withoutCommonFolder([...list].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
}

/** A folder that holds all files is not part of their paths. */
function withoutCommonFolder(files) {
  const first = files[0]?.path.split("/")[0];
  const isCommon = files.length > 0 && files.every((one) => one.path.startsWith(`${first}/`));
  return isCommon ? files.map((one) => ({ ...one, path: one.path.slice(first.length + 1) })) : files;
}

/** Uploads files and returns the digest of their bundle. */
export async function uploadBundle(files, onProgress) {
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
      if (contents.has(digest)) await fetchResponse(`/v1/blobs/${part(digest)}`, { method: "PUT", raw: contents.get(digest), more: { "Content-Type": "application/octet-stream" } });
      done += 1;
    }
    return (await post("/v1/bundles", { files: digests })).digest;
  }
}

/** Returns teams that were used before, newest first: `{team, bundle}`. */
export async function teamsUsedBefore() {
  const runs = (await call("/v1/runs?limit=200")).items;
  const seen = new Map();
  for (const run of runs) {
    if (run.bundle && !seen.has(run.bundle)) seen.set(run.bundle, { team: run.team, bundle: run.bundle, run: run.name });
  }
  return [...seen.values()].slice(0, 20);
}
