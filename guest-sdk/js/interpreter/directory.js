// Loading of the source of an action in a directory, which consists of several modules.
//
// A directory is `{ name, module, files, description, translation }`: `module` is the name of the entry point, `files` are
// `{ name, text, imports }` with the names relative to the directory, and `imports` says which file each name in an import
// means. The host finds that out, and lets an interpreter run only what behaves here as it does in a built component. So
// no names of Node are defined for these modules.
//
// The modules are evaluated as one text, in which they follow each other. Its lines are counted as the host counts them.

import * as sdk from "@strata/action";
import { Edits } from "./edits.js";
import { reportLines } from "./lines.js";
import { checkNames, declaredNames, exportedNames, nameOf } from "./names.js";
import { OPTIONS, mappedColumn, parsed, replaceAsync, runGenerator } from "./script.js";

const { Failure } = sdk;
const SDK = "@strata/action";
/** How modules are parsed. */
const MODULE_OPTIONS = { ...OPTIONS, allowReturnOutsideFunction: false };
const PARAMETERS = "$import, $export, $drive, $seen, $reached";
/** What is before the first module, and before each of the others. */
const FIRST = `([function* (${PARAMETERS}) { "use strict"; `;
const NEXT = FIRST.replace("([", "}, ");
const LAST = "}])";

/**
 * Translates the modules of a directory, in their order, for `load`. Throws a Failure like `translate` of `script.js`, also if
 * a module imports a name that does not exist, or the entry point exports no action.
 */
export function translate({ module, files }) {
  const modules = files.map(({ name, text, imports }) => ({ name, imports, ...parsed(name, text, MODULE_OPTIONS) }));
  const translation = modules.map(translateModule);
  checkNames(modules);
  // `export *` passes no default on.
  const entry = modules.find(({ name }) => name === module);
  if (entry && !exportedNames(entry, () => []).has("default")) throw withoutAction(module);
  return translation;
}

/** Returns the failure of a directory whose entry point exports no action. */
function withoutAction(module) {
  const message = `\`${module}\` has no \`export default action({ run(cx) { … } })\``;
  return Object.assign(new Failure("error", message), { syntaxError: { message, file: module } });
}

function translateModule({ imports, text, tree, refuse }) {
  const edits = new Edits(text);
  const isAvailable = (imported) => imported === SDK || Object.hasOwn(imports, imported);
  const items = new ModuleItems(edits, (node, imported) => isAvailable(imported) || refuse(node, `cannot find module \`${imported}\``));
  reportLines(tree, edits);
  replaceAsync(tree, edits, refuse);
  tree.body.forEach((node) => items.replace(node));
  edits.surround(0, text.length, items.head(), "");
  const { code, kept } = edits.apply();
  // A text, because it is needed only for errors.
  return { code, kept: JSON.stringify(kept) };
}

/**
 * Replaces imports and exports. As in modules, all imports are made first, and what is exported is read when it is used, so
 * that functions can be used before the statements of their module have run.
 */
class ModuleItems {
  #edits;
  #checkName;
  #imports = [];
  #getters = [];

  constructor(edits, checkName) {
    this.#edits = edits;
    this.#checkName = checkName;
  }

  /** Returns what is inserted before the first statement. */
  head() {
    const members = this.#getters.map(([name, value]) => `get ${JSON.stringify(name)}() { return ${value}; }`);
    const defined = members.length > 0 ? `$export({ ${members.join(", ")} }); ` : "";
    return `let $default; ${defined}${this.#imports.join(" ")} `;
  }

  replace(node) {
    if (node.source) this.#checkName(node, node.source.value);
    if (node.type === "ImportDeclaration") this.#import(node);
    else if (node.type === "ExportDefaultDeclaration") this.#exportDefault(node);
    else if (node.type === "ExportNamedDeclaration") this.#exportNamed(node);
    else if (node.type === "ExportAllDeclaration") this.#exportAll(node);
  }

