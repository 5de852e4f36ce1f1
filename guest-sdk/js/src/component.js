// The entry point of a component. It connects the action with the host's interfaces, and adds the globals that the
// engine lacks. The build calls `component` with the action.

import "./globals.js";
import clock from "strata:action/clock@0.2.0";
import env from "strata:action/env@0.2.0";
import environment from "strata:action/environment@0.2.0";
import files from "strata:action/files@0.2.0";
import http from "strata:action/http@0.2.0";
import human from "strata:action/human@0.2.0";
import llm from "strata:action/llm@0.2.0";
import log from "strata:action/log@0.2.0";
import mcp from "strata:action/mcp@0.2.0";
import media from "strata:action/media@0.2.0";
import memory from "strata:action/memory@0.2.0";
import random from "strata:action/random@0.2.0";
import secrets from "strata:action/secrets@0.2.0";
import state from "strata:action/state@0.2.0";
import tools from "strata:action/tools@0.2.0";
import { install } from "./host.js";
import { settle } from "./promises.js";
import { serve } from "./serve.js";
import { trace } from "./trace.js";

const host = {
  clock, env, environment, files, http, human, llm, log, mcp, media, memory, random, secrets, state, tools,
};

/** Returns the exports of a component. `about` is described in `serve.js`. */
export function component(action, about) {
  // Only now, when the action's modules are loaded: no host can be called while the component is built.
  install(host);
  return serve(action, about, { settle, trace });
}
