// Conversion between values and the JSON texts of the host's interfaces, in which `null` stands for an absent text.

import { Failure } from "./errors.js";
import { kindOf } from "./validate.js";

/** Returns the value of a JSON text, or undefined if it is absent. Throws a Failure if it is not JSON. */
export function parse(text, what) {
  if (text === null || text === undefined) return undefined;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Failure("error", `reading ${what}: ${error.message}`);
  }
}

/**
 * Returns the JSON text of a value, or null for undefined. A bigint becomes a number if numbers are exact there, and the
 * text of its digits otherwise. Throws a TypeError if JSON cannot represent the value.
 */
export function write(value, what) {
  if (value === undefined) return null;
  const text = JSON.stringify(value, (key, part) => representable(part, key === "" ? what : `\`${key}\` of ${what}`));
  if (text === undefined) throw new TypeError(`writing ${what}: a ${typeof value} cannot be represented in JSON`);
  // `JSON.stringify` escapes unpaired surrogates, and the host does not accept these escapes.
  if (!text.includes("\\ud")) return text;
  return text.replace(ESCAPE, (escape, half) => (half ? "\ufffd" : escape));
}

/** Returns the value that `JSON.stringify` is to write. Throws a TypeError if it would omit or change it. */
function representable(value, what) {
  const refused = (found, hint = "") => new TypeError(`writing ${what}: ${found} cannot be represented in JSON${hint}`);
  if (typeof value === "number" && !Number.isFinite(value)) throw refused(String(value));
  if (typeof value === "bigint") return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  if (typeof value === "function" || typeof value === "symbol") throw refused(`a ${typeof value}`);
  if (value instanceof Map) throw refused("a Map", "; write `Object.fromEntries(map)`");
  if (value instanceof Set) throw refused("a Set", "; write `[...set]`");
  if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) {
    throw refused(`an object of \`${kindOf(value)}\``, "; write `[...bytes]`, or a string in base64");
  }
  return value;
}

/** Returns the content and the data of a message. If the content is absent, it is the data as JSON. */
export function body(content, value, what) {
  const data = write(value, what);
  if (content === undefined || content === null) return { content: data ?? "", data };
  // Other values are not converted to strings such as `[object Object]`; they are rejected later, by the validation.
  return { content: ["number", "bigint", "boolean"].includes(typeof content) ? String(content) : content, data };
}

const ESCAPE = /\\(?:u(d[0-9a-f]{3})|.)/g;
