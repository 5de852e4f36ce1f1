// What a comment says of a script: the first paragraph is the description, and each `@param` that is not about the context
// describes an argument of a tool call. Its name is that in `cx.arguments`, alone or after `cx.arguments.` or `args.`:
// `@param {number} size - The size.`, `@param {string[]} [args.names=[]]`.

const TYPES = { boolean: "boolean", bool: "boolean", integer: "integer", int: "integer", null: "null", number: "number",
  object: "object", string: "string" };
/** Names of all arguments together, which precede the name of one of them. */
const CONTAINER = /^(?:[\w$]+\.)?(?:arguments|args)(?:\.|$)/;

/** Returns the first paragraph of a text, as one line. */
export const summary = (text) => text.trim().split(/\n\s*\n/)[0].split(/\s+/).join(" ").trim();

/** Returns the text of a block comment, without the asterisks at the beginning of its lines. */
export const textOfBlock = (value) => value.split("\n").map((line) => line.replace(/^\s*\*? ?/, "")).join("\n").trim();

/**
 * Returns the description in a comment, and the JSON Schema of the arguments; undefined if it describes none. `context` is
 * the name of the parameter of the function.
 */
export function readComment(text, context = "cx") {
  const [description, ...tags] = text.split(/^\s*@(?=\w)/m);
  const schema = { type: "object", properties: {}, required: [], additionalProperties: false };
  for (const tag of tags) {
    const found = readParameter(tag);
    const path = found?.name.replace(CONTAINER, "");
    if (!path || path === context || path.startsWith(`${context}.`)) continue;
    add(schema, path.split("."), found);
  }
  return { description: summary(description), inputSchema: Object.keys(schema.properties).length > 0 ? schema : undefined };
}

/** Reads `param {type} [name=default] - description`. Returns undefined for another tag. */
function readParameter(tag) {
  const start = /^(?:param|arg|argument)\s+/.exec(tag)?.[0].length;
  if (start === undefined) return undefined;
  let rest = tag.slice(start);
  let type;
  if (rest.startsWith("{")) {
    const end = closing(rest, "{", "}");
    if (end === undefined) return undefined;
    [type, rest] = [rest.slice(1, end), rest.slice(end + 1).trimStart()];
  }
  const isBracketed = rest.startsWith("[");
  const end = isBracketed ? closing(rest, "[", "]") : rest.search(/\s|$/);
  if (end === undefined) return undefined;
  const [name, ...given] = (isBracketed ? rest.slice(1, end) : rest.slice(0, end)).split("=");
  const isOptional = isBracketed || (type?.endsWith("=") ?? false);
  const schema = { ...schemaOf(type?.replace(/=$/, "") ?? "*") };
  const description = summary(rest.slice(isBracketed ? end + 1 : end).replace(/^\s*-\s+/, ""));
  if (description) schema.description = description;
  if (given.length > 0) schema.default = valueOf(given.join("=").trim());
  return { name: name.trim(), isOptional, schema };
}

/** Returns the position of the bracket that closes the one at the beginning of a text. */
function closing(text, open, close) {
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === open) depth++;
    else if (text[at] === close && --depth === 0) return at;
  }
  return undefined;
}

/** Returns the value of a default: JSON, or a text. */
function valueOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text.replace(/^(['"`])(.*)\1$/, "$2");
  }
}

/** Adds a property to the schema of an object: `part.name` is a property of a property, `parts[].name` of its items. */
function add(schema, [first, ...rest], found) {
  const name = first.replace(/\[\]$/, "");
  if (rest.length === 0) {
    schema.properties[name] = { ...found.schema, ...inner(schema.properties[name]) };
    if (!found.isOptional && !schema.required.includes(name)) schema.required.push(name);
    return;
  }
  const isArray = first.endsWith("[]") || schema.properties[name]?.type === "array";
  const property = (schema.properties[name] ??= isArray ? { type: "array" } : { type: "object" });
  const target = isArray ? (property.items = { type: "object", ...property.items }) : property;
  target.properties ??= {};
  target.required ??= [];
  add(target, rest, found);
}

/** Returns what is known of the properties of a property. */
function inner(known) {
  return known === undefined ? {} : { properties: known.properties, required: known.required };
}

/** Returns the JSON Schema of a type of JSDoc or TypeScript; `{}`, which accepts anything, for an unknown one. */
export function schemaOf(type) {
  const text = type.trim();
  const choices = split(text, "|");
  if (choices.length > 1) return union(choices);
  if (text.startsWith("(") && closing(text, "(", ")") === text.length - 1) return schemaOf(text.slice(1, -1));
  if (text.startsWith("?")) return union([text.slice(1), "null"]);
  if (text.startsWith("!")) return schemaOf(text.slice(1));
  if (text.endsWith("[]")) return { type: "array", items: schemaOf(text.slice(0, -2)) };
  const [, outer, of] = /^(\w+)\.?<(.*)>$/s.exec(text) ?? [];
  if (outer === "Array" || outer === "ReadonlyArray") return { type: "array", items: schemaOf(of) };
  if (outer === "Record" || outer === "Object") {
    return { type: "object", additionalProperties: schemaOf(split(of, ",").at(-1)) };
  }
  if (text.startsWith("{") && closing(text, "{", "}") === text.length - 1) return record(text.slice(1, -1));
  const literal = /^(['"])(.*)\1$/s.exec(text)?.[2] ?? (/^-?\d+(\.\d+)?$|^(true|false)$/.test(text) ? JSON.parse(text) : undefined);
  if (literal !== undefined) return { enum: [literal] };
  if (/^array$/i.test(text)) return { type: "array" };
  const simple = TYPES[text.toLowerCase()];
  return simple ? { type: simple } : {};
}

/** Returns the schema of an object type: `{ name: string, size?: number }`. */
function record(text) {
  const schema = { type: "object", properties: {}, required: [] };
  for (const part of split(text.replaceAll(";", ","), ",")) {
    const [, name, optional, type] = /^['"]?([\w$-]+)['"]?(\?)?\s*:(.*)$/s.exec(part.trim()) ?? [];
    if (name === undefined) continue;
    schema.properties[name] = schemaOf(type);
    if (!optional) schema.required.push(name);
  }
  return schema;
}

function union(choices) {
  const schemas = choices.filter((choice) => choice.trim() !== "undefined").map(schemaOf);
  if (schemas.every((schema) => schema.enum)) return { enum: schemas.flatMap((schema) => schema.enum) };
  return schemas.length === 1 ? schemas[0] : { anyOf: schemas };
}

/** Splits a text at a separator that is not within brackets or quotes. */
function split(text, separator) {
  const parts = [""];
  let depth = 0;
  let quote;
  for (const char of text) {
    if (quote) quote = char === quote ? undefined : quote;
    else if (char === "'" || char === '"') quote = char;
    else if ("([{<".includes(char)) depth++;
    else if (")]}>".includes(char)) depth--;
    if (char === separator && depth === 0 && !quote) parts.push("");
    else parts[parts.length - 1] += char;
  }
  return parts;
}
