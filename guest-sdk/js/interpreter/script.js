// Loading of scripts. A script is either like the source of an action, with `export default action({ … })`,
// `export default function (cx) { … }` or `export function run(cx) { … }`, or it contains only the body of `run`: it uses
// the variable `cx`, may await, and returns its output, or any object as the data of the output.
//
// Modules and promises of the engine do not work inside a call. Imports and exports therefore become assignments, and
// async functions become generators that `drive` runs. The line numbers do not change.

import { Failure } from "@strata/action";
import { parse } from "acorn";
import { simple } from "acorn-walk";
import { Edits, originalColumn } from "./edits.js";
import { reportLines } from "./lines.js";

const SDK = "@strata/action";
const HEAD = '(function* ($import, $export, $drive, $seen, $reached, cx) { "use strict"; ';
const TAIL = "\n})";
/** How scripts are parsed. */
export const OPTIONS = {
  ecmaVersion: 2023,
  sourceType: "module",
  allowReturnOutsideFunction: true,
  allowAwaitOutsideFunction: true,
  locations: true,
  // Braces are inserted around the expression of an arrow function, including its parentheses.
  preserveParens: true,
};

/**
 * Evaluates the code of a translation, and returns the action that the script defines, or a promise of it.
 * `lineReached` is called with the number of a line when the script reaches it for the first time; see `lines.js`.
 */
export function load(code, { sdk, cx, lineReached }) {
  const exported = {};
  const seen = [];
  const reached = (line) => {
    seen[line] = true;
    lineReached(line);
  };
  const body = (0, eval)(HEAD + code + TAIL);
  const generator = body(() => sdk, exported, drive, seen, reached, cx);
  const first = generator.next();
  return whenSettled(first.done ? first.value : drive(generator, first), (outcome) => {
    const { default: main, ...named } = exported;
    if (typeof main === "function") return { run: main };
    if (main) return main;
    return Object.keys(named).length > 0 ? named : { run: () => output(outcome) };
  });
}

/** Calls a function with a value, or with the result of a promise once it has one. Returns what the function returns. */
export function whenSettled(value, use) {
  return typeof value?.then === "function" ? value.then(use) : use(value);
}

/** Converts the value that a body returned to an output. An object without keys of an output is its data. */
function output(value) {
  if (value === null || typeof value !== "object") return value;
  const isOutput = ["content", "data", "parts", "to", "route"].some((key) => key in value);
  return isOutput ? value : { data: value };
}

/**
 * Runs a generator that yields the values to be awaited, and returns a promise of its result. `first` is the result of
 * its first step, if that was made already.
 */
function drive(generator, first) {
  return new Promise((resolve, reject) => {
    const take = ({ done, value }) => {
      if (done) resolve(value);
      else Promise.resolve(value).then((settled) => step("next", settled), (error) => step("throw", error));
    };
    const step = (how, value) => {
      try {
        take(generator[how](value));
      } catch (error) {
        reject(error);
      }
    };
    if (first) take(first);
    else step("next");
  });
}

/**
 * Translates a script to code that the engine can evaluate, for `load`. The result can be represented in JSON, and
 * depends only on the parameters. Throws a Failure if the script has a syntax error or uses something that is not
 * supported, with its position as `syntaxError`.
 */
export function translate(name, source) {
  const text = withoutMarks(source);
  let tree;
  try {
    tree = parse(text, OPTIONS);
  } catch (error) {
    if (!error.loc) throw error;
    throw refused(name, error.loc, error.message.replace(/ \(\d+:\d+\)$/, ""));
  }
  const edits = new Edits(text);
  const refuse = (node, why) => {
    throw refused(name, node.loc.start, why);
  };
  reportLines(tree, edits);
  replaceAsync(tree, edits, refuse);
  tree.body.forEach((node) => replaceModuleItem(node, edits, refuse));
  const { code, kept } = edits.apply();
  // A text, because it is needed only for errors.
  return { code, kept: JSON.stringify(kept) };
}

/** Returns a function that converts a position in the code of a translation to one in the script. */
export function locator(name, source, { code, kept }) {
  return (line, column) => {
    const changed = { code, kept: JSON.parse(kept) };
    return `${name}:${line}:${originalColumn(withoutMarks(source), changed, line, line === 1 ? column - HEAD.length : column)}`;
  };
}

