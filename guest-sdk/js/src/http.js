// HTTP requests, and the secrets that they may contain.

import { decode } from "./encodings.js";
import { bytes } from "./environment.js";
import { HostError } from "./errors.js";
import { call, hostError } from "./host.js";
import { write } from "./json.js";

const BEARER = "authorization";
const TYPE = "content-type";

class Secret {
  #placeholder;

  constructor(name) {
    this.name = name;
    this.#placeholder = call("secrets", "placeholder", name);
  }

  /** Returns the placeholder, which the host replaces when it sends the request. */
  toString() {
    return this.#placeholder;
  }
}

export const secrets = { named: (name) => new Secret(name) };

class Response {
  constructor({ status, headers, body }) {
    this.status = status;
    this.headers = headers;
    this.body = Uint8Array.from(body);
  }

  get ok() {
    return this.status >= 200 && this.status < 300;
  }

  get skipped() {
    return this.status === 0;
  }

  header(name) {
    return this.headers.find((header) => header.name === name.toLowerCase())?.value;
  }

  text() {
    return decode(this.body, this.header(TYPE));
  }

  json() {
    return JSON.parse(this.text());
  }
}

export const http = {
  fetch: (url, options) => new Response(call("http", "fetch", lower(url, options))),
  fetchMany: (requests) =>
    call("http", "fetchMany", requests.map(({ url, ...options }) => lower(url, options))).map(outcome),
};

function lower(url, options = {}) {
  const { method = "GET", headers = {}, body, json, bearer, secrets: named = [], timeoutMs, idempotencyKey } = options;
  const sent = Object.entries(headers).map(([name, value]) => ({ name, value: String(value) }));
  if (bearer) sent.push({ name: BEARER, value: `Bearer ${bearer}` });
  if (json !== undefined) {
    if (body !== undefined) throw new HostError("invalid", `requesting \`${url}\`: both \`body\` and \`json\``);
    // The author's content type has precedence.
    const isNamed = sent.some(({ name }) => name.toLowerCase() === TYPE);
    if (!isNamed) sent.push({ name: TYPE, value: "application/json" });
  }
  const content = json === undefined ? body : write(json, "the body");
  const used = [...Object.values(headers).filter((value) => value instanceof Secret), ...(bearer ? [bearer] : [])];
  return {
    method: String(method).toUpperCase(),
    url: String(url),
    headers: sent,
    body: content === undefined ? null : bytes(content),
    secrets: Array.isArray(named) ? names([...named, ...used]) : named,
    timeoutMs: timeoutMs ?? null,
    idempotencyKey: idempotencyKey ?? null,
  };
}

/** Returns the names of secrets without duplicates. */
function names(named) {
  return [...new Set(named.map((secret) => secret?.name ?? secret))];
}

function outcome({ tag, val }) {
  return tag === "ok" ? new Response(val) : hostError(val);
}
