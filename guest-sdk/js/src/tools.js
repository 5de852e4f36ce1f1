// Tools of the acting role.

import { call, hostError } from "./host.js";
import { parse, write } from "./json.js";

const lowered = (name, args) => ({ name, arguments: write(args ?? {}, "the arguments of a tool") });
const raised = (name, args) => parse(call("tools", "call", lowered(name, args)), "the result of a tool");

export const tools = {
  list: () =>
    call("tools", "list").map(({ name, description, inputSchema }) => ({
      name,
      description,
      inputSchema: parse(inputSchema, "a tool's schema"),
    })),
  call: raised,
  callMany(calls) {
    const made = [...calls].map(([name, args]) => lowered(name, args));
    const results = call("tools", "callMany", made);
    const failed = results.find(({ tag }) => tag === "err");
    if (failed) throw hostError(failed.val);
    return results.map(({ val }) => parse(val, "the result of a tool"));
  },
};
