// Language models.

import { call, hostError } from "./host.js";
import { parse, write } from "./json.js";

export const llm = {
  ask: (request) => reply(call("llm", "complete", lower(request))),
  askMany: (requests) => call("llm", "completeMany", requests.map(lower)).map(outcome),
};

/** A fence is at least three backticks or tildes, none of which are in the rest of its line. */
const FENCE = /^(?:(`{3,})([^`]*)|(~{3,})([^~]*))$/;

/** The first fenced block of code in a text. One without a closing fence reaches to the end. */
export function codeBlock(text) {
  const lines = text.replace(/\r?\n$/, "").split(/\r?\n/);
  const first = lines.findIndex((line) => FENCE.test(line.trim()));
  if (first < 0) return undefined;
  const [, ticks, afterTicks, tildes, afterTildes] = FENCE.exec(lines[first].trim());
  // What stands in a list is as far in as its fence.
  const indent = new RegExp(`^ {0,${lines[first].search(/[^ ]/)}}`);
  const rest = lines.slice(first + 1).map((line) => line.replace(indent, ""));
  const last = rest.findIndex((line) => closes(line.trim(), ticks ?? tildes));
  const closed = last >= 0;
  const code = (closed ? rest.slice(0, last) : rest).map((line) => `${line}\n`).join("");
  return { language: (afterTicks ?? afterTildes).trim(), code, closed };
}

/** A fence is closed by at least as many of the same, and nothing else. */
function closes(line, fence) {
  return line.length >= fence.length && line === fence[0].repeat(line.length);
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
