// The probe in JavaScript: an action that executes the steps in its config. `misbehaviour.js` contains the ways in
// which it can misbehave.

import { action, clock, emit, env, Failure, files, http, human, image, llm, memory, random, secrets, state } from "@strata/action";
import { misbehave } from "./misbehaviour.js";

let calls = 0;

/** The steps by their names. Each function receives the step and the results of the steps so far. */
const STEPS = {
  say: ({ say, data, to, route }, results) => {
    results.output = { content: results.replacePlaceholders(say), data, to, route };
  },
  emit: ({ emit: content, data, to, cause }) => emit({ content, data, to, causeBy: cause }),
  set: ({ set, value, scope = "role" }) => state.scope(scope).set(set, value),
  get: ({ get, scope = "role" }, results) => results.read(state.scope(scope).get(get)),
  memory: ({ memory: text, up_to: upTo }) => memory.replace(upTo, text),
  delete: ({ delete: key, scope = "role" }) => state.scope(scope).delete(key),
  llm: ({ llm: prompt, model, schema }, results) => {
    const { text, data } = llm.ask({ prompt: [prompt, ...results.takeImages()], model, outputSchema: schema });
    results.read(schema ? sorted(data ?? JSON.parse(text)) : text);
  },
  image: ({ image: path }, results) => results.images.push(image(imageType(path), files.read(path))),
  http: ({ http: url, method, body, key, secret }, results) => {
    const bearer = secret && secrets.named(secret);
    results.read(http.fetch(url, { method, body, bearer, idempotencyKey: key }).text());
  },
  ask: ({ ask: text, schema, choices, expires, default: fallback }, results) => {
    const expiresS = expires && Math.ceil(milliseconds(expires) / 1000);
    results.read(human.ask({ text, schema, choices, expiresS, default: fallback }).value);
  },
  now: ({ now }, results) => now && results.read(Math.round(clock.now())),
  random: ({ random: length }, results) => results.read(hex(random.bytes(length))),
  sleep: ({ sleep }) => clock.sleep(milliseconds(sleep)),
  read: ({ read }, results) => results.read(files.readText(read)),
  write: ({ write, text }) => files.write(write, text),
  remove: ({ remove }) => files.remove(remove),
  getenv: ({ getenv }, results) => results.read(env.get(getenv)),
  secret: ({ secret }, results) => results.read(String(secrets.named(secret))),
  count: ({ count }, results) => count && results.read((calls += 1)),
  choose: ({ choose }, results) => {
    results.choices = choose;
  },
  plan: ({ plan }, results) => {
    results.plan = plan;
  },
};

class Results {
  images = [];
  #news;
  #arguments;
  #reads = [];

  constructor(news, given) {
    this.#news = news;
    this.#arguments = given;
  }

  /** Removes and returns the images for the next request to a model. */
  takeImages() {
    return this.images.splice(0);
  }

  /** Adds a value to `{reads}`: strings without quotes, null as an empty string, other values as compact JSON. */
  read(value) {
    this.#reads.push(typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));
  }

  /** Replaces placeholders. Replaced text is not searched for placeholders again. */
  replacePlaceholders(text) {
    const given = this.#arguments === undefined ? [] : [JSON.stringify(sorted(this.#arguments))];
    const values = { inputs: this.#news.map((message) => message.content), reads: this.#reads, arguments: given };
    return text.replace(/\{(inputs|reads|arguments)\}/g, (_, name) => values[name].join(","));
  }
}

function executeSteps(config, { news, attempt, action: name = "think", arguments: given }) {
  const results = new Results(news, given);
  for (const { attempts, ...step } of config?.steps ?? []) {
    if (attempts && !attempts.includes(attempt.number)) continue;
    if (step.fail) {
      const output = misbehave(step.fail, name);
      if (output) return { output };
      continue;
    }
    const execute = STEPS[Object.keys(STEPS).find((key) => key in step)];
    if (!execute) throw new Failure("error", `\`${JSON.stringify(step)}\` is not a step of the probe`);
    execute(step, results);
  }
  return results;
}

export default action({
  run(cx) {
    return executeSteps(cx.config, cx).output ?? `${cx.action} ok`;
  },
  choose(situation) {
    const { choices = [0] } = executeSteps(situation.config, situation);
    return choices[situation.round];
  },
  plan(cx) {
    const { plan, output } = executeSteps(cx.config, cx);
    return plan ?? [output?.content ?? `${cx.action} ok`];
  },
});

/** Returns the value with sorted keys. */
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

function imageType(path) {
  const types = { jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };
  return types[path.split(".").at(-1)] ?? "image/png";
}

/** Parses an integer with its unit: `200ms`, `2s`, `1m`, `1h`. */
function milliseconds(text) {
  const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
  const [, number, unit] = /^(\d+)(ms|s|m|h)$/.exec(text) ?? [];
  if (!unit) throw new Failure("error", `\`${text}\` is not a duration`);
  return Number(number) * units[unit];
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
