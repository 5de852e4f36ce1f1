// JSON as it crosses the border: texts there, values here; `null` there for what is absent.

import { kindOf } from "./border.js";
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
  const text = JSON.stringify(value, (key, part) => held(part, key === "" ? what : `\`${key}\` of ${what}`));
  if (text === undefined) throw new TypeError(`writing ${what}: a ${typeof value} is no JSON`);
  // Half a character is written as an escape of its own, which readers of JSON refuse.
  if (!text.includes("\\ud")) return text;
  return text.replace(ESCAPE, (escape, half) => (half ? "\ufffd" : escape));
}

/** What JSON can hold. Other values it would leave out or make something else of, which nobody would notice. */
function held(value, what) {
  const refused = (named) => new TypeError(`writing ${what}: ${named} is no JSON`);
  if (typeof value === "number" && !Number.isFinite(value)) throw refused(String(value));
  if (typeof value === "bigint") throw refused(`the bigint ${value}`);
  if (typeof value === "function" || typeof value === "symbol") throw refused(`a ${typeof value}`);
  if (value instanceof Map) throw refused("a Map (make it an object: `Object.fromEntries(map)`)");
  if (value instanceof Set) throw refused("a Set (make it a list: `[...set]`)");
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) {
    throw refused(`an object of \`${kindOf(value)}\` (make it a list: \`[...bytes]\`, or a text in base64)`);
  }
  return value;
}

/** The content and the data of a message: where no content is given, it is the data as JSON. */
export function body(content, value, what) {
  const data = write(value, what);
  if (content === undefined || content === null) return { content: data ?? "", data };
  // Any other value would have a text, too, and one that says nothing. The border refuses it.
  return { content: ["number", "bigint", "boolean"].includes(typeof content) ? String(content) : content, data };
}

const ESCAPE = /\\(?:u(d[0-9a-f]{3})|.)/g;