/** Returns a script without a byte order mark, which is not part of it, and with a comment for `#!`. */
export function withoutMarks(source) {
  return source.replace(/^\uFEFF/, "").replace(/^#!/, "//");
}

function refused(name, { line, column }, why) {
  const message = `SyntaxError: ${why}`;
  const failure = new Failure("error", `${message}\n    at ${name}:${line}:${column + 1}`);
  return Object.assign(failure, { syntaxError: { message, file: name, line, column: column + 1 } });
}

/** Replaces imports and exports. */
function replaceModuleItem(node, edits, refuse) {
  if (node.type === "ImportDeclaration") {
    if (node.source.value !== SDK) refuse(node, `a script can import only \`${SDK}\`, not \`${node.source.value}\``);
    const parts = node.specifiers.map(({ type, local, imported }) => {
      if (type === "ImportDefaultSpecifier") refuse(node, `\`${SDK}\` has no default export; write \`{ ${local.name} }\``);
      return type === "ImportSpecifier" ? `{ ${imported.name}: ${local.name} }` : local.name;
    });
    const assignments = parts.map((part) => `${part} = $import()`);
    edits.replace(node.start, node.end, assignments.length > 0 ? `const ${assignments.join(", ")};` : "");
  } else if (node.type === "ExportDefaultDeclaration") {
    const { id, start, end, type } = node.declaration;
    // A declaration with a name must remain one, because the rest of the script may use the name.
    const isDeclared = id && type.endsWith("Declaration");
    edits.replace(node.start, start, isDeclared ? "" : "$export.default = ");
    edits.surround(start, end, "", isDeclared ? ` ${exportOf("default", id.name)}` : ";");
  } else if (node.type === "ExportNamedDeclaration") {
    if (node.source) refuse(node, "a script cannot export from another module");
    const { declaration, specifiers } = node;
    if (!declaration) {
      const assignments = specifiers.map((one) => exportOf(one.exported.name, one.local.name));
      return edits.replace(node.start, node.end, assignments.join(" "));
    }
    const named = declaration.id ? [declaration.id] : declaration.declarations.map(({ id }) => id);
    named.forEach((id) => id.type === "Identifier" || refuse(id, "a script cannot export a destructuring pattern"));
    const names = named.map(({ name }) => name);
    edits.replace(node.start, declaration.start, "");
    // A declaration of variables may end without a semicolon.
    edits.surround(node.start, node.end, "", `; ${names.map((each) => exportOf(each, each)).join(" ")}`);
  } else if (node.type === "ExportAllDeclaration") {
    refuse(node, "a script cannot export from another module");
  }
}

const exportOf = (exported, local) => `$export.${exported} = ${local};`;

/** Replaces async functions by generators, and `await` by `yield`. */
function replaceAsync(tree, edits, refuse) {
  const asyncFunction = (node) => {
    if (!node.async) return;
    if (node.generator) refuse(node, "async generators are not supported; return a promise of an array");
    const isArrow = node.type === "ArrowFunctionExpression";
    const [open, close] = ["return $drive((function* () {", isArrow ? "}).call(this));" : "}).apply(this, arguments));"];
    if (node.body.type === "BlockStatement") {
      edits.surround(node.body.start + 1, node.body.end - 1, ` ${open}`, close);
    } else {
      edits.surround(node.body.start, node.body.end, `{ ${open} return (`, `); ${close} }`);
    }
  };
  // The keyword is before the function, or before the name of a method.
  const without = (node) => edits.replace(node.start, node.start + "async".length, "");
  // The replacement begins with a parenthesis. Without a semicolon, it could continue the previous line.
  const statements = ({ body }) =>
    body.filter(({ type, start }) => type === "ExpressionStatement" && /^(await|async)\b/.test(edits.text.slice(start, start + 6)))
      .forEach(({ start, end }) => edits.surround(start, end, ";", ""));
  const method = (node) => {
    if (node.value?.async && (node.method || node.type === "MethodDefinition")) {
      const start = edits.text.indexOf("async", node.start);
      edits.replace(start, start + "async".length, "");
    }
  };
  simple(tree, {
    FunctionDeclaration: (node) => node.async && without(node),
    ArrowFunctionExpression: (node) => node.async && without(node),
    FunctionExpression: (node) => node.async && edits.text.startsWith("async", node.start) && without(node),
    Program: statements,
    BlockStatement: statements,
    StaticBlock: statements,
    SwitchCase: ({ consequent }) => statements({ body: consequent }),
    ImportExpression: (node) => refuse(node, `a script can import only \`${SDK}\`, with an \`import\` declaration`),
    Property: method,
    MethodDefinition: method,
    Function: asyncFunction,
    AwaitExpression(node) {
      edits.replace(node.start, node.argument.start, "(yield (");
      edits.surround(node.start, node.end, "", "))");
    },
    ForOfStatement: (node) => node.await && refuse(node, "`for await` is not supported; await each item"),
  });
}
