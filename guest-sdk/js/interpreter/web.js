// Globals that browsers and Node have in common: copies of values, Base64 and random values.

import { random } from "@strata/action";

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Encodes a string whose characters are bytes. */
export function btoa(text) {
  const bytes = Array.from(String(text), (character) => character.codePointAt(0));
  if (bytes.some((byte) => byte > 0xff)) throw new RangeError("btoa: the text has characters beyond U+00FF");
  let encoded = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const [a, b, c] = [bytes[at], bytes[at + 1], bytes[at + 2]];
    const sextets = [a >> 2, ((a & 3) << 4) | (b >> 4), ((b & 15) << 2) | (c >> 6), c & 63];
    encoded += sextets.map((sextet, part) => (at + part > bytes.length ? "=" : LETTERS[sextet])).join("");
  }
  return encoded;
}

/** Decodes Base64 to a string whose characters are bytes. */
export function atob(text) {
  const sextets = Array.from(String(text).replace(/\s|=+\s*$/g, ""), (letter) => LETTERS.indexOf(letter));
  if (sextets.includes(-1) || sextets.length % 4 === 1) throw new RangeError("atob: the text is not Base64");
  let decoded = "";
  for (let at = 0; at < sextets.length; at += 4) {
    const [a, b, c, d] = sextets.slice(at, at + 4);
    const bytes = [(a << 2) | (b >> 4), ((b & 15) << 4) | (c >> 2), ((c & 3) << 6) | d];
    decoded += String.fromCharCode(...bytes.slice(0, Math.min(3, sextets.length - at - 1)));
  }
  return decoded;
}

/** Returns a deep copy of a value. Throws a TypeError for a function. */
export function structuredClone(value, copies = new Map()) {
  if (typeof value === "function" || typeof value === "symbol") throw new TypeError(`structuredClone: a ${typeof value} cannot be copied`);
  if (typeof value !== "object" || value === null) return value;
  if (copies.has(value)) return copies.get(value);
  if (value instanceof Date) return new Date(value.getTime());
  if (value instanceof RegExp) return new RegExp(value.source, value.flags);
  if (ArrayBuffer.isView(value)) return value.slice();
  const copy = emptyLike(value);
  copies.set(value, copy);
  const each = (part) => structuredClone(part, copies);
  if (value instanceof Map) value.forEach((part, key) => copy.set(each(key), each(part)));
  else if (value instanceof Set) value.forEach((part) => copy.add(each(part)));
  else Object.keys(value).forEach((key) => (copy[key] = each(value[key])));
  return copy;
}

function emptyLike(value) {
  if (value instanceof Map) return new Map();
  if (value instanceof Set) return new Set();
  if (value instanceof Error) return Object.assign(new Error(value.message), { name: value.name });
  return Array.isArray(value) ? new Array(value.length) : {};
}

export const crypto = {
  getRandomValues(values) {
    new Uint8Array(values.buffer, values.byteOffset, values.byteLength).set(random.bytes(values.byteLength));
    return values;
  },
  randomUUID() {
    const bytes = random.bytes(16);
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
  },
};
