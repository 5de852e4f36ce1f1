// Loading of scripts. A script is either like the source of an action, with `export default action({ … })`,
// `export default function (cx) { … }` or `export function run(cx) { … }`, or it is a program or the body of `run`: it uses
// the variable `cx`, may await, and returns its output, or any object as the data of the output, or prints its result. As
// in a notebook, the value of the last line is kept, in case the script has no other result.
//
// Modules and promises of the engine do not work inside a call. Imports and exports therefore become assignments, and
// async functions become generators that `runGenerator` runs. The line numbers do not change.

import { Failure, tools } from "@strata/action";
import { parse } from "acorn";
import { simple } from "acorn-walk";
import { Edits, originalColumn } from "./edits.js";
import { reportLines } from "./lines.js";
import { missingInSdk, nameOf } from "./names.js";
import { withoutTypes } from "./typescript.js";

const SDK = "@strata/action";
const HEAD = '(function* ($import, $export, $drive, $seen, $reached, $last, cx) { "use strict"; ';
/** What an action may export. */
const METHODS = ["run", "plan", "choose"];
/** Replaces `import.meta`. Programs compare the URL with `process.argv` to find out whether they are the main program. */
const META = "({ main: true, url: `file://${process.argv[1]}` })";
const TAIL = "\n})";
/** How scripts are parsed. */
export const OPTIONS = {
  ecmaVersion: "latest",
  sourceType: "module",
  allowReturnOutsideFunction: true,
  allowAwaitOutsideFunction: true,
  locations: true,
  // Braces are inserted around the expression of an arrow function, including its parentheses.
  preserveParens: true,
};

/**
 * Evaluates the code of a translation, and returns the action that the script defines, or a promise of it.
 * `importModule` returns a module. `lineReached` is called with the number of a line when the script reaches it for the
 * first time; see `lines.js`. `resultOf(returned, last)` returns what a script without exports has as its result: `returned`
 * is what it returned, and `last` the value of its last line.
 */
export function load({ code, onlyDefines }, { importModule, cx, lineReached, resultOf }) {
  const exported = {};
  const module = { exports: exported };
  // As globals, because a script may declare variables with these names.
  Object.assign(globalThis, { tools, exports: exported, module, require: Object.assign((name) => importModule(name), { main: module }) });
  const last = {};
  const seen = [];
  const reached = (line) => {
    seen[line] = true;
    lineReached(line);
  };
  const body = (0, eval)(HEAD + code + TAIL);
  const generator = body(importModule, exported, runGenerator, seen, reached, last, cx);
  const first = generator.next();
  return whenSettled(first.done ? first.value : runGenerator(generator, first), (returned) => {
    const { default: main = module.exports, ...named } = module.exports;
    if (typeof main === "function") return { run: main };
    if (main !== module.exports) return main;
    if (METHODS.some((name) => typeof named[name] === "function")) return named;
    return whenSettled(resultOf(returned, last, onlyDefines), (result) => ({ run: () => output(result) }));
  });
}

/** Calls a function with a value, or with the result of a promise once it has one. Returns what the function returns. */
export function whenSettled(value, use) {
  return typeof value?.then === "function" ? value.then(use) : use(value);
}

/** Converts the value that a body returned to an output. An object without keys of an output is its data. */
function output(value) {
  if (value === null || typeof value !== "object") return value;
  if (value instanceof Date) return { content: value.toISOString(), data: value };
  const isOutput = ["content", "data", "parts", "to", "route"].some((key) => key in value);
  return isOutput ? value : { data: value };
}

/**
 * Runs a generator that yields the values to be awaited, and returns a promise of its result. `first` is the result of
 * its first step, if that was made already.
 */
