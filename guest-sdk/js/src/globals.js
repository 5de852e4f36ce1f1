// Globals that the engine lacks, or that must use the host.

import "./promises.js";
import { createConsole } from "./console.js";
import { clock, log, uniform } from "./environment.js";
import { hasHost } from "./host.js";
import { TextDecoder, TextEncoder } from "./text.js";

const console = createConsole((level, text) => log[level](text));

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
