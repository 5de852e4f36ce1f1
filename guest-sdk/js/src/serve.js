// From an action to the functions that a component exports, and from whatever it throws to a failure.
// Nothing here knows of a particular host; the component's entry is `component.js`, tests are `testing.js`.

import { Context, Situation } from "./action.js";
import { Failure, HostError } from "./errors.js";
import { write } from "./json.js";

const KINDS = { denied: "denied", upstream: "host", "out-of-budget": "host" };
const INTERFACES = { thinker: "choose", planner: "plan" };

/**
 * The exports of a component.
 * @param about what its package says of it: name, version, description, and the interfaces it exports beside `handler`
 * @param settle waits for what may be a promise
 * @param trace the stack of an error, in terms of the sources
 */
export function serve(action, about, { settle, trace }) {
  check(action, about.exports);
  const guarded = (work) => (attempt, call) => {
    try {
      return work(attempt, call);
    } catch (error) {
      throw failure(error, trace);
    }
  };
  return {
    handler: {
      describe: () => describe(action, about),
      run: guarded((attempt, input) => output(settle(action.run(new Context(attempt, input))))),
    },
    planner: {
      plan: guarded((attempt, input) => [...settle(action.plan(new Context(attempt, input)))].map(task)),
    },
    thinker: {
      choose: guarded((attempt, situation) => choice(settle(action.choose(new Situation(attempt, situation))))),
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
  return {
    name: action.name ?? name,
    version: action.version ?? version,
    description: action.description ?? description,
    configSchema: write(action.configSchema, "the schema of its config"),
    outputSchema: write(action.outputSchema, "the schema of its output"),
    needs: action.needs ?? [],
  };
}

/** What an action returned, as the host takes it. */
export function output(returned) {
  const { content, data, to = [], route = [] } =
    returned === undefined || returned === null || typeof returned !== "object"
      ? { content: returned ?? "" }
      : returned;
  const text = content === undefined ? JSON.stringify(data) ?? "" : String(content);
  return { content: text, data: write(data, "the output's data"), to, route };
}

function task(planned) {
  const { text, action = null } = typeof planned === "string" ? { text: planned } : planned;
  return { text, action };
}

function choice(index) {
  if (index === undefined || index === null) return -1;
  if (Number.isInteger(index)) return index;
  throw new Failure("error", `choosing \`${index}\`: neither the index of an action nor -1`);
}

/** A failure as the host takes it. What was not thrown on purpose is told with its stack. */
export function failure(error, trace) {
  if (error instanceof Failure) return { kind: error.kind, message: error.message };
  if (error instanceof HostError) {
    return { kind: KINDS[error.kind] ?? "error", message: [error.message, ...trace(error)].join("\n") };
  }
  if (!(error instanceof Error)) return { kind: "error", message: `thrown: ${printed(error)}` };
  const lines = [String(error), ...trace(error)];
  if (error.cause !== undefined) lines.push(`caused by: ${printed(error.cause)}`);
  return { kind: "error", message: lines.join("\n") };
}

function printed(value) {
  if (typeof value !== "object" || value instanceof Error) return String(value);
  return JSON.stringify(value) ?? String(value);
}
