// The module `assert` of Node.

import { inspect } from "../src/console.js";

class AssertionError extends Error {
  constructor(message) {
    super(message);
    this.name = "AssertionError";
  }
}

/** Throws an error with this message, or with what was compared, unless a condition holds. */
function check(condition, message, actual, comparison, expected) {
  if (condition) return;
  if (message instanceof Error) throw message;
  throw new AssertionError(message ?? `${inspect(actual)} ${comparison} ${inspect(expected)}`);
}

export const assert = (value, message) => check(value, message, value, "is not", "truthy");

/** Returns whether two values have equal parts. */
function isDeepEqual(a, b) {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (a instanceof Date) return a.getTime() === b.getTime();
  if (a instanceof Map || a instanceof Set) return isDeepEqual([...a], [...b]);
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && isDeepEqual(a[key], b[key]));
}

const equal = (actual, expected, message) => check(actual == expected, message, actual, "!=", expected);
const strictEqual = (actual, expected, message) => check(Object.is(actual, expected), message, actual, "!==", expected);
const notStrictEqual = (actual, expected, message) => check(!Object.is(actual, expected), message, actual, "===", expected);
const deepEqual = (actual, expected, message) => check(isDeepEqual(actual, expected), message, actual, "does not equal", expected);
const throws = (call, expected) => {
  try {
    call();
  } catch (error) {
    if (expected instanceof RegExp) check(expected.test(String(error)), undefined, String(error), "does not match", expected);
    return;
  }
  throw new AssertionError("Missing expected exception.");
};

Object.assign(assert, {
  AssertionError, deepEqual, deepStrictEqual: deepEqual, equal, notStrictEqual, ok: assert, strict: assert, strictEqual, throws,
});
