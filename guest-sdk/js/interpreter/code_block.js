// The code in what a model wrote, which is often in a fence and between sentences.

import { Failure, codeBlocks } from "@strata/action";

/** How models name the languages of scripts after a fence, and the endings of their files. */
const LANGUAGES = {
  cjs: "js", javascript: "js", js: "js", jsx: "js", mjs: "js", node: "js", nodejs: "js", ts: "ts", tsx: "ts", typescript: "ts",
};
/** What models write after a fence if they name no language. */
const UNSPECIFIC = ["", "code", "plain", "plaintext", "text", "txt", "tool_code"];

/**
 * Returns the code in a text, and the ending of its file: that of the first block in JavaScript or TypeScript, else of the
 * first block without a language, else the whole text. Throws a Failure if all blocks are in other languages, or if the
 * block is not closed.
 */
export function findCode(text, ending) {
  const blocks = codeBlocks(text).map((block) => ({ ...block, language: languageOf(block) }));
  if (blocks.length === 0) return { text, ending };
  const refused = (why) => new Failure("error", `finding the code in a text: ${why}`);
  const block =
    blocks.find(({ language }) => Object.hasOwn(LANGUAGES, language)) ??
    blocks.find(({ language }) => UNSPECIFIC.includes(language));
  if (block === undefined) {
    const found = blocks.map(({ language }) => `\`${language}\``).join(", ");
    throw refused(`its code blocks are in ${found}, and none is in \`js\``);
  }
  if (!block.closed) throw refused("its code block has no closing fence");
  return { text: block.code, ending: LANGUAGES[block.language] === "ts" ? "ts" : ending };
}

/** Returns the language that is named after a fence, e.g. `js` for `{.js}` or `js title="a.js"`. */
function languageOf({ language }) {
  return language.replace(/^\{\s*\.?/, "").split(/[\s,}]/)[0].toLowerCase();
}
