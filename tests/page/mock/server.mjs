// The API of the server for tests of the page, with runs that are made up. It can be killed, come back, revoke tokens, and
// send hundreds of events a second. The page is delivered from its sources, with the policy of the server.

import { createServer } from "node:http";
import { createHash, randomUUID } from "node:crypto";
import { MockRun, iso } from "./run.mjs";
import { pageFile } from "./page_files.mjs";
import { tree } from "./markdown.mjs";

export const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
/** The titles that the server gives its problems, by their statuses. */
const TITLES = {
  400: "The request is malformed",
  401: "A valid token is needed",
  403: "The token does not have the right to do this",
  404: "Unknown",
  409: "The state does not allow this",
  410: "Pruned",
  422: "The request is understood and refused",
  500: "The server failed",
  503: "The server cannot do this at the moment",
};
const ALL_RIGHTS = ["submit", "view", "answer", "operate", "admin"];
const KEPT_MESSAGES = 20_000;

class Stream {
  constructor(response, token, run) {
    this.response = response;
    this.token = token;
    this.run = run;
  }

  send(event, data, id) {
    this.response.write(`${event ? `event: ${event}\n` : ""}${id ? `id: ${id}\n` : ""}data: ${JSON.stringify(data)}\n\n`);
  }
}

export class MockServer {
  constructor({ port = 0 } = {}) {
    this.port = port;
    this.runs = new Map();
    this.tokens = new Map([["owner-token", { name: "owner", tenant: null, rights: ALL_RIGHTS, expires: null }]]);
    this.streams = new Set();
    this.textStreams = new Set();
    this.requests = [];
    this.log = [];
    this.position = 0;
    this.delay = 0;
    /** Whether the storage is away: every request of the API fails. */
    this.isAway = false;
    /** The status with which a proxy answers every request of the API, because it does not reach the server; null if it does. */
    this.proxyStatus = null;
    /** Whether no stream begins: requests for one are not answered. */
    this.holdsStreams = false;
    this.bundles = new Map();
    this.triggers = [];
    this.fired = [];
    this.blobs = new Set();
  }

  async start() {
    this.server = createServer((request, response) => this.handle(request, response).catch((error) => this.problem(response, error.status ?? 500, error.message, error)));
    this.sockets = new Set();
    this.server.on("connection", (socket) => {
      this.sockets.add(socket);
      socket.on("close", () => this.sockets.delete(socket));
    });
    await new Promise((resolve) => this.server.listen(this.port, "127.0.0.1", resolve));
    this.port = this.server.address().port;
    this.beat = setInterval(() => {
      for (const stream of this.streams) stream.response.write(": beat\n\n");
    }, 15_000);
    return this;
  }

