// Which fields a form needs for values that follow a JSON Schema. What cannot be drawn is a field for JSON, so that no
// schema keeps anybody from answering.

/** Objects with more fields, or deeper ones, are edited as JSON. */
const MAX_FIELDS = 30;
const MAX_DEPTH = 3;
const MAX_REFERENCES = 8;

const COMPLEX = ["oneOf", "anyOf", "allOf", "not", "if", "patternProperties", "dependentSchemas", "unevaluatedProperties"];

export function jsonError(text) {
  try {
    JSON.parse(text);
    return null;
  } catch (error) {
    return `no JSON: ${error.message}`;
  }
}

export const pointerTo = (pointer, name) => `${pointer}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;

function resolve(schema, root) {
  let at = schema;
  for (let round = 0; round < MAX_REFERENCES && typeof at?.$ref === "string"; round += 1) {
    if (!at.$ref.startsWith("#")) return null;
    at = at.$ref
      .slice(1)
      .split("/")
      .filter(Boolean)
      .reduce((value, name) => ownValue(value, decodeURIComponent(name).replaceAll("~1", "/").replaceAll("~0", "~")), root);
  }
  return at;
}

/** Returns the field of a schema: `{kind, title, description, …}`. */
export function fieldOf(schema, root = schema, depth = 0) {
  const whole = resolve(schema, root);
  if (!whole || typeof whole !== "object" || Array.isArray(whole)) return { kind: "json" };
  const about = { title: textOf(whole.title), description: textOf(whole.description), initial: whole.default };
  if (COMPLEX.some((keyword) => keyword in whole)) return { kind: "json", ...about };
  if ("const" in whole) return { kind: "choice", choices: [whole.const], ...about };
  if (Array.isArray(whole.enum) && whole.enum.length) return { kind: "choice", choices: whole.enum, ...about };
  switch (whole.type) {
    case "boolean": return { kind: "choice", choices: [true, false], ...about };
    case "integer":
    case "number": return { kind: "number", isWhole: whole.type === "integer", min: whole.minimum, max: whole.maximum, ...about };
    case "string": return { kind: stringKind(whole), maxLength: whole.maxLength, ...about };
    case "object": return objectField(whole, root, depth, about);
    default: return { kind: "json", ...about };
  }
}

const textOf = (value) => (typeof value === "string" ? value : "");

function stringKind(schema) {
  if (schema.format === "date") return "date";
  if (schema.format === "date-time") return "date-time";
  return "text";
}

function objectField(schema, root, depth, about) {
  const properties = schema.properties;
  const names = properties && typeof properties === "object" ? Object.keys(properties) : [];
  if (!names.length || names.length > MAX_FIELDS || depth >= MAX_DEPTH) return { kind: "json", ...about };
  const required = Array.isArray(schema.required) ? schema.required : [];
  const fields = names.map((name) => ({ name, isRequired: required.includes(name), field: fieldOf(properties[name], root, depth + 1) }));
  // What is needed comes first.
  fields.sort((a, b) => Number(b.isRequired) - Number(a.isRequired));
  return { kind: "object", fields, ...about };
}

/** Returns a property of a value that is its own: a field may be called `constructor`. */
export const ownValue = (value, name) => (value !== null && typeof value === "object" && Object.hasOwn(value, name) ? value[name] : undefined);

/** What a form begins with for a value. */
export function inputOf(field, value) {
  switch (field.kind) {
    case "object": return Object.fromEntries(field.fields.map((one) => [one.name, inputOf(one.field, ownValue(value, one.name))]));
    case "json": return value === undefined ? "" : JSON.stringify(value, null, 2);
    case "choice": return value;
    case "number": return value === undefined ? "" : String(value);
    case "date-time": return typeof value === "string" ? value.slice(0, 16) : "";
    default: return typeof value === "string" ? value : "";
  }
}

/**
 * Returns the value of what was put into a form: `{value}`, with `undefined` for what is left out, or `{errors}` with the
 * pointer of each field that cannot be read.
 */
export function valueOf(field, input, pointer = "", isRequired = true) {
  const wrong = (detail) => ({ errors: [{ pointer, detail }] });
  const missing = () => (isRequired ? wrong("a value is needed") : { value: undefined });
  switch (field.kind) {
    case "object": return objectValue(field, input, pointer);
    case "json":
      if (!String(input ?? "").trim()) return missing();
      return jsonError(input) ? wrong(jsonError(input)) : { value: JSON.parse(input) };
    case "choice": return input === undefined || input === null ? missing() : { value: input };
    case "number": {
      if (String(input ?? "").trim() === "") return missing();
      const number = Number(input);
      if (!Number.isFinite(number)) return wrong("no number");
      if (field.isWhole && !Number.isInteger(number)) return wrong("no whole number");
      return { value: number };
    }
    case "date-time": return input ? { value: new Date(input).toISOString() } : missing();
    case "date": return input ? { value: input } : missing();
    default: return input === "" || input === undefined ? (isRequired ? { value: "" } : { value: undefined }) : { value: String(input) };
  }
}

function objectValue(field, input, pointer) {
  const values = [];
  const errors = [];
  for (const { name, isRequired, field: inner } of field.fields) {
    const read = valueOf(inner, ownValue(input, name), pointerTo(pointer, name), isRequired);
    if (read.errors) errors.push(...read.errors);
    else if (read.value !== undefined) values.push([name, read.value]);
  }
  // A field may be called `__proto__`.
  return errors.length ? { errors } : { value: Object.fromEntries(values) };
}
