// A run of the mock: its events, and what follows from them. The events have the shapes of the program's own.

import { tree } from "./markdown.mjs";

const DIGEST = "5f1d…".padEnd(64, "0");

let nextId = 1;

export class MockRun {
  constructor(server, name, more = {}) {
    this.server = server;
    this.name = name;
    this.id = `0193c0de-0000-7000-8000-${String(nextId++).padStart(12, "0")}`;
    this.events = [];
    this.n = 0;
    this.clock = more.began ?? Date.now() - 60_000;
    this.messages = [];
    this.files = new Map();
    this.checkpoints = [];
    this.requests = new Map();
    this.texts = [];
    this.record = {
      id: this.id, name: name.split("/").at(-1), team: more.team ?? "snake", tenant: name.includes("/") ? name.split("/")[0] : "default", by: more.by ?? "owner", labels: more.labels ?? {}, state: "running", status: "running", step: 0,
      spent: 0, budget: more.budget ?? null, requests: 0, faults: 0, timer: null, at_work: [], checkpoint: null, lineage: "main", forked_from: null, created: iso(this.clock), updated: iso(this.clock), ended: null,
      idea: more.idea ?? "write a snake game", output: null, bundle: "sha256:" + "ab".repeat(32),
    };
    this.roles = more.roles ?? ["Product", "Architect", "Coder", "Boss"];
    this.scopes = { env: { log: { count: 1 } }, role: {} };
    this.graph = more.graph ?? null;
  }

  /** Lets time pass. */
  wait(ms) {
    this.clock += ms;
    return this;
  }

  emit(kind, fields = {}) {
    this.n += 1;
    const event = { n: this.n, time: iso(this.clock), kind, ...fields };
    this.events.push(event);
    this.record.events = this.n;
    this.record.updated = event.time;
    this.server?.publishEvent(this, event);
    return event;
  }

  changed(fields = {}) {
    Object.assign(this.record, fields);
    this.server?.publishRun(this);
  }

  begin() {
    this.emit("run-started", { run: this.id, idea: this.record.idea });
    this.message("", this.record.idea, [this.roles[0]], "UserRequirement");
    this.checkpoint(0, null);
    return this;
  }

  message(from, content, to, cause, data) {
    const id = `m${this.messages.length + 1}`;
    this.messages.push({ id, content, instruct_content: data ? { class: "", value: data } : null, role: from, cause_by: cause, sent_from: from, send_to: ["<all>"] });
    this.emit("message-routed", { id, from, to, cause_by: cause });
    if (from) this.record.output = content.slice(0, 2000);
    return id;
  }

  checkpoint(step, parent) {
    const id = `main-${this.checkpoints.length}`;
    this.checkpoints.push({ id, lineage: "main", newest: true, parent, source: "step", status: "running", step, time: iso(this.clock), state: this.state() });
    for (const other of this.checkpoints.slice(0, -1)) other.newest = false;
    this.record.checkpoint = id;
    return id;
  }

  state() {
    const roles = Object.fromEntries(this.roles.map((name) => [name, { name, rc: { memory: { storage: this.messages.filter((message) => message.sent_from === name) }, state: -1 } }]));
    return {
      env: { desc: "", roles }, idea: this.record.idea,
      strata: {
        status: this.record.status, step: this.record.step, buffers: { [this.roles[1] ?? "A"]: this.messages.slice(-1).map((one) => one.id) }, joins: {}, requests: [], faults: [],
        state: JSON.parse(JSON.stringify(this.scopes)), budget: { total: this.record.spent, max: this.record.budget }, messages: Object.fromEntries(this.messages.map((one) => [one.id, one])),
      },
    };
  }

  step(number) {
    this.record.step = number;
    this.emit("step-started", { step: number });
    return this;
  }

  commit(number) {
    const id = `main-${this.checkpoints.length}`;
    this.emit("step-committed", { step: number, checkpoint: id, parent: this.checkpoints.at(-1)?.id ?? null });
    this.scopes.env.log.count += 1;
    this.checkpoint(number, this.checkpoints.at(-1)?.id ?? null);
    this.record.step = number + 1;
    return this;
  }

  /** An attempt with one call of a model. */
  act(role, action, { says = `${action} ok`, took = 1500, cost = 0.012, attempt = 1, index = 0, source = "live", what = "continue", model = "default" } = {}) {
    const about = { step: this.record.step, role, index, action };
    this.emit("action-started", { ...about, attempt, digest: DIGEST });
    this.wait(took);
    this.call(about, { cost, source, what, model });
    this.emit("action-finished", { ...about, attempt, digest: DIGEST, output: { content: says, data: null, to: [] } });
    return this;
  }

  call(about, { cost = 0.01, source = "live", what = "continue", model = "default", call = "llm" } = {}) {
    this.emit("host-call", { ...about, call, source, cost: source === "live" ? cost : 0, what, model, answered: "gpt-large", finish: "stop", tokens: { input: 812, output: 204, cache_read: 0, cache_write: 0, reasoning: 0 } });
    if (source === "live") this.record.spent = Math.round((this.record.spent + cost) * 1e6) / 1e6;
  }