  get url() {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Ends the server as if its process had been killed. */
  async kill() {
    clearInterval(this.beat);
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
    this.streams.clear();
    this.textStreams.clear();
  }

  revoke(token) {
    this.tokens.delete(token);
    for (const stream of [...this.streams]) if (stream.token === token) stream.response.end();
  }

  add(name, more) {
    const run = new MockRun(this, name, more);
    this.runs.set(name, run);
    return run;
  }

  find(name) {
    const run = this.runs.get(name) ?? [...this.runs.values()].find((one) => one.id === name);
    if (!run) throw Object.assign(new Error(`there is no run \`${name}\``), { status: 404 });
    return run;
  }

  publish(kind, run, data) {
    this.position += 1;
    const message = { position: this.position, kind, run: run.name, data };
    this.log.push(message);
    if (this.log.length > KEPT_MESSAGES) this.log.splice(0, KEPT_MESSAGES / 2);
    for (const stream of this.streams) this.pass(stream, message);
  }

  pass(stream, { position, kind, run, data }) {
    if (kind === "event" && stream.run !== run) return;
    stream.send(kind === "event" ? null : kind, data, `p${position}`);
  }

  publishEvent(run, event) {
    this.publish("event", run, event);
  }

  publishRun(run) {
    this.publish("run", run, run.record);
  }

  publishRequest(run, request) {
    this.publish("request", run, request);
  }

  publishText(run, data, event = "text") {
    for (const stream of this.textStreams) if (stream.run === run.name) stream.send(event, data);
  }

  problem(response, status, detail, more = {}) {
    if (response.headersSent) return response.destroy();
    response.writeHead(status, { "content-type": "application/problem+json", "cache-control": "no-store" });
    response.end(JSON.stringify({ type: "about:blank", title: TITLES[status], status, detail, ...(more.extra ?? {}), ...(status === 500 ? { detail: String(more.stack ?? detail) } : {}) }));
  }

  json(response, status, value) {
    response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store", "x-content-type-options": "nosniff" });
    response.end(JSON.stringify(value));
  }

  async handle(request, response) {
    const url = new URL(request.url, this.url);
    this.requests.push(`${request.method} ${url.pathname}${url.search}`);
    const segments = url.pathname.split("/").filter(Boolean).map(decodeURIComponent);
    if (url.pathname === "/health") return this.json(response, 200, { status: "ok", version: "0.1.0" });
    if (segments[0] !== "v1") return this.page(url.pathname, response);
    if (this.delay) await new Promise((resolve) => setTimeout(resolve, this.delay));
    if (this.proxyStatus) {
      response.writeHead(this.proxyStatus, { "content-type": "text/html" });
      return response.end("<h1>an error</h1>");
    }
    if (this.isAway) return this.problem(response, 503, "the storage cannot be used");
    const token = (request.headers.authorization ?? "").replace(/^Bearer /, "");
    const identity = this.tokens.get(token);
    if (!identity) return this.problem(response, 401, "the token is missing, unknown, revoked or expired");
    const body = ["POST", "PUT"].includes(request.method) ? await read(request) : null;
    const context = { request, response, url, token, identity, body, query: url.searchParams };
    return this.route(segments.slice(1), request.method, context);
  }

  page(path, response) {
    const file = pageFile(path);
    if (!file) return this.problem(response, 404, `there is no ${path}`);
    response.writeHead(200, {
      "content-type": file.type, "content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer",
      "cache-control": path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-store",
    });
    response.end(file.content);
  }

  need(identity, ...rights) {
    if (!rights.some((right) => identity.rights.includes(right))) throw Object.assign(new Error(`the token \`${identity.name}\` has none of the rights ${rights.join(", ")}`), { status: 403 });
  }

  route([first, second, third, ...rest], method, context) {
    const { response, query, identity } = context;
    switch (first) {
      case "token": return this.json(response, 200, identity);
      case "events": return this.stream(context);
      case "requests": {
        this.need(identity, "answer");
        return this.list(response, query, [...this.runs.values()].flatMap((run) => [...run.requests.values()]).filter((one) => !query.get("run") || one.run_id === this.find(query.get("run")).id));
      }
      case "tokens": return this.tokensRoute(second, method, context);
      case "workers": {
        this.need(identity, "admin");
        return this.json(response, 200, { items: [{ id: "0193c0de-aaaa", host: "one", version: "0.1.0", labels: ["gpu"], secrets: [], room: 8, runs: 2, beat_age_ms: 1000, draining: false }], next: null, database: "sqlite:workspace/serve/runs.db" });
      }
      case "triggers": return this.triggersRoute(second, method, response);
      case "bundles": return this.bundle(context);
      case "blobs": {
        this.blobs.add(second);
        return this.json(response, 201, {});
      }
      case "bulk": return this.json(response, 200, { results: JSON.parse(context.body).runs.map((run) => ({ run, status: 202 })) });
      case "runs": return second === undefined ? (method === "POST" ? this.submit(context) : this.runsList(context)) : this.run(this.find(second), [third, ...rest], method, context);
      default: return this.problem(response, 404, `there is no /v1/${first}`);
    }
  }

  list(response, query, all) {
    const limit = Number(query.get("limit") ?? 50);
    const after = Number(query.get("after") ?? 0);
    this.json(response, 200, { items: all.slice(after, after + limit), next: after + limit < all.length ? String(after + limit) : null });
  }

  runsList({ response, query }) {
    const one = (name, value) => !query.getAll(name).length || query.getAll(name).includes(value);
    const all = [...this.runs.values()].map((run) => run.record).filter((run) => one("status", run.status) && one("state", run.state) && one("team", run.team) && one("by", run.by));
    const since = Date.parse(query.get("since") ?? "") || 0;
    const prefix = query.get("prefix") ?? "";
    this.list(response, query, all.filter((run) => Date.parse(run.updated) >= since && run.name.startsWith(prefix)).reverse());
  }

  submit({ response, body, identity }) {
    this.need(identity, "submit");
    const wanted = JSON.parse(body);
    if (this.refusal) return this.problem(response, 422, this.refusal, { extra: { hint: "a policy of the server can allow it" } });
    const run = this.add(wanted.name ?? `run-${this.runs.size + 1}`, { idea: wanted.idea, began: Date.now(), budget: wanted.investment ?? null });
    run.begin();
    run.changed();
    this.json(response, 201, run.record);
  }

  bundle({ response, body }) {
    const digests = Object.values(JSON.parse(body).files);
    const missing = digests.filter((digest) => !this.blobs.has(digest));
    if (missing.length) return this.problem(response, 422, "blobs are missing", { extra: { missing } });
    this.json(response, 201, { digest: `sha256:${createHash("sha256").update(body).digest("hex")}` });
  }

  triggersRoute(name, method, response) {
    if (method === "GET") return this.json(response, 200, { items: this.triggers, next: null });
    this.fired.push(name);
    return this.json(response, 202, {});
  }

  tokensRoute(name, method, { response, identity, body }) {
    this.need(identity, "admin");
    if (method === "GET") return this.json(response, 200, { items: [...this.tokens.values()], next: null });
    if (method === "DELETE") {
      for (const [text, one] of this.tokens) if (one.name === name) this.revoke(text);
      response.writeHead(204);
      return response.end();
    }
    const made = JSON.parse(body);
    const text = randomUUID();
    this.tokens.set(text, { tenant: "default", expires: null, ...made });
    return this.json(response, 201, { ...made, token: text });
  }

  run(run, [what, id, ...rest], method, context) {
    const { response, query, identity } = context;
    if (method === "POST") return this.change(run, what, context);
    if (method === "DELETE") {
      this.runs.delete(run.name);
      response.writeHead(204);
      return response.end();
    }
    switch (what) {
      case undefined: return this.json(response, 200, run.record);
      case "events": {
        const after = Number(query.get("after") ?? 0);
        const all = run.events.filter((event) => event.n > after).slice(0, Number(query.get("limit") ?? 50));
        return this.json(response, 200, { items: all, next: null });
      }
      case "stream": return this.textStream(run, context);
      case "messages": {
        const shown = (message) => (query.get("as") === "tree" ? { ...message, tree: tree(message.content) } : message);
        if (id === undefined) return this.list(response, query, [...run.messages].reverse().map(shown));
        const message = run.messages.find((one) => one.id === id);
        return message ? this.json(response, 200, shown(message)) : this.problem(response, 404, "there is no such message");
      }
      case "conversations": return this.json(response, 200, { items: run.conversations(), next: null });
      case "checkpoints": {
        if (id === undefined) return this.json(response, 200, { items: run.checkpoints.map(({ state, ...one }) => one), next: null });
        const checkpoint = run.checkpoints.find((one) => one.id === id);
        return checkpoint ? this.json(response, 200, checkpoint.state) : this.problem(response, 404, "there is no such checkpoint");
      }
      case "calls": return this.json(response, 200, { ...run.events.find((event) => event.n === Number(id)), outcome: "ok", response: { text: "the whole answer" }, text: "the whole answer" });
      case "report": return this.text(response, "text/html", "<!doctype html><title>a report</title>");
      case "graph": return this.json(response, 200, run.layout());
      case "files": return this.files(run, [id, ...rest], response);
      case "diff": return this.json(response, 200, { difference: run.difference ?? { run: [{ name: "spent", one: 0.1, other: 0.2 }], scopes: [{ scope: "log", name: "count", one: 2, other: 3 }], mailboxes: [], joins: [], published: null, open: [], memory: [], components: [] } });
      default: return this.problem(response, 404, `there is no ${what}`, identity);
    }
  }

  files(run, path, response) {
    if (path[0] === undefined) return this.json(response, 200, { items: [...run.files.values()].map(({ text, ...file }) => file), next: null });
    const file = run.files.get(path.join("/"));
    if (!file) return this.problem(response, 404, "there is no such file");
    return this.text(response, "text/plain", file.text);
  }

  text(response, type, text) {
    response.writeHead(200, { "content-type": `${type}; charset=utf-8`, "content-disposition": "attachment", "x-content-type-options": "nosniff", "content-security-policy": "sandbox" });
    return response.end(text);
  }

  change(run, what, { response, body, identity }) {
    const sent = body ? JSON.parse(body) : {};
    if (what === "answers") return this.answer(run, sent, response, identity);
    if (what === "fork") {
      this.need(identity, "operate");
      if (this.runs.has(sent.name)) return this.problem(response, 409, `there is a run \`${sent.name}\``);
      const forked = this.add(sent.name ?? `${run.name}-fork`, { began: Date.now(), idea: run.record.idea });
      forked.emit("forked", { lineage: "fork-1", checkpoint: "main-0", parent: sent.at });
      forked.begin();
      forked.set = sent.set;
      forked.changed({ forked_from: `${run.id}@${sent.at}` });
      return this.json(response, 201, forked.record);
    }
    this.need(identity, "operate", "submit");
    if (what === "messages") {
      run.clock = Date.now();
      const id = run.message("", sent.content, sent.to ?? [], sent.cause, sent.data);
      return this.json(response, 200, { id });
    }
    run.asked = [...(run.asked ?? []), { what, ...sent }];
    if (what === "cancel") run.end("cancelled");
    if (what === "pause") run.changed({ status: "paused", state: "resting" });
    if (what === "resume") {
      run.clock = Date.now();
      run.emit("run-resumed", { checkpoint: run.record.checkpoint, step: run.record.step });
      run.changed({ status: "running", state: "running", faults: 0, budget: sent.investment ?? run.record.budget });
    }
    return this.json(response, 202, run.record);
  }

  answer(run, answers, response, identity) {
    this.need(identity, "answer");
    for (const [id, answer] of Object.entries(answers)) {
      const request = run.requests.get(id);
      if (!request) return this.problem(response, 409, `\`${id}\` has an answer already`);
      const wrong = misfit(request, answer);
      if (wrong) return this.problem(response, 422, "the answer does not follow the schema", { extra: { errors: [{ pointer: `/${id}${wrong.pointer}`, detail: wrong.detail }] } });
    }
    for (const [id, answer] of Object.entries(answers)) run.answer(id, answer, identity.name);
    if (!run.requests.size && run.record.status === "waiting") run.changed({ status: "running", state: "running" });
    return this.json(response, 200, {});
  }

  open(response) {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store", "x-accel-buffering": "no" });
    response.write("retry: 1000\n\n");
  }

  stream({ request, response, token, query }) {
    if (this.holdsStreams) return;
    this.open(response);
    const stream = new Stream(response, token, query.get("run"));
    const last = Number((request.headers["last-event-id"] ?? "").slice(1));
    if (last) for (const message of this.log) if (message.position > last) this.pass(stream, message);
    this.streams.add(stream);
    response.on("close", () => this.streams.delete(stream));
  }

  textStream(run, { response, token }) {
    this.open(response);
    const stream = new Stream(response, token, run.name);
    this.textStreams.add(stream);
    response.on("close", () => this.textStreams.delete(stream));
  }
}

/** Checks an answer as far as the tests need it: integers and their greatest value, in objects or alone. */
function misfit(request, answer) {
  const schema = request.schema;
  if (schema?.type === "integer" && !Number.isInteger(answer)) return { pointer: "", detail: "this is no integer" };
  if (schema?.type === "object") {
    for (const [name, field] of Object.entries(schema.properties ?? {})) {
      if (field.maximum !== undefined && answer?.[name] > field.maximum) return { pointer: `/${name}`, detail: `it must be at most ${field.maximum}` };
    }
  }
  return null;
}

async function read(request) {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}
