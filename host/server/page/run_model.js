// What the events of a run say, put together: attempts, turns, host calls, questions, messages and checkpoints. Events are
// applied in their order, one after another; what was read later of the past leads to a new model.

import { duration, millis } from "./figures.js";

/** Identifies the work of an event: the same for its start and its end. */
const workKey = ({ role, action, index, turn, tool_call: call, nested, via, in: within }) => JSON.stringify([role, action, index, turn, call, nested, via, within]);

/** Returns whose work an event is part of: what happens in a sub-team or an item is that of the role of the run. */
const laneOf = (event) => String(event.in?.[0]?.role ?? event.role);

/** What an attempt did, within its role and with it. */
export const deedOf = (attempt) => (attempt.isTurn ? `turn ${attempt.turn}` : attempt.action);
export const nameOf = (attempt) => `${attempt.inner ? `${attempt.role}: ${attempt.inner}` : attempt.role}${attempt.isTurn ? `, turn ${attempt.turn}` : `.${attempt.action}`}`;
/** Where the drawing of an attempt ends. */
export const endOf = (attempt, now) => (Number.isFinite(attempt.end) ? attempt.end : Math.max(now, attempt.start));
export const lengthOf = (attempt) => (Number.isFinite(attempt.end) ? duration(attempt.end - attempt.start) : "not finished");

export const attemptOfEvent = (model, n) => model.attempts.findLast((attempt) => attempt.n === n || attempt.endEvent === n) ?? null;

/** More attempts of a role at a time share the last row. */
const MAX_ROWS = 4;

function freeRow(role) {
  const taken = new Set([...role.open].map((attempt) => attempt.row));
  let row = 0;
  while (taken.has(row) && row < MAX_ROWS - 1) row += 1;
  role.rows = Math.max(role.rows, row + 1);
  return row;
}

function newRole(name) {
  return { name, open: new Set(), lastTime: NaN, lastAction: "", mail: 0, spent: 0, calls: 0, attempts: 0, failed: 0, asked: 0, rows: 1 };
}

export class RunModel {
  constructor() {
    this.attempts = [];
    this.waits = [];
    this.turns = [];
    this.calls = [];
    this.marks = [];
    this.messages = [];
    this.checkpoints = [];
    this.requests = new Map();
    this.roles = new Map();
    this.edges = new Map();
    this.models = new Map();
    this.files = new Map();
    this.faults = new Map();
    this.doubts = new Map();
    this.open = new Map();
    this.liveCosts = new Map();
    this.mcp = new Map();
    this.timers = new Map();
    /** The lists whose items roles work on. */
    this.expansions = [];
    this.notices = [];
    /** The newest attempt at each work, to which logs are added after its end. */
    this.newest = new Map();
    this.lastEdge = null;
    this.step = null;
    this.status = null;
    this.startedAt = NaN;
    this.lastTime = NaN;
    this.saved = 0;
    this.outputMessage = null;
  }

  static of(events) {
    const model = new RunModel();
    for (const event of events) model.apply(event);
    return model;
  }

  role(name) {
    let role = this.roles.get(name);
    if (!role) {
      role = newRole(name);
      this.roles.set(name, role);
    }
    return role;
  }

  /** Returns the list on whose items a role works, or worked last. */
  expansionOf(role) {
    return this.expansions.findLast((one) => one.role === role);
  }

  get failures() {
    return this.attempts.filter((attempt) => attempt.fault);
  }

  /** Applies the next event. Kinds that are not known change nothing. */
  apply(event) {
    const time = millis(event.time);
    if (Number.isFinite(time)) {
      if (!Number.isFinite(this.startedAt)) this.startedAt = time;
      this.lastTime = Math.max(this.lastTime || 0, time);
    }
    if (event.in?.length) this.expansionOf(laneOf(event))?.begun.add(event.in[0].item);
    HANDLERS[event.kind]?.(this, event, time);
  }

  /** Ends what was open when the process that worked on the run ended. */
  interrupt(time) {
    for (const attempt of this.open.values()) this.end(attempt, time, "interrupted");
    this.open.clear();
    for (const role of this.roles.values()) role.open.clear();
  }

