// Globals that the engine lacks, or that must use the host.

import "./promises.js";
import { clock, log, uniform } from "./environment.js";
import { hasHost } from "./host.js";
import { TextDecoder, TextEncoder } from "./text.js";

const format = (value) => {
  if (typeof value === "string") return value;
  if (value instanceof Error) return `${value}\n${value.stack ?? ""}`.trimEnd();
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
};
const line = (write) => (...values) => write(values.map(format).join(" "));
const info = line(log.info);
const console = { debug: line(log.debug), error: line(log.error), info, log: info, warn: line(log.warn) };

// There is no host while a component is built. Times that modules read then become part of the component, so they must
// be the same in every build.
const EngineDate = Date;
const now = () => (hasHost() ? clock.now() : 0);
class HostDate extends EngineDate {
  constructor(...args) {
    super(...(args.length === 0 ? [now()] : args));
  }

  static now() {
    return Math.floor(now());
  }
}

Object.assign(globalThis, { console, Date: HostDate, TextDecoder, TextEncoder });
Math.random = uniform;
