// The console. What is written to it goes to the log, or to what the interpreter of scripts collects.

/**
 * Returns a console that calls `write(level, text)`: `info` and `debug` for what Node writes to its standard output, `warn`
 * and `error` for the rest.
 */
export function createConsole(write) {
  const counts = new Map();
  let indent = "";
  const line = (level) => (...values) => write(level, indent + format(...values).replaceAll("\n", `\n${indent}`));
  const [log, debug, warn, error] = ["info", "debug", "warn", "error"].map(line);
  const group = (...labels) => {
    if (labels.length > 0) log(...labels);
    indent += "  ";
  };
  return {
    assert: (condition, ...values) => condition || error("Assertion failed", ...values),
    count(label = "default") {
      counts.set(label, (counts.get(label) ?? 0) + 1);
      log(`${label}: ${counts.get(label)}`);
    },
    debug,
    dir: (value) => log(inspect(value)),
    error,
    group,
    groupCollapsed: group,
    groupEnd() {
      indent = indent.slice(2);
    },
    info: log,
    log,
    table: (rows) => log(table(rows)),
    // The clock of the sandbox does not measure how long a computation takes.
    time() {},
    timeEnd() {},
    timeLog() {},
    trace: error,
    warn,
  };
}

/** Formats values as `console.log` does: strings as they are, with `%s` and the like in the first one. */
export function format(first, ...values) {
  if (arguments.length === 0) return "";
  const formatted =
    typeof first !== "string" || values.length === 0
      ? inspect(first)
      : first.replace(/%[sdifjoOc%]/g, (code) => {
          if (code === "%%" || values.length === 0) return code === "%%" ? "%" : code;
          return conversion(code, values.shift());
        });
  return [formatted, ...values.map(inspect)].join(" ");
}

function conversion(code, value) {
  if (code === "%c") return "";
  if (code === "%d") return String(Number(value));
  if (code === "%i") return String(parseInt(value, 10));
  if (code === "%f") return String(parseFloat(value));
  return inspect(value);
}

/** Returns a value as text: a string as it is, and others as JSON, also if JSON cannot represent all their parts. */
export function inspect(value) {
  if (typeof value === "string") return value;
  if (value instanceof Error) return `${value}\n${value.stack ?? ""}`.trimEnd();
  if (typeof readable(value) === "string") return readable(value);
  const ancestors = [];
  try {
    return JSON.stringify(value, function (_, part) {
      while (ancestors.length > 0 && ancestors.at(-1) !== this) ancestors.pop();
      if (ancestors.includes(part)) return "[Circular]";
      const shown = readable(part);
      if (typeof shown === "object" && shown !== null) ancestors.push(shown);
      return shown;
    }) ?? String(value);
  } catch {
    return String(value);
  }
}

/** Returns a value that `JSON.stringify` shows, for one that it would omit or change. */
function readable(value) {
  if (typeof value === "bigint") return `${value}n`;
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  if (typeof value === "function") return `[Function: ${value.name || "(anonymous)"}]`;
  if (typeof value === "symbol" || value instanceof RegExp || value instanceof Error) return String(value);
  if (value instanceof Set || ArrayBuffer.isView(value)) return [...value];
  if (!(value instanceof Map)) return value;
  return [...value.keys()].every((key) => typeof key === "string") ? Object.fromEntries(value) : [...value];
}

/** Formats rows as a table with their index, or a value that has none as `inspect` does. */
function table(rows) {
  if (typeof rows !== "object" || rows === null) return inspect(rows);
  const entries = Object.entries(rows).map(([index, row]) => [index, Object(row) === row ? row : { Values: row }]);
  const columns = [...new Set(entries.flatMap(([, row]) => Object.keys(row)))];
  const cells = [["(index)", ...columns], ...entries.map(([index, row]) => [index, ...columns.map((name) => cell(row, name))])];
  const widths = cells[0].map((_, at) => Math.max(...cells.map((line) => line[at].length)));
  return cells.map((line) => line.map((text, at) => text.padEnd(widths[at])).join(" | ").trimEnd()).join("\n");
}

const cell = (row, name) => (name in row ? inspect(row[name]) : "");