  fail(role, action, { fault = "trap", cause = "unreachable", message = "the component trapped: wasm `unreachable` instruction executed", attempt = 1, index = 0, backtrace = ["coder::draw", "coder::run"], retry_ms } = {}) {
    const about = { step: this.record.step, role, index, action };
    this.emit("action-started", { ...about, attempt, digest: DIGEST });
    this.wait(400);
    this.emit("action-failed", { ...about, attempt, fault, cause, message, digest: DIGEST, backtrace, ...(retry_ms ? { retry_ms } : {}) });
    if (!retry_ms) this.record.faults += 1;
    return this;
  }

  turn(role, number, { calls = [], text = "", cost = 0.02, model = "default", finish = calls.length ? "tool-calls" : "stop" } = {}) {
    this.wait(2200);
    this.call({ step: this.record.step, role, index: -1, action: "turn", turn: number }, { cost, model });
    this.emit("turn", { role, turn: number, calls: calls.map((one, at) => ({ tool_call: at, tool: one.tool, id: `call_${number}_${at}` })), model, finish, cost });
    this.texts.push({ role, step: this.record.step, turn: number, text, calls, cost, model, finish });
    return this;
  }

  tool(role, turn, at, tool, { says = "12 results", took = 700, fails } = {}) {
    const about = { step: this.record.step, role, index: tool.includes("/") ? -1 : 0, action: tool, turn, tool_call: at };
    this.emit("action-started", { ...about, attempt: 1, digest: tool.includes("/") ? null : DIGEST });
    this.wait(took);
    if (fails) this.emit("action-failed", { ...about, attempt: 1, fault: fails, cause: "declared", message: `${tool} failed`, digest: DIGEST, backtrace: [] });
    else this.emit("action-finished", { ...about, attempt: 1, digest: DIGEST, output: { content: says, data: null, to: [] } });
    return this;
  }

  ask(role, id, question, more = {}) {
    const fields = { step: this.record.step, role, index: 0, action: "Ask", request: id, question, ...more };
    const event = this.emit("request-opened", fields);
    const request = { id, run: this.record.name, run_id: this.id, tenant: this.record.tenant, role, action: fields.action, question, opened: event.time, expires: null, choices: [], schema: null, ...more };
    this.requests.set(id, request);
    this.record.requests = this.requests.size;
    this.server?.publishRequest(this, { ...request, opened: event.time });
    return this;
  }

  answer(id, answer, person) {
    const request = this.requests.get(id);
    this.requests.delete(id);
    this.record.requests = this.requests.size;
    this.clock = Math.max(this.clock, Date.now());
    const event = this.emit("request-answered", { role: request.role, request: id, by: "person", checkpoint: this.record.checkpoint, answer, person });
    this.server?.publishRequest(this, { ...request, answered: { by: person, time: event.time, answer } });
    this.changed({});
  }

  file(path, text, by, step = this.record.step) {
    const bytes = Buffer.from(text);
    this.files.set(path, { path, kind: "file", bytes: bytes.length, digest: `sha256:${path.length}${bytes.length}`, by, step, text });
    const [role, action] = by.split(".");
    this.emit("files-written", { step, role, index: 0, action, files: [{ path, change: "written", bytes: bytes.length, digest: "00" }] });
    return this;
  }

  end(status) {
    this.emit("run-ended", { status, checkpoint: this.record.checkpoint });
    if (this.checkpoints.length) this.checkpoints.at(-1).status = status;
    const isResting = status === "waiting" || status === "paused";
    this.changed({ status, state: isResting ? "resting" : "ended", ended: isResting ? null : iso(this.clock) });
    return this;
  }

  conversations() {
    const groups = new Map();
    for (const turn of this.texts) {
      const key = `${turn.role}/${turn.step}`;
      if (!groups.has(key)) groups.set(key, { role: turn.role, step: turn.step, news: [], turns: [], replacements: this.replacements ?? [], fault: null, output: null, cost: 0 });
      groups.get(key).turns.push({
        turn: turn.turn, model: turn.model, finish: turn.finish, cost: turn.cost, reasoning: "", text: turn.text, tree: tree(turn.text), misfit: null,
        calls: turn.calls.map((one, at) => ({ tool_call: at, id: `call_${at}`, tool: one.tool, arguments: one.arguments ?? "{}", edited_arguments: null, decided_by: null, attempts: 1, cost: 0, outcome: one.outcome ?? { kind: "returned", content: one.result ?? "12 results", data: null }, earlier_faults: [] })),
      });
    }
    return [...groups.values()];
  }

  layout() {
    if (this.graph) return this.graph;
    const names = ["idea", ...this.roles];
    const nodes = names.map((name, at) => ({ id: at, kind: at === 0 ? "start" : name === "Boss" ? "human" : "role", label: name, x: at * 190, y: at % 2 ? 10 : 50, width: 140, height: at === 0 ? 30 : 48, state: "idle" }));
    const edges = names.slice(1).map((_, at) => ({ from: at, to: at + 1, label: "", points: [[at * 190 + 140, nodes[at].y + nodes[at].height / 2], [at * 190 + 190, nodes[at + 1].y + 24]] }));
    return { width: names.length * 190 - 50, height: 110, nodes, edges };
  }
}

export const iso = (time) => new Date(time).toISOString();
