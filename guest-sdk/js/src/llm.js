// Language models.

import { call, hostError } from "./host.js";
import { parse, write } from "./json.js";
import { isMedia, lowerMedia, lowerPart, lowerParts, raiseMedia } from "./media.js";

export const llm = {
  ask: (request) => reply(call("llm", "complete", lower(request))),
  askMany: (requests) => call("llm", "completeMany", requests.map(lower)).map(outcome),
  result: ({ id, name }, content, { isError = false } = {}) => {
    return { call: id, tool: name, content: contentOf(content), isError };
  },
  embed: (request) => {
    const { texts, model = null, dimensions = null } = Array.isArray(request) ? { texts: request } : request;
    return call("llm", "embed", { model, texts, dimensions });
  },
};

function contentOf(content) {
  const isPart = (part) => typeof part === "string" || isMedia(part);
  if (Array.isArray(content) && content.every(isPart)) return content;
  return [isPart(content) ? content : (write(content, "the result of a tool call") ?? "")];
}

/** An opening fence: at least three backticks or tildes, which do not occur in the rest of the line. */
const FENCE = /^(?:(`{3,})([^`]*)|(~{3,})([^~]*))$/;

/** Returns the first fenced code block in a text, or undefined. A block without a closing fence extends to the end. */
export function codeBlock(text) {
  return codeBlocks(text)[0];
}

/** Returns the fenced code blocks in a text, in order. */
export function codeBlocks(text) {
  const lines = text.replace(/\r?\n$/, "").split(/\r?\n/);
  const blocks = [];
  let first = lines.findIndex(opens);
  while (first >= 0) {
    const [, ticks, afterTicks, tildes, afterTildes] = FENCE.exec(lines[first].trim());
    // A block in a list is indented like its fence.
    const indent = new RegExp(`^ {0,${lines[first].search(/[^ ]/)}}`);
    const last = lines.findIndex((line, at) => at > first && closes(line.trim(), ticks ?? tildes));
    const closed = last >= 0;
    const content = lines.slice(first + 1, closed ? last : undefined);
    const code = content.map((line) => `${line.replace(indent, "")}\n`).join("");
    blocks.push({ language: (afterTicks ?? afterTildes).trim(), code, closed });
    first = closed ? lines.findIndex((line, at) => at > last && opens(line)) : -1;
  }
  return blocks;
}

const opens = (line) => FENCE.test(line.trim());

/** Returns whether a line closes a fence: it contains at least as many of the same character, and nothing else. */
function closes(line, fence) {
  return line.length >= fence.length && line === fence[0].repeat(line.length);
}

function lower(request) {
  const { prompt, system, messages = [], tools = [], toolChoice = "auto", ...rest } =
    typeof request === "object" && !Array.isArray(request) ? request : { prompt: request };
  const conversation = messages.map(lowerMessage);
  if (system !== undefined) conversation.unshift(lowerMessage({ speaker: "system", content: system }));
  if (prompt !== undefined) conversation.push(lowerMessage({ speaker: "user", content: prompt }));
  return {
    model: rest.model ?? null,
    messages: conversation,
    tools: tools.map((tool) => ({ ...tool, parameters: write(tool.parameters ?? {}, `tool \`${tool.name}\``) })),
    toolChoice: typeof toolChoice === "string" ? { tag: toolChoice } : { tag: "tool", val: toolChoice?.tool },
    outputSchema: write(rest.outputSchema, "an output schema"),
    effort: rest.effort ?? null,
    temperature: rest.temperature ?? null,
    maxTokens: rest.maxTokens ?? null,
    stop: rest.stop ?? [],
    seed: rest.seed ?? null,
  };
}

/** The tags of messages in the host's interface, by their speakers, and the conversions of their contents. */
const CONTENTS = {
  system: ["system", (content) => content],
  user: ["user", (content) => lowerParts(listed(content))],
  assistant: ["assistant", (content) => lowerParts(listed(content), lowerAssistantPart)],
  tool: ["tool-results", (content) => lowerParts(content, lowerResult)],
};
const listed = (content) => (typeof content === "string" ? [content] : content);

function lowerMessage(message) {
  if (!Object.hasOwn(CONTENTS, message?.speaker ?? "")) return message;
  const [tag, lowered] = CONTENTS[message.speaker];
  return { tag, val: lowered(message.content) };
}

function lowerAssistantPart(part) {
  if (isMedia(part)) return { tag: "media", val: lowerMedia(part) };
  if (part?.type === "tool-call") return { tag: "tool-call", val: part };
  if (part?.type !== "opaque") return lowerPart(part);
  return { tag: "opaque", val: { ...part, data: write(part.data, "an opaque part") } };
}

const lowerResult = (result) => ({ ...result, content: lowerParts(listed(result?.content)) });

function raiseAssistantPart({ tag, val }) {
  if (tag === "text") return val;
  if (tag === "media") return raiseMedia(val.mediaType.startsWith("image/") ? "image" : "file", val);
  return tag === "tool-call" ? { type: tag, ...val } : { type: tag, ...val, data: parse(val.data, "an opaque part") };
}

function reply({ data, parts, ...rest }) {
  const content = parts.map(raiseAssistantPart);
  return {
    ...rest,
    data: parse(data, "a model's reply"),
    toolCalls: content.filter((part) => part.type === "tool-call"),
    message: { speaker: "assistant", content },
  };
}

function outcome({ tag, val }) {
  return tag === "ok" ? reply(val) : hostError(val);
}
