// Stacks in terms of the sources: frames of the bundle are looked up in its source map, which the build leaves in
// a global; frames of the SDK and of the engine are left out.

import { TraceMap, originalPositionFor } from "@jridgewell/trace-mapping";

const FRAME = /^\s*at (?:(.*?) \()?(?:\/)?([^():]+):(\d+):(\d+)\)?$/;
const OWN = "sdk:";
const lookups = new Map();

/** Frames of files with this name are looked up by `lookup(line, column)`, which returns a place or undefined. */
export function register(file, lookup) {
  lookups.set(file, lookup);
}

/** The frames of an error's stack, innermost first. */
export function trace(error) {
  const lines = String(error.stack ?? "").split("\n");
  return lines.map(frame).filter((line) => line !== undefined);
}

function frame(line) {
  const [, name, file, row, column] = FRAME.exec(line) ?? [];
  const place = lookups.get(file)?.(Number(row), Number(column));
  if (place === undefined) return undefined;
  return name && name !== "<anonymous>" ? `    at ${name} (${place})` : `    at ${place}`;
}

let map;
register("bundle.js", (line, column) => {
  map ??= new TraceMap(globalThis.__strata_source_map);
  const found = originalPositionFor(map, { line, column: column - 1 });
  if (!found.source || found.source.startsWith(OWN)) return undefined;
  return `${found.source}:${found.line}:${found.column + 1}`;
});
