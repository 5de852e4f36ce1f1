// JSON as it crosses the border: texts there, values here; `null` there for what is absent.

import { Failure } from "./errors.js";

/** The value of a JSON text; undefined where there is none. */
export function parse(text, what) {
  if (text === null || text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Failure("error", `reading ${what}: ${error.message}`);
  }
}

/** The JSON text of a value; null where there is none. */
export function write(value, what) {
  if (value === undefined) return null;
  const text = JSON.stringify(value);
  if (text === undefined) throw new Failure("error", `writing ${what}: a ${typeof value} is no JSON`);
  return text;
}
