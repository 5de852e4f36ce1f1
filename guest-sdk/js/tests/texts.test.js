// Tests of texts: of what is printed, of code blocks, and of bytes in the encodings that others use.

import assert from "node:assert/strict";
import { test } from "node:test";
import { createConsole, format } from "../src/console.js";
import { decode } from "../src/encodings.js";
import { codeBlocks } from "../src/index.js";
import { write } from "../src/json.js";

test("values are printed so that they can be recognized", () => {
  const circular = { a: [1] };
  circular.self = circular;
  for (const [values, expected] of [
    [[], ""],
    [["a", 1, null, undefined, true], "a 1 null undefined true"],
    [["%s has %d of %j%%", "a", "5", { b: 1 }, "more"], 'a has 5 of {"b":1}% more'],
    [["100%", 1], "100% 1"],
    [[[1, "a"], { a: { b: 2 } }], '[1,"a"] {"a":{"b":2}}'],
    [[new Map([["a", 1]]), new Map([[1, 2]]), new Set(["a"])], '{"a":1} [[1,2]] ["a"]'],
    [[5n, NaN, [Infinity], /a/g, function f() {}], '5n NaN ["Infinity"] /a/g [Function: f]'],
    [[circular, [circular.a, circular.a]], '{"a":[1],"self":"[Circular]"} [[1],[1]]'],
    [[new Uint8Array([1, 2]), Object.create(null)], "[1,2] {}"],
  ]) {
    assert.equal(format(...values), expected);
  }
});

test("a console distinguishes what Node writes to its two outputs", () => {
  const lines = [];
  const console = createConsole((level, text) => lines.push(`${level}: ${text}`));
  console.log("a");
  console.group("b");
  console.error("c\nd");
  console.groupEnd();
  console.assert(1 === 1, "not shown");
  console.assert(1 === 2, "e");
  console.table([{ n: 1 }, { n: 22, s: "x" }]);
  assert.deepEqual(lines, [
    "info: a", "info: b", "error:   c\n  d", "error: Assertion failed e",
    "info: (index) | n  | s\n0       | 1  |\n1       | 22 | x",
  ]);
});

test("the code blocks of a text are found in order", () => {
  const found = codeBlocks("A\n```js\n1\n```\nB\n  ~~~\n  2\n    3\n  ~~~\n````md\n```\n````\n```py\n4");
  assert.deepEqual(found, [
    { language: "js", code: "1\n", closed: true },
    { language: "", code: "2\n  3\n", closed: true },
    { language: "md", code: "```\n", closed: true },
    { language: "py", code: "4\n", closed: false },
  ]);
  assert.deepEqual(codeBlocks("none"), []);
});

test("a text is decoded as it says", () => {
  for (const [bytes, type, expected] of [
    [[0xc3, 0xa9], undefined, "\u00e9"],
    [[0xe9], "text/html; charset=ISO-8859-1", "\u00e9"],
    [[0xc0, 0x80], 'text/plain; charset="windows-1251"', "\u0410\u0402"],
    [[0xff, 0xfe, 0xe9, 0], "text/plain; charset=utf-8", "\u00e9"],
    [[0, 0xe9], "text/plain; charset=utf-16be", "\u00e9"],
    [[0xef, 0xbb, 0xbf, 0x61], "text/plain; charset=iso-8859-1", "a"],
    [[0xc3, 0xa9], "text/plain; charset=unheard-of", "\u00e9"],
    [[...Buffer.from('<meta charset="koi8-r">'), 0xc1], "text/html", '<meta charset="koi8-r">\u0430'],
    [[...Buffer.from('<?xml version="1.0" encoding="latin1"?>'), 0xe9], "text/xml", '<?xml version="1.0" encoding="latin1"?>\u00e9'],
    [[...Buffer.from('<meta charset="koi8-r">')], "text/plain", '<meta charset="koi8-r">'],
  ]) {
    assert.equal(decode(Uint8Array.from(bytes), type), expected);
  }
  assert.throws(() => decode(new Uint8Array(), "text/html; charset=Shift_JIS"), /this encoding is not supported/);
});

test("integers of any size are written exactly", () => {
  assert.equal(write([1n, 2n ** 53n - 1n, 2n ** 53n, -(10n ** 30n)], "it"), `[1,${2 ** 53 - 1},"${2n ** 53n}","-1${"0".repeat(30)}"]`);
});
