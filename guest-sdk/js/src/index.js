// The entry point of the package, which actions import.

export { action } from "./action.js";
export { Failure, HostError } from "./errors.js";
export { clock, emit, env, files, log, memory, random, state } from "./environment.js";
export { http, secrets } from "./http.js";
export { human } from "./human.js";
export { codeBlock, codeBlocks, llm } from "./llm.js";
export { mcp } from "./mcp.js";
export { file, image, media } from "./media.js";
export { tools } from "./tools.js";
