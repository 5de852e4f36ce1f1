// Actions, and the parameters of their functions. `serve.js` makes the exports of a component from an action.

import { parse } from "./json.js";
import { raisePart } from "./media.js";

/** Returns the definition unchanged. Throws a TypeError if it has no `run`. */
export function action(definition) {
  if (typeof definition?.run !== "function") {
    throw new TypeError("declaring an action: it has no `run(cx)`");
  }
  return definition;
}

/** Returns a message of the host as authors see it. */
export function message({ data, parts, ...rest }) {
  return { ...rest, data: parse(data, `the data of message \`${rest.causeBy}\``), parts: parts.map(raisePart) };
}

class Call {
  constructor(attempt, call) {
    const { turn, call: position, deadlineMs } = attempt;
    const optional = { turn: turn ?? undefined, call: position ?? undefined, deadlineMs: deadlineMs ?? undefined };
    this.attempt = { ...attempt, ...optional };
    this.role = call.role;
    this.config = parse(call.config, "the action's `config`");
    this.news = call.news.map(message);
    this.outputs = call.outputs.map(message);
  }

  persona() {
    const { name, profile, desc, goal, constraints } = this.role;
    const opening = profile && profile !== name ? `You are ${name}, ${profile}.` : `You are ${name}.`;
    const parts = [["", desc], ["Your goal: ", goal], ["Your constraints: ", constraints]];
    const sentences = parts.filter(([, part]) => part).map(([lead, part]) => `${lead}${part.replace(/\.+$/, "")}.`);
    return [opening, ...sentences].join(" ");
  }
}

/** The parameter of `run` and `plan`. */
export class Context extends Call {
  constructor(attempt, input, { configSchema }) {
    super(attempt, input);
    // The host also validates an absent config as an object without keys.
    if (configSchema !== undefined) this.config ??= {};
    this.action = input.action;
    this.index = input.index;
    this.task = input.task ?? undefined;
    this.arguments = parse(input.arguments, "the arguments of the tool call");
  }

  get newest() {
    return this.outputs.at(-1) ?? this.news.at(-1);
  }

  get text() {
    return this.outputs.at(-1)?.content ?? this.news.map((message) => message.content).join("\n\n");
  }

  get data() {
    return this.newest?.data;
  }

  labelled(causeBy) {
    const has = (message) => message.causeBy === causeBy;
    return this.outputs.findLast(has) ?? this.news.findLast(has);
  }

  briefing() {
    const parts = this.task ? [`# Task\n\n${this.task.text.trim()}`] : [];
    for (const { causeBy, sentFrom, content } of [...this.news, ...this.outputs]) {
      parts.push(`# ${causeBy}${sentFrom && `, by ${sentFrom}`}\n\n${content.trim()}`);
    }
    return parts.join("\n\n");
  }
}

/** The parameter of `choose`. */
export class Situation extends Call {
  constructor(attempt, situation) {
    super(attempt, situation);
    this.round = situation.round;
    this.candidates = situation.candidates;
  }
}
