// What a script says of itself to the host: the keys of the action that it exports, and, for what these do not contain, the
// comment before what it exports or at its beginning.

import { parse } from "acorn";
import { write } from "../src/json.js";
import { readComment, textOfBlock } from "./jsdoc.js";
import { OPTIONS, whenSettled } from "./script.js";

/** The names of the methods of an action, by those of its interfaces. */
const INTERFACES = { action: "run", planner: "plan", thinker: "choose" };

/**
 * Returns the description of a script with this text, which has no types, or a promise of it. `load` runs the script and
 * returns the action that it exports, or a promise of it. A script that exports nothing is a program, for which it is not
 * called, unless this is the entry point of a directory (`isEntry`). If it fails, the description has the reason as `problem`,
 * or as `error`, like that of a translation, if every call will fail, too.
 */
export function describe(text, load, isEntry = false) {
  const comments = [];
  const tree = parse(text, { ...OPTIONS, onComment: comments });
  const exported = tree.body.filter(({ type }) => /^Export(Default|Named)/.test(type));
  const { description, inputSchema } = readComments(text, tree, exported, comments);
  const shown = { description, input_schema: write(inputSchema, "the input schema"), needs: [], exports: ["action"] };
  if (exported.length === 0 && !isEntry) return shown;
  const failed = (error) => {
    const why = error?.syntaxError ? { error: error.syntaxError } : { problem: String(error).split("\n")[0] };
    return { ...shown, exports: undefined, ...why };
  };
  const complete = (action) => ({
    description: action.description ?? shown.description,
    declared: { name: action.name, version: action.version, description: action.description },
    config_schema: write(action.configSchema, "the config schema"),
    input_schema: write(action.inputSchema, "the input schema") ?? shown.input_schema,
    output_schema: write(action.outputSchema, "the output schema"),
    needs: action.needs ?? [],
    exports: Object.keys(INTERFACES).filter((name) => typeof action[INTERFACES[name]] === "function"),
  });
  try {
    const described = whenSettled(load(), complete);
    return typeof described?.then === "function" ? described.catch(failed) : described;
  } catch (error) {
    return failed(error);
  }
}

/** Returns what the comments say: the first that has a description, and the first that has arguments. */
function readComments(text, tree, exported, comments) {
  const found = functions(tree, exported).map(({ node, parameter }) => readComment(before(text, node, comments), parameter));
  found.push(readComment(first(text, comments)));
  return {
    description: found.find(({ description }) => description)?.description ?? "",
    inputSchema: found.find(({ inputSchema }) => inputSchema)?.inputSchema,
  };
}

/** Returns the nodes whose comments describe the action, with the name of the parameter of its function. */
function functions(tree, exported) {
  const nodes = [];
  for (const node of exported) {
    const { declaration } = node;
    const named = declaration?.type === "Identifier" && tree.body.find(({ id }) => id?.name === declaration.name);
    for (const each of [node, named].filter(Boolean)) {
      const target = each.declaration ?? each;
      const method = target.arguments?.[0]?.properties?.find(({ key }) => key?.name === "run");
      if (method) nodes.push({ node: method, parameter: method.value?.params?.[0]?.name });
      nodes.push({ node: each, parameter: target.params?.[0]?.name });
    }
  }
  return nodes;
}

/** Returns the text of the block comment that ends directly before a node. */
function before(text, node, comments) {
  const comment = comments.find(({ type, end }) => type === "Block" && end <= node.start && /^\s*$/.test(text.slice(end, node.start)));
  return comment ? textOfBlock(comment.value) : "";
}

/** Returns the text of the comment at the beginning of a script: a block, or the lines of one. */
function first(text, comments) {
  const lines = [];
  let end = 0;
  for (const comment of comments) {
    if (!/^\s*$/.test(text.slice(end, comment.start))) break;
    if (comment.type === "Block") return lines.length > 0 ? lines.join("\n") : textOfBlock(comment.value);
    lines.push(comment.value.trim());
    end = comment.end;
  }
  return lines.join("\n");
}
