// The exports of a component, made from an action. Errors that the action throws become failures. This module does not
// depend on a particular host: `component.js` uses it in components, and `testing.js` in tests.

import { Context, Situation } from "./action.js";
import { Failure, HostError } from "./errors.js";
import { body, write } from "./json.js";
import { lowerParts } from "./media.js";
import { checkKeys, checkResult, recipients, validFailure } from "./validate.js";

const KINDS = { denied: "denied", upstream: "host", "out-of-budget": "host" };
const KEYS = ["content", "data", "parts", "to", "route"];
const INTERFACES = { thinker: "choose", planner: "plan" };

/**
 * Returns the exports of a component.
 * @param about the contents of package.json: name, version, description, and the interfaces exported beside `handler`
 * @param settle returns the result of a value that may be a promise; its second argument formats unhandled errors
 * @param trace returns the stack of an error as lines that refer to the sources
 */
export function serve(action, about, { settle, trace }) {
  check(action, about.exports);
  // Errors in the manifest are reported now, while the component is built.
  const manifest = describe(action, about);
  const describeError = (error) => failure(error, trace).message;
  const guarded = (work) => (attempt, call) => {
    try {
      return work(attempt, call);
    } catch (error) {
      throw failure(error, trace);
    }
  };
  return {
    handler: {
      describe: () => manifest,
      run: guarded((attempt, input) => {
        return output(settle(action.run(new Context(attempt, input, action)), describeError));
      }),
    },
    planner: {
      plan: guarded((attempt, input) => {
        return plan(settle(action.plan(new Context(attempt, input, action)), describeError));
      }),
    },
    thinker: {
      choose: guarded((attempt, situation) => {
        return choice(settle(action.choose(new Situation(attempt, situation)), describeError));
      }),
    },
  };
}

function check(action, exported) {
  if (typeof action?.run !== "function") {
    throw new TypeError("the entry point has no `export default action({ run(cx) { … } })`");
  }
  for (const [name, method] of Object.entries(INTERFACES)) {
    const has = typeof action[method] === "function";
    if (has !== exported.includes(name)) {
      const hint = has ? `add to package.json: "strata": { "exports": ["${name}"] }` : `it has no \`${method}\``;
      throw new TypeError(`exporting \`${name}\`: ${hint}`);
    }
  }
}

function describe(action, { name, version, description }) {
  const manifest = {
    name: action.name ?? name,
    version: action.version ?? version,
    description: action.description ?? description,
    configSchema: write(action.configSchema, "the config schema"),
    inputSchema: write(action.inputSchema, "the input schema"),
    outputSchema: write(action.outputSchema, "the output schema"),
    needs: action.needs ?? [],
  };
  return checkResult("manifest", manifest, "declaring an action");
}

/** Converts the result of `run` to an output of the host. */
export function output(returned) {
  const what = "what `run` returned";
  const { content, data, parts = [], to, route = [] } =
    isContent(returned) ? { content: returned ?? "" } : checkKeys(returned, KEYS, { what, one: "an output" });
  const sent = { ...body(content, data, "the output's data"), parts: lowerParts(parts), to: recipients(to), route };
  return checkResult("output", sent, what);
}

/** Returns whether the value is a content, or absent. */
function isContent(returned) {
  if (returned === undefined || returned === null) return true;
  return ["string", "number", "bigint", "boolean"].includes(typeof returned);
}

/** Converts the result of `plan` to tasks of the host. */
export function plan(returned) {
  const isMany = typeof returned === "object" && typeof returned?.[Symbol.iterator] === "function";
  const tasks = isMany ? Array.from(returned, (task) => (typeof task === "string" ? { text: task } : task)) : returned;
  return checkResult("plan", tasks, "what `plan` returned");
}

/** Converts the result of `choose` to an index. */
export function choice(index) {
  if (index === undefined || index === null) return -1;
  if (typeof index === "number" && !Number.isInteger(index)) {
    throw new TypeError(`what \`choose\` returned: \`${index}\` is neither the index of an action nor -1`);
  }
  return checkResult("choice", index, "what `choose` returned");
}

/** Converts an error to a failure of the host. Except for a Failure, its message contains the stack. */
export function failure(error, trace) {
  if (error instanceof Failure) return validFailure(error);
  if (error instanceof HostError) {
    return validFailure({ kind: KINDS[error.kind] ?? "error", message: [error.message, ...trace(error)].join("\n") });
  }
  if (!(error instanceof Error)) return validFailure({ kind: "error", message: `thrown: ${format(error)}` });
  const lines = [String(error), ...trace(error)];
  if (error.cause !== undefined) lines.push(`caused by: ${format(error.cause)}`);
  return validFailure({ kind: "error", message: lines.join("\n") });
}

function format(value) {
  if (typeof value !== "object" || value instanceof Error) return String(value);
  try {
    return JSON.stringify(value);
  } catch {
    // The value contains itself or a bigint.
    return Object.prototype.toString.call(value);
  }
}