  begin(event, time) {
    const attempt = {
      n: event.n, role: laneOf(event), inner: event.in?.length ? `${event.in.map((one) => one.item).join(".")} ${event.role}` : "", action: event.action, index: event.index, attempt: event.attempt, step: event.step,
      turn: event.turn, toolCall: event.tool_call, nested: event.nested, via: event.via, start: time, end: NaN,
      outcome: "running", cost: 0, calls: 0, fault: null,
    };
    this.attempts.push(attempt);
    const role = this.role(attempt.role);
    role.attempts += 1;
    attempt.row = freeRow(role);
    role.open.add(attempt);
    role.lastAction = event.action;
    const key = workKey(event);
    this.open.set(key, attempt);
    this.newest.set(key, attempt);
    return attempt;
  }

  end(attempt, time, outcome) {
    attempt.end = time;
    attempt.outcome = outcome;
    const role = this.role(attempt.role);
    role.open.delete(attempt);
    role.lastTime = time;
  }

  /** Ends the attempt that an event is about, if its start is known. */
  finish(event, time, outcome) {
    const key = workKey(event);
    const attempt = this.open.get(key) ?? null;
    if (attempt) {
      this.end(attempt, time, outcome);
      attempt.endEvent = event.n;
      this.open.delete(key);
    }
    return attempt;
  }
}

function addCost(map, name, event) {
  const entry = map.get(name) ?? { name, cost: 0, calls: 0, input: 0, output: 0 };
  entry.cost += Number(event.cost) || 0;
  entry.calls += 1;
  entry.input += event.tokens?.input ?? 0;
  entry.output += event.tokens?.output ?? 0;
  map.set(name, entry);
}

function hostCall(model, event, time) {
  const attempt = model.open.get(workKey(event));
  const cost = Number(event.cost) || 0;
  const same = `${workKey(event)}|${event.call}|${event.what}`;
  const call = { n: event.n, time, event, cost, saved: 0 };
  if (event.source === "recorded") {
    call.saved = model.liveCosts.get(same) ?? 0;
    model.saved += call.saved;
  } else {
    model.liveCosts.set(same, cost);
  }
  model.calls.push(call);
  model.doubts.delete(workKey(event));
  const role = model.role(laneOf(event));
  role.spent += cost;
  role.calls += 1;
  if (attempt) {
    attempt.cost += cost;
    attempt.calls += 1;
  }
  if (event.model && event.source !== "recorded") addCost(model.models, event.model, event);
}

function routed(model, event, time) {
  const message = { n: event.n, time, id: event.id, from: event.from, to: event.to ?? [], cause: event.cause_by, outside: event.outside };
  model.messages.push(message);
  if (event.from) model.outputMessage = message;
  for (const to of message.to) {
    const edge = `${event.from}\u0000${to}`;
    model.edges.set(edge, (model.edges.get(edge) ?? 0) + 1);
    model.lastEdge = { from: event.from, to, n: event.n };
    if (model.roles.has(to)) model.roles.get(to).mail += 1;
  }
}

function requestOpened(model, event, time) {
  const attempt = model.finish(event, time, "asked");
  const wait = { n: event.n, role: laneOf(event), action: event.action, request: event.request, start: time, end: NaN, outcome: "asked", event, attempt };
  model.waits.push(wait);
  model.role(wait.role).asked += 1;
  model.requests.set(event.request, { ...event, openedAt: time, answer: null, wait });
  mark(model, event, time, "question", event.question);
}

function requestAnswered(model, event, time) {
  const request = model.requests.get(event.request);
  if (request && !request.answer) {
    request.answer = event;
    request.wait.end = time;
    model.role(request.wait.role).asked -= 1;
  }
}

function failed(model, event, time) {
  const retried = Number.isFinite(event.retry_ms);
  let attempt = model.finish(event, time, retried ? "retried" : "failed");
  const role = model.role(laneOf(event));
  if (!attempt) {
    // A turn has no start of its own.
    attempt = model.begin(event, Number.isFinite(role.lastTime) ? role.lastTime : time);
    model.finish(event, time, retried ? "retried" : "failed");
  }
  attempt.fault = event;
  attempt.endEvent = event.n;
  role.failed += 1;
  if (!retried) model.faults.set(workKey(event), { event, time, attempt });
}

