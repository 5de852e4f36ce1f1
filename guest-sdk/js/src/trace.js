// Stacks that refer to the sources. Frames of the bundle are converted by its source map, which the build stores in a
// global. Frames of the SDK and of the engine are left out.

import { TraceMap, originalPositionFor } from "@jridgewell/trace-mapping";

const FRAME = /^\s*at (?:(.*?) \()?(?:\/)?([^():]+):(\d+):(\d+)\)?$/;
const OWN = "sdk:";
const lookups = new Map();

/**
 * Sets the function that converts the frames of a file. `lookup(line, column)` returns a location, or undefined to omit
 * the frame.
 */
export function register(file, lookup) {
  lookups.set(file, lookup);
}

/** Returns the frames of an error's stack, innermost first. */
export function trace(error) {
  const lines = String(error.stack ?? "").split("\n");
  return lines.map(frame).filter((line) => line !== undefined);
}

function frame(line) {
  const [, name, file, row, column] = FRAME.exec(line) ?? [];
  const location = lookups.get(file)?.(Number(row), Number(column));
  if (location === undefined) return undefined;
  return name && name !== "<anonymous>" ? `    at ${name} (${location})` : `    at ${location}`;
}

let map;
register("bundle.js", (line, column) => {
  map ??= new TraceMap(globalThis.__strata_source_map);
  const found = originalPositionFor(map, { line, column: column - 1 });
  if (!found.source || found.source.startsWith(OWN)) return undefined;
  return `${found.source}:${found.line}:${found.column + 1}`;
});
