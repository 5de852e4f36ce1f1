// What JavaScript expects to be there and the engine lacks, or has from elsewhere than the host.

import "./promises.js";
import { clock, log, random } from "./environment.js";
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

// While a component is made there is no host to ask, and what was read then would be read for ever.
const EngineDate = Date;
class HostDate extends EngineDate {
  constructor(...args) {
    super(...(args.length === 0 ? [clock.now()] : args));
  }

  static now() {
    return Math.floor(clock.now());
  }
}

/** 53 random bits, as a number from 0 to 1. */
function uniform() {
  const [a, b, c, d, e, f, g] = random.bytes(7);
  const high = (a & 0x1f) * 2 ** 48 + b * 2 ** 40;
  return (high + c * 2 ** 32 + d * 2 ** 24 + e * 2 ** 16 + f * 2 ** 8 + g) / 2 ** 53;
}

Object.assign(globalThis, { console, Date: HostDate, TextDecoder, TextEncoder });
Math.random = uniform;
