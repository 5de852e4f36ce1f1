// From an action to the functions that a component exports, and from whatever it throws to a failure.
// Nothing here knows of a particular host; the component's entry is `component.js`, tests are `testing.js`.

import { Context, Situation } from "./action.js";
import { failed, keyed, result } from "./border.js";
import { Failure, HostError } from "./errors.js";
import { body, write } from "./json.js";
import { lowerParts } from "./media.js";

const KINDS = { denied: "denied", upstream: "host", "out-of-budget": "host" };
const KEYS = ["content", "data", "parts", "to", "route"];
const INTERFACES = { thinker: "choose", planner: "plan" };

/**
 * The exports of a component.
 * @param about what its package says of it: name, version, description, and the interfaces it exports beside `handler`
 * @param settle waits for what may be a promise; it is given how errors are told, for those that nobody waits for
 * @param trace the stack of an error, in terms of the sources
 */
export function serve(action, about, { settle, trace }) {
  check(action, about.exports);
  // Now, while the component is made: later there is nobody to tell what is wrong with it.
  const manifest = describe(action, about);
  const told = (error) => failure(error, trace).message;
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
      run: guarded((attempt, input) => output(settle(action.run(new Context(attempt, input, action)), told))),
    },
    planner: {
      plan: guarded((attempt, input) => plan(settle(action.plan(new Context(attempt, input, action)), told))),
    },
    thinker: {
      choose: guarded((attempt, situation) => choice(settle(action.choose(new Situation(attempt, situation)), told))),
    },
  };
}

function check(action, exported) {
  if (typeof action?.run !== "function") {
    throw new TypeError("the entry has no `export default action({ run(cx) { … } })`");
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
    configSchema: write(action.configSchema, "the schema of its config"),
    inputSchema: write(action.inputSchema, "the schema of its arguments"),
    outputSchema: write(action.outputSchema, "the schema of its output"),
    needs: action.needs ?? [],
  };
  return result("manifest", manifest, "declaring an action");
}

/** What an action returned, as the host takes it. */
export function output(returned) {
  const what = "what `run` returned";
  const { content, data, parts = [], to = [], route = [] } =
    isContent(returned) ? { content: returned ?? "" } : keyed(returned, KEYS, { what, one: "an output" });
  const sent = { ...body(content, data, "the output's data"), parts: lowerParts(parts), to, route };
  return result("output", sent, what);
}

/** Whether it is all of a content, or none at all. */
function isContent(returned) {
  return returned === undefined || returned === null || ["string", "number", "bigint", "boolean"].includes(typeof returned);
}

/** What a planner returned, as the host takes it. */
export function plan(returned) {
  const isMany = typeof returned === "object" && typeof returned?.[Symbol.iterator] === "function";
  const tasks = isMany ? Array.from(returned, (task) => (typeof task === "string" ? { text: task } : task)) : returned;
  return result("plan", tasks, "what `plan` returned");
}

/** What a thinker returned, as the host takes it. */
export function choice(index) {
  if (index === undefined || index === null) return -1;
  if (typeof index === "number" && !Number.isInteger(index)) {
    throw new TypeError(`what \`choose\` returned: \`${index}\` is neither the index of an action nor -1`);
  }
  return result("choice", index, "what `choose` returned");
}

/** A failure as the host takes it. What was not thrown on purpose is told with its stack. */
export function failure(error, trace) {
  if (error instanceof Failure) return failed(error);
  if (error instanceof HostError) {
    return failed({ kind: KINDS[error.kind] ?? "error", message: [error.message, ...trace(error)].join("\n") });
  }
  if (!(error instanceof Error)) return failed({ kind: "error", message: `thrown: ${printed(error)}` });
  const lines = [String(error), ...trace(error)];
  if (error.cause !== undefined) lines.push(`caused by: ${printed(error.cause)}`);
  return failed({ kind: "error", message: lines.join("\n") });
}

function printed(value) {
  if (typeof value !== "object" || value instanceof Error) return String(value);
  try {
    return JSON.stringify(value);
  } catch {
    // What holds itself, or a number that is none of JSON's.
    return Object.prototype.toString.call(value);
  }
}
