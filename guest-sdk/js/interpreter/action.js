// The action that scripts run in. Its config is the host's: `{ script, config }`, where `script` is `{ name, text }`, or
// null if the script is in the newest message, and `config` is what the team file says.
//
// What a script may look like, and how it becomes something the engine runs, is in `script.js`.

import * as sdk from "@strata/action";
import { register } from "../src/trace.js";
import { load, translate } from "./script.js";

const { Failure, action, codeBlock } = sdk;
/** What the engine calls the file of evaluated code. */
const EVALUATED = "<input>";

/** The call as the script is to see it, and the action that the script is. */
function opened(cx) {
  const { script, config } = cx.config;
  cx.config = config;
  const { name, text } = script ?? written(cx);
  const source = translate(name, text);
  register(EVALUATED, source.place);
  return load(source.code, sdk, cx);
}

/** The script that came in the newest message, for a thinker, too: its first block of code, or all of it. */
function written({ news, outputs }) {
  const refused = (why) => new Failure("error", `running the script of the newest message: ${why}`);
  const newest = outputs.at(-1) ?? news.at(-1);
  if (newest === undefined) throw refused("there is no message");
  const block = codeBlock(newest.content);
  if (block?.closed === false) throw refused("its block of code has no closing fence");
  return { name: `${newest.causeBy}.js`, text: block?.code ?? newest.content };
}

const method = (name) => async (cx) => {
  const found = await opened(cx);
  if (typeof found[name] !== "function") throw new Failure("error", `the script has no \`${name}\``);
  // As other actions have it, whose schema is known before they are called.
  if (name !== "choose" && found.configSchema !== undefined) cx.config ??= {};
  return found[name](cx);
};

export default action({ run: method("run"), plan: method("plan"), choose: method("choose") });
