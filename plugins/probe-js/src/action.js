// The probe: an action that does what its config says, step by step. How it misbehaves is in `excess.js`.

import { action, clock, emit, env, Failure, files, http, human, image, llm, random, secrets, state } from "@strata/action";
import { commit } from "./excess.js";

let calls = 0;

/** Steps by the key that names them. Each gets its step and what came of the steps so far. */
const STEPS = {
  say: ({ say, data, to, route }, deeds) => {
    deeds.output = { content: deeds.fillIn(say), data, to, route };
  },
  emit: ({ emit: content, data, to, cause }) => emit({ content, data, to, causeBy: cause }),
  set: ({ set, value, scope = "role" }) => state.scope(scope).set(set, value),
  get: ({ get, scope = "role" }, deeds) => deeds.read(state.scope(scope).get(get)),
  delete: ({ delete: key, scope = "role" }) => state.scope(scope).delete(key),
  llm: ({ llm: prompt, model, schema }, deeds) => {
    const { text, data } = llm.ask({ prompt: [prompt, ...deeds.takeImages()], model, outputSchema: schema });
    deeds.read(schema ? sorted(data ?? JSON.parse(text)) : text);
  },
  image: ({ image: path }, deeds) => deeds.images.push(image(imageType(path), files.read(path))),
  http: ({ http: url, method, body, key, secret }, deeds) => {
    const bearer = secret && secrets.named(secret);
    deeds.read(http.fetch(url, { method, body, bearer, idempotencyKey: key }).text());
  },
  ask: ({ ask: text, schema, choices, expires, default: fallback }, deeds) => {
    const expiresS = expires && Math.ceil(milliseconds(expires) / 1000);
    deeds.read(human.ask({ text, schema, choices, expiresS, default: fallback }).value);
  },
  now: ({ now }, deeds) => now && deeds.read(Math.round(clock.now())),
  random: ({ random: length }, deeds) => deeds.read(hex(random.bytes(length))),
  sleep: ({ sleep }) => clock.sleep(milliseconds(sleep)),
  read: ({ read }, deeds) => deeds.read(files.readText(read)),
  write: ({ write, text }) => files.write(write, text),
  remove: ({ remove }) => files.remove(remove),
  getenv: ({ getenv }, deeds) => deeds.read(env.get(getenv)),
  secret: ({ secret }, deeds) => deeds.read(String(secrets.named(secret))),
  count: ({ count }, deeds) => count && deeds.read((calls += 1)),
  choose: ({ choose }, deeds) => {
    deeds.choices = choose;
  },
  plan: ({ plan }, deeds) => {
    deeds.plan = plan;
  },
};

class Deeds {
  images = [];
  #news;
  #arguments;
  #reads = [];

  constructor(news, given) {
    this.#news = news;
    this.#arguments = given;
  }

  /** The images for the next request to a model. */
  takeImages() {
    return this.images.splice(0);
  }

  /** A value as it joins `{reads}`: texts bare, nothing as nothing, all else as compact JSON. */
  read(value) {
    this.#reads.push(typeof value === "string" ? value : value === undefined || value === null ? "" : JSON.stringify(value));
  }

  /** One pass: what is filled in is not looked at again. */
  fillIn(text) {
    const given = this.#arguments === undefined ? [] : [JSON.stringify(sorted(this.#arguments))];
    const values = { inputs: this.#news.map((message) => message.content), reads: this.#reads, arguments: given };
    return text.replace(/\{(inputs|reads|arguments)\}/g, (_, name) => values[name].join(","));
  }
}

function act(config, { news, attempt, action: name = "think", arguments: given }) {
  const deeds = new Deeds(news, given);
  for (const { attempts, ...step } of config?.steps ?? []) {
    if (attempts && !attempts.includes(attempt.number)) continue;
    if (step.fail) {
      const output = commit(step.fail, name);
      if (output) return { output };
      continue;
    }
    const carryOut = STEPS[Object.keys(STEPS).find((key) => key in step)];
    if (!carryOut) throw new Failure("error", `\`${JSON.stringify(step)}\` is no step of the probe`);
    carryOut(step, deeds);
  }
  return deeds;
}

export default action({
  run(cx) {
    return act(cx.config, cx).output ?? `${cx.action} ok`;
  },
  choose(situation) {
    const { choices = [0] } = act(situation.config, situation);
    return choices[situation.round];
  },
  plan(cx) {
    const { plan, output } = act(cx.config, cx);
    return plan ?? [output?.content ?? `${cx.action} ok`];
  },
});

/** A value whose objects have their keys sorted. */
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

function imageType(path) {
  const types = { jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };
  return types[path.split(".").at(-1)] ?? "image/png";
}

/** A whole number with its unit: `200ms`, `2s`, `1m`, `1h`. */
function milliseconds(text) {
  const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };
  const [, number, unit] = /^(\d+)(ms|s|m|h)$/.exec(text) ?? [];
  if (!unit) throw new Failure("error", `\`${text}\` is no duration`);
  return Number(number) * units[unit];
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
