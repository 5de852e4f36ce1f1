// What JavaScript expects to be there and the engine lacks, or has from elsewhere than the host.

import "./promises.js";
import { clock, log, uniform } from "./environment.js";
import { hasHost } from "./host.js";
import { TextDecoder, TextEncoder } from "./text.js";

const shown = (value) => {
  if (typeof value === "string") return value;
  if (value instanceof Error) return `${value}\n${value.stack ?? ""}`.trimEnd();
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
};
const line = (write) => (...values) => write(values.map(shown).join(" "));
const info = line(log.info);
const console = { debug: line(log.debug), error: line(log.error), info, log: info, warn: line(log.warn) };

// While a component is made there is no host to ask. What modules read then while they are loaded would be read for
// ever, so it is the same in every build.
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