  #import({ specifiers, source, start, end }) {
    const found = `$import(${JSON.stringify(source.value)})`;
    const assignments = specifiers.map(({ type, local, imported }) => {
      if (type === "ImportNamespaceSpecifier") return `${local.name} = ${found}`;
      const member = type === "ImportDefaultSpecifier" ? "default" : nameOf(imported);
      return `{ ${JSON.stringify(member)}: ${local.name} } = ${found}`;
    });
    this.#imports.push(assignments.length > 0 ? `const ${assignments.join(", ")};` : `${found};`);
    this.#edits.replace(start, end, "");
  }

  #exportDefault({ declaration, start }) {
    const { id, type, start: from, end } = declaration;
    // A declaration with a name must remain one, because the rest of the module may use the name.
    const isDeclared = id && type.endsWith("Declaration");
    this.#getters.push(["default", isDeclared ? id.name : "$default"]);
    this.#edits.replace(start, from, isDeclared ? "" : "$default = ");
    if (!isDeclared) this.#edits.surround(from, end, "", ";");
  }

  #exportNamed({ declaration, specifiers, source, start, end }) {
    if (declaration) {
      this.#getters.push(...declaredNames(declaration).map((name) => [name, name]));
      this.#edits.replace(start, declaration.start, "");
      return;
    }
    const module = source && this.#importAs(source);
    specifiers.forEach(({ local, exported }) => {
      const value = module ? `${module}[${JSON.stringify(nameOf(local))}]` : local.name;
      this.#getters.push([nameOf(exported), value]);
    });
    this.#edits.replace(start, end, "");
  }

  #exportAll({ exported, source, start, end }) {
    const module = this.#importAs(source);
    if (exported) this.#getters.push([nameOf(exported), module]);
    else this.#imports.push(`$export(${module}, "all");`);
    this.#edits.replace(start, end, "");
  }

  /** Imports a module as a variable, and returns its name. */
  #importAs(source) {
    const name = `$module${this.#imports.length}`;
    this.#imports.push(`const ${name} = $import(${JSON.stringify(source.value)});`);
    return name;
  }
}

/**
 * Evaluates the modules of a directory, and returns the action that the entry point exports. `lineReached` is called with
 * the number of a line, in all files together, when a module reaches it for the first time.
 */
export function load({ module, files, translation }, lineReached) {
  const bodies = (0, eval)(`${FIRST}${translation.map(({ code }) => code).join(`\n${NEXT}`)}\n${LAST}`);
  const before = linesBefore(translation);
  const loaded = new Map();
  const loadFile = (name) => {
    if (loaded.has(name)) return loaded.get(name);
    const exported = {};
    loaded.set(name, exported);
    const index = files.findIndex((file) => file.name === name);
    const { imports } = files[index];
    const importModule = (imported) => {
      if (imported === SDK) return sdk;
      if (Object.hasOwn(imports, imported)) return loadFile(imports[imported]);
      throw new Error(`Cannot find module '${imported}'`);
    };
    const seen = [];
    const reached = (line) => {
      seen[line] = true;
      lineReached(before[index] + line);
    };
    const body = bodies[index](importModule, (members, all) => define(exported, members, all), runGenerator, seen, reached);
    if (!body.next().done) throw new Failure("error", `the module \`${name}\` awaits something while it is loaded, which actions cannot`);
    return exported;
  };
  const { default: action } = loadFile(module);
  if (typeof action?.run !== "function") throw withoutAction(module);
  return action;
}

/** Adds members to a module, by their getters. With `all`, they are those of another module, which do not replace its own. */
function define(exported, members, all) {
  for (const [name, member] of Object.entries(Object.getOwnPropertyDescriptors(members))) {
    if (all && (name === "default" || Object.hasOwn(exported, name))) continue;
    Object.defineProperty(exported, name, { ...member, enumerable: true });
  }
}

/** Returns how many lines are before each module. */
function linesBefore(translation) {
  let lines = 0;
  return translation.map(({ code }) => {
    const before = lines;
    lines += code.split("\n").length;
    return before;
  });
}

/** Returns a function that converts a position in the evaluated text to one in a file. */
export function locator({ files, translation }) {
  return (line, column) => {
    const before = linesBefore(translation);
    const index = Math.max(0, before.findLastIndex((lines) => lines < line));
    const inFile = line - before[index];
    const prefix = inFile > 1 ? 0 : (index === 0 ? FIRST : NEXT).length;
    const { name, text } = files[index];
    return `${name}:${inFile}:${mappedColumn(name, text, translation[index], inFile, column - prefix)}`;
  };
}

/** Returns the text of the entry point. */
export function entryText({ module, files }) {
  return files.find(({ name }) => name === module).text;
}
