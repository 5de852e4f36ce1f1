// The action that runs scripts. The host passes the config `{ script, config }`: `script` is `{ name, text, passed,
// translation }`, or null if the script is in the newest message, and `config` is the config of the team file. `passed` is
// true if the call brought the text along, so that the code may be in a fence. `translation` is absent if the script has not
// been translated. To obtain it, the host passes the config `{ translate: { name, text } }` in an earlier call, whose output
// has the translation as its data, or `{ error: { message, file, line, column } }` if the script has a syntax error. For the
// config `{ describe: script }`, the data is what `describe.js` says of the script. The source of an action in a directory
// has `files` instead of a `text`; see `directory.js`.
//
// `script.js` translates and loads scripts, `directory.js` the modules of a directory, `code_block.js` finds them in what a model wrote, and `process.js` and
// `modules.js` are what programs for Node use.

import * as sdk from "@strata/action";
import script from "strata:interpreter/script@0.1.0";
import { inspect } from "../src/console.js";
import { write } from "../src/json.js";
import { runAll } from "../src/timers.js";
import { register } from "../src/trace.js";
import { findCode } from "./code_block.js";
import { describe } from "./describe.js";
import * as directory from "./directory.js";
import * as modules from "./modules.js";
import { Exit, checkExitCode, defineGlobals, errors, printed } from "./process.js";
import { javaScriptOf, load, locator, translate, whenSettled } from "./script.js";

const { Failure, action } = sdk;
/** The file name that the engine uses for evaluated code. */
const EVALUATED = "<input>";

/** Replaces the config of `cx` by that of the script, and returns the script's action, or a promise of it. */
function loadScript(cx) {
  const { script: given, config } = cx.config;
  cx.config = config;
  if (given?.files) return loadDirectory(given);
  const { name, text, translation } = translated(withCode(given ?? scriptInMessage(cx)));
  register(EVALUATED, locator(name, text, translation));
  defineGlobals(name);
  const resultOf = (returned, last, onlyDefines) => result({ name, onlyDefines }, returned, last);
  const environment = { importModule: modules.importModule, cx, lineReached: (line) => script.lineReached(line), resultOf };
  return orExit(() => load(translation, environment));
}

/** Returns the action of a directory. */
function loadDirectory(given) {
  const translation = given.translation ?? directory.translate(given);
  const translated = { ...given, translation };
  register(EVALUATED, directory.locator(translated));
  return directory.load(translated, (line) => script.lineReached(line));
}

/** Returns the newest message as a script. */
function scriptInMessage({ news, outputs }) {
  const newest = outputs.at(-1) ?? news.at(-1);
  if (newest === undefined) throw new Failure("error", "running the script of the newest message: there is no message");
  return { name: `${newest.causeBy}.js`, text: newest.content, passed: true };
}

/** Returns a script whose text is only the code of the text that the call brought along. */
function withCode(given) {
  if (!given.passed) return given;
  const [, stem, ending] = /^(.*)\.(\w+)$/s.exec(given.name);
  const found = findCode(given.text, ending);
  return { ...given, name: `${stem}.${found.ending}`, text: found.text };
}

/** Returns a script with its translation. What a call brings along may be in TypeScript without saying so. */
function translated(given) {
  if (given.translation !== undefined) return given;
  try {
    return { ...given, translation: translate(given.name, given.text, modules) };
  } catch (error) {
    if (!given.passed || given.name.endsWith("ts")) throw error;
    const name = given.name.replace(/\w+$/, "ts");
    try {
      return { ...given, name, translation: translate(name, given.text, modules) };
    } catch {
      throw error;
    }
  }
}

/**
 * Returns the result of a script without exports, or a promise of it: what it returned, else what it printed, else the
 * value of its last line. Like Node, it waits for all timers.
 */
function result({ name, onlyDefines }, returned, last) {
  if (returned !== undefined) return returned;
  return whenSettled(last.value, (value) => {
    runAll();
    checkExitCode();
    const found = printed() || value;
    if (found === undefined && onlyDefines) {
      throw new Failure("error", `the script \`${name}\` defines something and does not use it: call a function, and print or ` +
        "`return` its result, or export an action");
    }
    if (typeof found !== "object" && typeof found !== "function") return found;
    return shown(found);
  });
}

/** Returns the value of the last line as a result, as notebooks show it, even if JSON cannot represent it. */
function shown(value) {
  try {
    write(value, "the value");
    return value;
  } catch {
    return inspect(value);
  }
}

/** Returns the script's action, or a promise of it. A script that calls `process.exit` has the result that it printed. */
function orExit(work) {
  const ended = (error) => {
    if (!(error instanceof Exit)) throw error;
    if (error.code === 0) return { run: () => printed() };
    throw new Failure("error", `the script ended with exit code ${error.code}\n${errors()}`.trimEnd());
  };
  try {
    const found = work();
    return typeof found?.then === "function" ? found.then(undefined, ended) : found;
  } catch (error) {
    return ended(error);
  }
}

const method = (name) => (cx) =>
  whenSettled(loadScript(cx), (found) => {
    if (typeof found[name] !== "function") throw new Failure("error", `the script has no \`${name}\``);
    // The SDK does the same for other actions, whose schemas are known before the call.
    if (name !== "choose" && found.configSchema !== undefined) cx.config ??= {};
    return found[name](cx);
  });

const runScript = method("run");

/** Returns the translation of a script, or the syntax error that it has. */
function translateScript(given) {
  try {
    return given.files ? directory.translate(given) : translate(given.name, given.text, modules);
  } catch (error) {
    if (error.syntaxError === undefined) throw error;
    return { error: error.syntaxError };
  }
}

/** Returns what a script says of itself, or a promise of it. */
function describeScript(given) {
  const { name, text, translation } = given;
  if (given.files) {
    const { module } = given;
    return describe(javaScriptOf(module, directory.entryText(given)), () => loadDirectory(given), true);
  }
  defineGlobals(name);
  const nothing = () => undefined;
  const environment = { importModule: modules.importModule, cx: undefined, lineReached: nothing, resultOf: nothing };
  return describe(javaScriptOf(name, text), () => load(translation, environment));
}

/** Runs a script, or translates or describes one. */
function run(cx) {
  const { translate: untranslated, describe: undescribed } = cx.config;
  if (untranslated !== undefined) return { data: translateScript(untranslated) };
  if (undescribed !== undefined) return whenSettled(describeScript(undescribed), (data) => ({ data }));
  return runScript(cx);
}

export default action({ run, plan: method("plan"), choose: method("choose") });