function turn(model, event, time) {
  const role = model.role(laneOf(event));
  const start = Number.isFinite(role.lastTime) ? role.lastTime : (model.stepStart ?? time);
  model.turns.push({ ...event, time, step: model.step });
  model.attempts.push({
    n: event.n, role: role.name, action: "turn", index: -1, turn: event.turn, via: event.via, start, end: time,
    outcome: "finished", cost: Number(event.cost) || 0, calls: event.calls?.length ?? 0, fault: null, isTurn: true, endEvent: event.n, row: 0, step: model.step,
  });
  role.lastTime = time;
  role.lastAction = "turn";
  model.faults.delete(workKey({ ...event, action: "turn", index: -1, turn: undefined }));
}

function mark(model, event, time, kind, text) {
  model.marks.push({ n: event.n, time, kind, text });
}

const HANDLERS = {
  "run-started"(model, event, time) {
    model.status = "running";
    mark(model, event, time, "began", "started");
  },
  "run-resumed"(model, event, time) {
    model.interrupt(time);
    model.status = "running";
    mark(model, event, time, "began", "resumed");
  },
  "run-ended"(model, event, time) {
    model.interrupt(time);
    if (event.status === "cancelled") model.timers.clear();
    model.status = event.status;
    if (event.status === "done") model.faults.clear();
    mark(model, event, time, event.status === "done" ? "ended" : "stopped", event.status);
  },
  forked(model, event, time) {
    mark(model, event, time, "fork", `lineage ${event.lineage}`);
  },
  "step-started"(model, event, time) {
    model.step = event.step;
    model.stepStart = time;
    for (const role of model.roles.values()) role.mail = 0;
  },
  "step-committed"(model, event, time) {
    model.checkpoints.push({ n: event.n, time, id: event.checkpoint, step: event.step, parent: event.parent });
    mark(model, event, time, "checkpoint", `step ${event.step} committed`);
  },
  "message-routed": routed,
  "action-started"(model, event, time) {
    model.faults.delete(workKey(event));
    model.begin(event, time);
  },
  "action-finished"(model, event, time) {
    const attempt = model.finish(event, time, "finished");
    if (attempt) attempt.output = event.output;
  },
  "action-failed": failed,
  "action-suspended"(model, event, time) {
    model.finish(event, time, "suspended");
  },
  "action-replayed"(model, event, time) {
    model.faults.delete(workKey(event));
    const attempt = model.begin(event, time);
    model.finish(event, time, "replayed");
    attempt.endEvent = event.n;
  },
  "host-call-begun"(model, event, time) {
    model.doubts.set(workKey(event), { event, time });
  },
  "doubt-settled"(model, event) {
    model.doubts.delete(workKey(event));
  },
  "host-call": hostCall,
  turn,
  "tool-rejected"(model, event, time) {
    mark(model, event, time, "rejected", `${event.tool}: ${event.reason}`);
  },
  "request-opened": requestOpened,
  "request-answered": requestAnswered,
  "action-logged"(model, event) {
    const attempt = model.newest.get(workKey(event));
    if (attempt) attempt.logs = event;
  },
  "timer-set"(model, event) {
    model.timers.set(event.timer, event);
  },
  "timer-fired"(model, event, time) {
    model.timers.delete(event.timer);
    mark(model, event, time, "timer", `timer of ${event.role}`);
  },
  "trigger-fired"(model, event, time) {
    mark(model, event, time, "timer", `trigger ${event.trigger}`);
  },
  expanded(model, event) {
    model.expansions.push({ n: event.n, role: String(event.role), of: Number(event.items) || 0, begun: new Set(), done: 0, failed: 0, cancelled: 0 });
  },
  "item-ended"(model, event) {
    const one = model.expansionOf(event.role);
    if (one && Object.hasOwn(one, event.status)) one[event.status] += 1;
  },
  "notify-failed"(model, event) {
    model.notices.push(event);
  },
  "mcp-server"(model, event) {
    model.mcp.set(event.server, event);
  },
  "files-written"(model, event, time) {
    for (const file of event.files ?? []) model.files.set(file.path, { ...file, by: `${event.role}.${event.action}`, step: event.step, time });
  },
};
