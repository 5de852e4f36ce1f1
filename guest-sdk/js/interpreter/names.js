// Which names modules export, and whether those exist that they import. The engine sees no imports, so a name that does not
// exist would be a variable without a value.

import * as sdk from "@strata/action";

const SDK = "@strata/action";
const SDK_NAMES = new Set(Object.keys(sdk));

/** Returns the name of a member of a module, which may be a string. */
export const nameOf = ({ name, value }) => name ?? value;

/** Returns what is wrong with the import of a name from the SDK, if it does not exist. */
export const missingInSdk = (name) => (SDK_NAMES.has(name) ? undefined : missing(SDK, name));

/**
 * Refuses the first import of a name that its module does not export. Modules are `{ name, imports, tree, refuse }`; all
 * that they import are among them. Types are not names: an import of a type must be gone from the tree of a module in
 * TypeScript, and what it exports from another module may be one.
 */
export function checkNames(modules) {
  const byName = new Map(modules.map((module) => [module.name, module]));
  const found = new Map();
  const exportsOf = (module, { value }) => {
    if (value === SDK) return SDK_NAMES;
    const target = byName.get(Object.hasOwn(module.imports, value) ? module.imports[value] : undefined);
    if (target === undefined) return undefined;
    if (!found.has(target)) found.set(target, exportedNames(target, exportsOf));
    return found.get(target);
  };
  for (const module of modules) {
    for (const node of module.tree.body.filter(({ source }) => source)) {
      const names = exportsOf(module, node.source);
      const isMissing = ({ imported }) => names !== undefined && !names.has(imported);
      const wrong = importedNames(module, node).find(isMissing);
      if (wrong) module.refuse(wrong.at, missing(node.source.value, wrong.imported));
    }
  }
}

/** Returns the names that a module exports. `exportsOf` returns those of a module that it names. */
export function exportedNames(module, exportsOf) {
  const names = module.tree.body.flatMap((node) => {
    switch (node.type) {
      case "ExportDefaultDeclaration": return ["default"];
      case "ExportNamedDeclaration": return [...declaredNames(node.declaration), ...node.specifiers.map(({ exported }) => nameOf(exported))];
      case "ExportAllDeclaration":
        if (node.exported) return [nameOf(node.exported)];
        return [...(exportsOf(module, node.source) ?? [])].filter((name) => name !== "default");
      default: return [];
    }
  });
  return new Set(names);
}

/** Returns the names that a declaration declares, if there is one. */
export function declaredNames(declaration) {
  if (!declaration) return [];
  const patterns = declaration.id ? [declaration.id] : declaration.declarations.map(({ id }) => id);
  return patterns.flatMap(namesIn);
}

/** Returns the names that a statement imports from another module, each with its node. */
function importedNames({ name, tree }, { type, specifiers = [] }) {
  const isTypeScript = /\.[mc]?ts$/.test(name);
  if (type === "ExportNamedDeclaration") {
    return isTypeScript ? [] : specifiers.map(({ local }) => ({ at: local, imported: nameOf(local) }));
  }
  const passedOn = isTypeScript ? locallyExported(tree) : [];
  return specifiers
    .filter((one) => one.type !== "ImportNamespaceSpecifier" && !passedOn.includes(one.local.name))
    .map((one) => ({ at: one, imported: one.type === "ImportDefaultSpecifier" ? "default" : nameOf(one.imported) }));
}

/** Returns the names of variables that a module exports apart from their declarations. */
function locallyExported({ body }) {
  const lists = body.filter(({ type, source }) => type === "ExportNamedDeclaration" && !source);
  return lists.flatMap(({ specifiers }) => specifiers.map(({ local }) => nameOf(local)));
}

/** Returns the names that a pattern declares. */
function namesIn(pattern) {
  switch (pattern?.type) {
    case "Identifier": return [pattern.name];
    case "ObjectPattern": return pattern.properties.flatMap(({ value, argument }) => namesIn(value ?? argument));
    case "ArrayPattern": return pattern.elements.flatMap(namesIn);
    case "AssignmentPattern": return namesIn(pattern.left);
    case "RestElement": return namesIn(pattern.argument);
    default: return [];
  }
}

function missing(module, name) {
  return name === "default" ? `\`${module}\` has no default export` : `\`${module}\` does not export \`${name}\``;
}
