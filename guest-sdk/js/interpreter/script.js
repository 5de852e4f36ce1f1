// Loading of scripts. A script is either like the source of an action, with `export default action({ … })`,
// `export default function (cx) { … }` or `export function run(cx) { … }`, or it contains only the body of `run`: it uses
// the variable `cx`, may await, and returns its output, or any object as the data of the output.
//
// Modules and promises of the engine do not work inside a call. Imports and exports therefore become assignments, and
// async functions become generators that `drive` runs. The line numbers do not change.

import { Failure } from "@strata/action";
import { parse } from "acorn";
import { simple } from "acorn-walk";
import { Edits } from "./edits.js";
import { reportLines } from "./lines.js";

const SDK = "@strata/action";
const HEAD = '(function* ($import, $export, $drive, $seen, $reached, cx) { "use strict"; ';
const TAIL = "\n})";
const OPTIONS = {
  ecmaVersion: 2023,
  sourceType: "module",
  allowReturnOutsideFunction: true,
  allowAwaitOutsideFunction: true,
  locations: true,
  // Braces are inserted around the expression of an arrow function, including its parentheses.
  preserveParens: true,
};

/**
 * Evaluates the result of `translate`, and returns the action that the script defines. `lineReached` is called with the
 * number of a line when the script reaches it for the first time; see `lines.js`.
 */
export async function load(code, { sdk, cx, lineReached }) {
  const exported = {};
  const seen = [];
  const reached = (line) => {
    seen[line] = true;
    lineReached(line);
  };
  const body = (0, eval)(code);
  const outcome = await drive(body(() => sdk, exported, drive, seen, reached, cx));
  const { default: main, ...named } = exported;
  if (typeof main === "function") return { run: main };
  if (main) return main;
  return Object.keys(named).length > 0 ? named : { run: () => output(outcome) };
}

/** Converts the value that a body returned to an output. An object without keys of an output is its data. */
function output(value) {
  if (value === null || typeof value !== "object") return value;
  const isOutput = ["content", "data", "parts", "to", "route"].some((key) => key in value);
  return isOutput ? value : { data: value };
}

/** Runs a generator that yields the values to be awaited, and returns a promise of its result. */
function drive(generator) {
  return new Promise((resolve, reject) => {
    const step = (how, value) => {
      try {
        const { done, value: next } = generator[how](value);
        if (done) resolve(next);
        else Promise.resolve(next).then((settled) => step("next", settled), (error) => step("throw", error));
      } catch (error) {
        reject(error);
      }
    };
    step("next");
  });
}

/**
 * Converts a script to code that the engine can evaluate. `locate` converts a position in that code to one in the
 * script. Throws a Failure if the script has a syntax error or uses something that is not supported.
 */
export function translate(name, source) {
  // A byte order mark is not part of the script.
  const text = source.replace(/^\uFEFF/, "").replace(/^#!/, "//");
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
  const { code, originalColumn } = edits.apply();
  const locate = (line, column) => {
    return `${name}:${line}:${originalColumn(line, line === 1 ? column - HEAD.length : column)}`;
  };
  return { code: HEAD + code + TAIL, locate };
}

function refused(name, { line, column }, why) {
  return new Failure("error", `SyntaxError: ${why}\n    at ${name}:${line}:${column + 1}`);
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
