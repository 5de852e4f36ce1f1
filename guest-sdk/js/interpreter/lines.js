// Reports to the host which lines of a script run.
//
// If the host ends an attempt, because it exceeds its CPU limit or recurses too deeply, the fault shows the line that was
// reported last. Each line is reported only once. All loops are reported, and the other statements of the script's body and
// of what it exports unless they are in a loop, so that loops and functions that are called often run at full speed.

import { ancestor } from "acorn-walk";

const LOOPS = ["ForStatement", "ForInStatement", "ForOfStatement", "WhileStatement", "DoWhileStatement"];
/** Statements that do nothing when they are reached, or are replaced. */
const NOT_REPORTED = /^(Function|Import|Export|Empty|Block)/;

const isLoop = ({ type }) => LOOPS.includes(type);
const isFunction = ({ type }) => type === "Program" || type === "StaticBlock" || type.includes("Function");

/** Inserts calls of `$reached` into a script, whose syntax tree has this root. */
export function reportLines(tree, edits) {
  const report = ({ loc }) => `$seen[${loc.start.line}] || $reached(${loc.start.line}); `;
  /** Reports the statements of a list. */
  const list = (statements, ancestors) => {
    const functions = ancestors.filter(isFunction).length;
    const isOuter = functions === 1 || (functions === 2 && ancestors[1].type.startsWith("Export"));
    const runsOnce = isOuter && !ancestors.some(isLoop);
    statements
      .filter((node) => isLoop(statement(node)) || (runsOnce && !NOT_REPORTED.test(node.type)))
      .forEach((node) => edits.surround(node.start, node.end, report(node), ""));
  };
  /** Reports a loop that is the whole body of a statement. */
  const body = (node) => {
    if (node && isLoop(statement(node))) edits.surround(node.start, node.end, `{ ${report(node)}`, " }");
  };
  const loop = (node) => body(node.body);
  ancestor(tree, {
    Program: (node, _, ancestors) => list(node.body, ancestors),
    BlockStatement: (node, _, ancestors) => list(node.body, ancestors),
    StaticBlock: (node, _, ancestors) => list(node.body, ancestors),
    SwitchCase: (node, _, ancestors) => list(node.consequent, ancestors),
    IfStatement(node) {
      body(node.consequent);
      body(node.alternate);
    },
    ForStatement: loop,
    ForInStatement: loop,
    ForOfStatement: loop,
    WhileStatement: loop,
    DoWhileStatement: loop,
  });
}

/** Returns a statement without its labels. */
function statement(node) {
  return node.type === "LabeledStatement" ? statement(node.body) : node;
}
