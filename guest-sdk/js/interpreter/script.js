// A script, and how it becomes a function. A script is either like an action's source, with `export default action({ … })`,
// `export default function (cx) { … }` or `export function run(cx) { … }`; or it is the body of `run`: it finds `cx`, may
// await, and returns its output, or any object as the output's data.
//
// Modules and promises of the engine's own are of no use inside a call, so imports and exports become assignments,
// and async functions generators that `drive` runs. Lines stay where they are, so errors need no map.

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
  // So that braces can be put around an arrow's expression, parentheses and all.
  preserveParens: true,
};

/** Evaluates what `translate` made of a script, up to the action that it is. */
export async function load(code, sdk, cx) {
  const exported = {};
  const body = (0, eval)(code);
  const outcome = await drive(body(() => sdk, exported, drive, cx));
  const { default: main, ...named } = exported;
  if (typeof main === "function") return { run: main };
  if (main) return main;
  return Object.keys(named).length > 0 ? named : { run: () => output(outcome) };
}

/** A body's value: who writes a few lines need not know how an output is made up. */
function output(value) {
  const isData = value !== null && typeof value === "object" && !["content", "data", "parts", "to", "route"].some((key) => key in value);
  return isData ? { data: value } : value;
}

/** Runs a generator that yields what is to be awaited. */
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

/** What the engine is to evaluate, and where a place in that lies in the script. */
export function translate(name, source) {
  // A byte order mark before the script is no part of it.
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
  asynchronous(tree, edits, refuse);
  tree.body.forEach((node) => moduleItem(node, edits, refuse));
  const { code, back } = edits.applied();
  const place = (line, column) => `${name}:${line}:${back(line, line === 1 ? column - HEAD.length : column)}`;
  return { code: HEAD + code + TAIL, place };
}

function refused(name, { line, column }, why) {
  return new Failure("error", `SyntaxError: ${why}\n    at ${name}:${line}:${column + 1}`);
}

/** Replaces imports and exports. */
function moduleItem(node, edits, refuse) {
  if (node.type === "ImportDeclaration") {
    if (node.source.value !== SDK) refuse(node, `a script can import \`${SDK}\` only, not \`${node.source.value}\``);
    const parts = node.specifiers.map(({ type, local, imported }) => {
      if (type === "ImportDefaultSpecifier") refuse(node, `\`${SDK}\` has no default export; write \`{ ${local.name} }\``);
      return type === "ImportSpecifier" ? `{ ${imported.name}: ${local.name} }` : local.name;
    });
    const assignments = parts.map((part) => `${part} = $import()`);
    edits.replace(node, assignments.length > 0 ? `const ${assignments.join(", ")};` : "");
  } else if (node.type === "ExportDefaultDeclaration") {
    const { id, start, end, type } = node.declaration;
    // What has a name is known by it in the rest of the script.
    const isDeclared = id && type.endsWith("Declaration");
    edits.put(node.start, start, isDeclared ? "" : "$export.default = ");
    edits.put(end, end, isDeclared ? ` ${assigned("default", id.name)}` : ";");
  } else if (node.type === "ExportNamedDeclaration") {
    if (node.source) refuse(node, "a script cannot export from elsewhere");
    const { declaration, specifiers } = node;
    if (!declaration) return edits.replace(node, specifiers.map((one) => assigned(one.exported.name, one.local.name)).join(" "));
    const named = declaration.id ? [declaration.id] : declaration.declarations.map(({ id }) => id);
    named.forEach((id) => id.type === "Identifier" || refuse(id, "a script exports names one by one"));
    const names = named.map(({ name }) => name);
    edits.put(node.start, declaration.start, "");
    edits.put(node.end, node.end, ` ${names.map((each) => assigned(each, each)).join(" ")}`);
  } else if (node.type === "ExportAllDeclaration") {
    refuse(node, "a script cannot export from elsewhere");
  }
}

const assigned = (exported, local) => `$export.${exported} = ${local};`;

/** Makes generators of async functions, and of their awaits yields. */
function asynchronous(tree, edits, refuse) {
  const asyncFunction = (node) => {
    if (!node.async) return;
    if (node.generator) refuse(node, "async generators are not there; return a promise of a list");
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
  // The word itself stands before the function, or before the name of the method that it is.
  const without = (node) => edits.put(node.start, node.start + "async".length, "");
  // Where a line before it ends without a semicolon, what is put here must not go on with it.
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
    ImportExpression: (node) => refuse(node, `a script can import \`${SDK}\` only, at its head`),
    Property: method,
    MethodDefinition: method,
    Function: asyncFunction,
    AwaitExpression(node) {
      edits.put(node.start, node.argument.start, "(yield (");
      edits.put(node.end, node.end, "))");
    },
    ForOfStatement: (node) => node.await && refuse(node, "`for await` is not there; await the items one by one"),
  });
}

/** Changes to a text, in any order; they do not overlap. Line breaks are kept. */
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

  applied() {
    let code = "";
    let from = 0;
    const kept = [];
    const keep = (to) => {
      kept.push({ at: code.length, from, to });
      code += this.text.slice(from, to);
    };
    // Of those at one place: what closes something inner was put down before what closes its outer.
    for (const { start, end, by } of this.#edits.toSorted((a, b) => a.start - b.start || a.end - b.end)) {
      keep(start);
      code += by;
      from = end;
    }
    keep(this.text.length);
    return { code, back: (line, column) => this.#back(code, kept, line, column) };
  }

  /** The column in the text that has become this one of the code. */
  #back(code, kept, line, column) {
    const [there, here] = [code, this.text].map((text) => text.split("\n").slice(0, line - 1).join("\n").length + (line > 1));
    const place = there + Math.max(0, column - 1);
    const { at, from, to } = kept.findLast((part) => part.at <= place) ?? kept[0];
    return Math.max(1, Math.min(to, from + place - at) - here + 1);
  }
}