export function runGenerator(generator, first) {
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
 * depends only on the parameters. `isAvailable` and `instead` are those of `modules.js`. Throws a Failure if the script has a
 * syntax error or uses something that is not supported, with its position as `syntaxError`.
 */
export function translate(name, source, modules) {
  const { text, tree, refuse } = parsed(name, source);
  const edits = new Edits(text);
  keepLastValue(tree, edits);
  reportLines(tree, edits);
  replaceAsync(tree, edits, refuse);
  tree.body.forEach((node) => replaceModuleItem(node, edits, refuse, modules));
  const { code, kept } = edits.apply();
  // A text, because it is needed only for errors.
  return { code, kept: JSON.stringify(kept), onlyDefines: tree.body.every(isDefinition) };
}

/**
 * Returns the JavaScript of a script or a module, its syntax tree, and a function that refuses what is at a node. Throws a
 * Failure with the position as `syntaxError` if it has a syntax error.
 */
export function parsed(name, source, options = OPTIONS) {
  const text = javaScriptOf(name, source);
  const refuse = (node, why) => {
    throw refused(name, node.loc.start, why);
  };
  try {
    return { text, tree: parse(text, options), refuse };
  } catch (error) {
    if (!error.loc) throw error;
    throw refused(name, error.loc, error.message.replace(/ \(\d+:\d+\)$/, ""));
  }
}

/** Returns whether a statement only defines something, so that a script of such statements does nothing. */
function isDefinition({ type, directive }) {
  return /^(Function|Class|Variable|Import|Export|Empty)/.test(type) || directive !== undefined;
}

/** Stores the value of the last statement, if it is an expression. */
function keepLastValue({ body }, edits) {
  const { type, directive, expression } = body.at(-1) ?? {};
  if (type !== "ExpressionStatement" || directive || /^(Assignment|Update)/.test(expression.type)) return;
  edits.surround(expression.start, expression.end, "$last.value = (", ")");
}

/** Returns a function that converts a position in the code of a translation to one in the script. */
export function locator(name, source, { code, kept }) {
  return (line, column) => {
    const inCode = line === 1 ? column - HEAD.length : column;
    return `${name}:${line}:${mappedColumn(name, source, { code, kept }, line, inCode)}`;
  };
}

/** Converts a column in a line of a translation to one in the script or module with this name and source. */
export function mappedColumn(name, source, { code, kept }, line, column) {
  return originalColumn(javaScriptOf(name, source), { code, kept: JSON.parse(kept) }, line, column);
}

/** Returns the JavaScript of a script. Its lines are those of the script. */
export function javaScriptOf(name, source) {
  const text = withoutMarks(source);
  if (!/\.[mc]?ts$/.test(name)) return text;
  try {
    return withoutTypes(text);
  } catch (error) {
    if (!error.loc) throw error;
    throw refused(name, { line: error.loc.line, column: error.loc.column - 1 }, error.message);
  }
}

/** Returns a script without a byte order mark, which is not part of it, and with a comment for `#!`. */
function withoutMarks(source) {
  return source.replace(/^\uFEFF/, "").replace(/^#!/, "//");
}

function refused(name, { line, column }, why) {
  const message = `SyntaxError: ${why}`;
  const failure = new Failure("error", `${message}\n    at ${name}:${line}:${column + 1}`);
  return Object.assign(failure, { syntaxError: { message, file: name, line, column: column + 1 } });
}

/** Replaces imports and exports. */
function replaceModuleItem(node, edits, refuse, { isAvailable, instead }) {
  if (node.type === "ImportDeclaration") {
    const { value: name } = node.source;
    if (!isAvailable(name)) refuse(node, `cannot find module \`${name}\`: ${instead(name)}`);
    const found = `$import(${JSON.stringify(name)})`;
    const assignments = node.specifiers.map((specifier) => {
      const { type, local, imported } = specifier;
      if (type === "ImportNamespaceSpecifier") return `${local.name} = ${found}`;
      const member = type === "ImportDefaultSpecifier" ? "default" : nameOf(imported);
      const missing = name === SDK ? missingInSdk(member) : undefined;
      if (missing) refuse(specifier, member === "default" ? `${missing}; write \`{ ${local.name} }\`` : missing);
      return `{ ${member}: ${local.name} } = ${found}`;
    });
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
export function replaceAsync(tree, edits, refuse) {
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
    ImportExpression({ start, source, end }) {
      edits.replace(start, source.start, "Promise.resolve(");
      edits.replace(source.end, end, ").then($import)");
    },
    MetaProperty: ({ meta, start, end }) => meta.name === "import" && edits.replace(start, end, META),
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
