// Changes of a text at positions of its syntax tree, which keep its lines.

/** Changes of a text, in any order. Those of an inner node have to be made before those of a node around it. */
export class Edits {
  #edits = [];

  constructor(text) {
    this.text = text;
  }

  /** Replaces the text from `start` to `end`, which is not empty. Its line breaks are kept. */
  replace(start, end, by) {
    const lines = this.text.slice(start, end).replace(/[^\n]/g, "");
    this.#edits.push({ start, end, by: by + lines });
  }

  /** Inserts `before` at `from`, and `after` at `to`. Nothing is inserted for an empty text. */
  surround(from, to, before, after) {
    const index = this.#edits.length;
    if (before) this.#edits.push({ start: from, end: from, by: before, opens: true, other: to, index });
    if (after) this.#edits.push({ start: to, end: to, by: after, opens: false, other: from, index });
  }

  /** Returns the changed text, and the parts of the original that it contains, for `originalColumn`. */
  apply() {
    let code = "";
    let from = 0;
    const kept = [];
    const keep = (to) => {
      kept.push([code.length, from, to]);
      code += this.text.slice(from, to);
    };
    for (const { start, end, by } of this.#edits.toSorted(compare)) {
      keep(start);
      code += by;
      from = end;
    }
    keep(this.text.length);
    return { code, kept };
  }
}

/** Converts a column in a line of a changed text to the column in the original text. */
export function originalColumn(text, { code, kept }, line, column) {
  const startOfLine = (whole) => whole.split("\n").slice(0, line - 1).join("\n").length + (line > 1);
  const position = startOfLine(code) + Math.max(0, column - 1);
  const [at, from, to] = kept.findLast(([start]) => start <= position) ?? kept[0];
  return Math.max(1, Math.min(to, from + position - at) - startOfLine(text) + 1);
}

/**
 * Compares edits by their order in the text. At the same position, what ends there comes first, then what begins there,
 * then what is replaced from there. Of two nodes that end there, the inner one is first; of two that begin, the outer one.
 */
function compare(a, b) {
  if (a.start !== b.start || a.end !== b.end) return a.start - b.start || a.end - b.end;
  if (a.opens !== b.opens) return a.opens ? 1 : -1;
  return b.other - a.other || (a.opens ? b.index - a.index : a.index - b.index);
}
