// Loading of scripts. A script is either like the source of an action, with `export default action({ … })`,
// `export default function (cx) { … }` or `export function run(cx) { … }`, or it contains only the body of `run`: it uses
// the variable `cx`, may await, and returns its output, or any object as the data of the output.
//
// Modules and promises of the engine do not work inside a call. Imports and exports therefore become assignments, and
// async functions become generators that `drive` runs. The line numbers do not change.

import { Failure } from "@strata/action";
import { parse } from "acorn";
import { simple } from "acorn-walk";

const SDK = "@strata/action";
const HEAD = '(function* ($import, $export, $drive, cx) { "use strict"; ';
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

/** Evaluates the result of `translate`, and returns the action that the script defines. */
export async function load(code, sdk, cx) {
  const exported = {};
  const body = (0, eval)(code);
  const outcome = await drive(body(() => sdk, exported, drive, cx));
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
    edits.replace(node, assignments.length > 0 ? `const ${assignments.join(", ")};` : "");
  } else if (node.type === "ExportDefaultDeclaration") {
    const { id, start, end, type } = node.declaration;
    // A declaration with a name must remain one, because the rest of the script may use the name.
    const isDeclared = id && type.endsWith("Declaration");
    edits.put(node.start, start, isDeclared ? "" : "$export.default = ");
    edits.put(end, end, isDeclared ? ` ${exportOf("default", id.name)}` : ";");
  } else if (node.type === "ExportNamedDeclaration") {
    if (node.source) refuse(node, "a script cannot export from another module");
    const { declaration, specifiers } = node;
    if (!declaration) return edits.replace(node, specifiers.map((one) => exportOf(one.exported.name, one.local.name)).join(" "));
    const named = declaration.id ? [declaration.id] : declaration.declarations.map(({ id }) => id);
    named.forEach((id) => id.type === "Identifier" || refuse(id, "a script cannot export a destructuring pattern"));
    const names = named.map(({ name }) => name);
    edits.put(node.start, declaration.start, "");
    edits.put(node.end, node.end, ` ${names.map((each) => exportOf(each, each)).join(" ")}`);
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
      edits.put(node.body.start + 1, node.body.start + 1, ` ${open}`);
      edits.put(node.body.end - 1, node.body.end - 1, close);
    } else {
      edits.put(node.body.start, node.body.start, `{ ${open} return (`);
      edits.put(node.body.end, node.body.end, `); ${close} }`);
    }
  };
  // The keyword is before the function, or before the name of a method.
  const without = (node) => edits.put(node.start, node.start + "async".length, "");
  // The replacement begins with a parenthesis. Without a semicolon, it could continue the previous line.
  const statements = ({ body }) =>
    body.filter(({ type, start }) => type === "ExpressionStatement" && /^(await|async)\b/.test(edits.text.slice(start, start + 6)))
      .forEach(({ start }) => edits.put(start, start, ";"));
  const method = (node) => {
    if (node.value?.async && (node.method || node.type === "MethodDefinition")) {
      const start = edits.text.indexOf("async", node.start);
      edits.put(start, start + "async".length, "");
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
      edits.put(node.start, node.argument.start, "(yield (");
      edits.put(node.end, node.end, "))");
    },
    ForOfStatement: (node) => node.await && refuse(node, "`for await` is not supported; await each item"),
  });
}

/** Replacements in a text, in any order. They must not overlap. Line breaks are kept. */
class Edits {
  #edits = [];

  constructor(text) {
    this.text = text;
  }

  put(start, end, by) {
    const lines = this.text.slice(start, end).replace(/[^\n]/g, "");
    this.#edits.push({ start, end, by: by + lines });
  }

  replace(node, by) {
    this.put(node.start, node.end, by);
  }

  /** Returns the changed text, and a function that converts a column in one of its lines to the original one. */
  apply() {
    let code = "";
    let from = 0;
    const kept = [];
    const keep = (to) => {
      kept.push({ at: code.length, from, to });
      code += this.text.slice(from, to);
    };
    // The sort is stable: at the same position, the end of an inner node was added before that of the outer one.
    for (const { start, end, by } of this.#edits.toSorted((a, b) => a.start - b.start || a.end - b.end)) {
      keep(start);
      code += by;
      from = end;
    }
    keep(this.text.length);
    return { code, originalColumn: (line, column) => this.#originalColumn(code, kept, line, column) };
  }

  #originalColumn(code, kept, line, column) {
    const startOfLine = (text) => text.split("\n").slice(0, line - 1).join("\n").length + (line > 1);
    const position = startOfLine(code) + Math.max(0, column - 1);
    const { at, from, to } = kept.findLast((part) => part.at <= position) ?? kept[0];
    return Math.max(1, Math.min(to, from + position - at) - startOfLine(this.text) + 1);
  }
}
