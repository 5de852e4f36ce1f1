// The action that runs scripts. The host passes the config `{ script, config }`: `script` is `{ name, text, translation }`,
// or null if the script is in the newest message, and `config` is the config of the team file. `translation` is absent if
// the script has not been translated. To obtain it, the host passes the config `{ translate: { name, text } }` in an earlier
// call, whose output has the translation as its data, or `{ error: { message, file, line, column } }` if the script has a
// syntax error. For the config `{ describe: script }`, the data is what `describe.js` says of the script. `script.js`
// translates and loads scripts.

import * as sdk from "@strata/action";
import script from "strata:interpreter/script@0.1.0";
import { register } from "../src/trace.js";
import { describe } from "./describe.js";
import { load, locator, translate, whenSettled } from "./script.js";

const { Failure, action, codeBlock } = sdk;
/** The file name that the engine uses for evaluated code. */
const EVALUATED = "<input>";

/** Replaces the config of `cx` by that of the script, and returns the script's action, or a promise of it. */
function loadScript(cx) {
  const { script: given, config } = cx.config;
  cx.config = config;
  const { name, text, translation = translate(name, text) } = given ?? scriptInMessage(cx);
  register(EVALUATED, locator(name, text, translation));
  return load(translation.code, { sdk, cx, lineReached: (line) => script.lineReached(line) });
}

/** Returns the script in the newest message: its first code block, or the whole text if it has none. */
function scriptInMessage({ news, outputs }) {
  const refused = (why) => new Failure("error", `running the script of the newest message: ${why}`);
  const newest = outputs.at(-1) ?? news.at(-1);
  if (newest === undefined) throw refused("there is no message");
  const block = codeBlock(newest.content);
  if (block?.closed === false) throw refused("its code block has no closing fence");
  return { name: `${newest.causeBy}.js`, text: block?.code ?? newest.content };
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
function translateScript({ name, text }) {
  try {
    return translate(name, text);
  } catch (error) {
    if (error.syntaxError === undefined) throw error;
    return { error: error.syntaxError };
  }
}

/** Returns what a script says of itself, or a promise of it. */
const describeScript = ({ text, translation }) =>
  describe(text, () => load(translation.code, { sdk, cx: undefined, lineReached: () => {} }));

/** Runs a script, or translates or describes one. */
function run(cx) {
  const { translate: untranslated, describe: undescribed } = cx.config;
  if (untranslated !== undefined) return { data: translateScript(untranslated) };
  if (undescribed !== undefined) return whenSettled(describeScript(undescribed), (data) => ({ data }));
  return runScript(cx);
}

export default action({ run, plan: method("plan"), choose: method("choose") });
