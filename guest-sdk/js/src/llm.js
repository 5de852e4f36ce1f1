// Language models.

import { call, hostError } from "./host.js";
import { parse, write } from "./json.js";

export const llm = {
  ask: (request) => reply(call("llm", "complete", lower(request))),
  askMany: (requests) => call("llm", "completeMany", requests.map(lower)).map(outcome),
};

/** The first fenced block of code in a text. */
export function codeBlock(text) {
  const found = /^[ \t]*(`{3,}|~{3,})[ \t]*([^\s`]*)[^\n]*\n([\s\S]*?)^[ \t]*\1/m.exec(text);
  return found ? { language: found[2], code: found[3] } : undefined;
}

function lower(request) {
  const { prompt, system, messages = [], tools = [], ...rest } =
    typeof request === "object" ? request : { prompt: request };
  const turns = messages.map(turn);
  if (system !== undefined) turns.unshift(turn({ speaker: "system", content: system }));
  if (prompt !== undefined) turns.push(turn({ speaker: "user", content: prompt }));
  return {
    model: rest.model ?? null,
    messages: turns,
    tools: tools.map((tool) => ({ ...tool, parameters: write(tool.parameters ?? {}, `tool \`${tool.name}\``) })),
    outputSchema: write(rest.outputSchema, "an output schema"),
    temperature: rest.temperature ?? null,
    maxTokens: rest.maxTokens ?? null,
    stop: rest.stop ?? [],
    seed: rest.seed ?? null,
  };
}

function turn({ speaker, content = "", toolCalls = [], toolCallId = null }) {
  const calls = toolCalls.map((asked) => ({ ...asked, arguments: write(asked.arguments, "a tool call") }));
  return { speaker, content, toolCalls: calls, toolCallId };
}

function reply({ data, toolCalls, ...rest }) {
  const calls = toolCalls.map((asked) => ({ ...asked, arguments: parse(asked.arguments, "a tool call") }));
  return { ...rest, data: parse(data, "a model's reply"), toolCalls: calls };
}

function outcome({ tag, val }) {
  return tag === "ok" ? reply(val) : hostError(val);
}
