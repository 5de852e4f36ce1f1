// Which lines of two texts differ.

/** Longer texts are compared without looking for the smallest difference. */
const MAX_CELLS = 4_000_000;

/** Returns the lines of both texts: `{kind: "same" | "old" | "new", text}`. */
export function lineDifference(before, after) {
  const old = before.split("\n");
  const fresh = after.split("\n");
  let start = 0;
  while (start < old.length && start < fresh.length && old[start] === fresh[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < fresh.length - start && old[old.length - 1 - end] === fresh[fresh.length - 1 - end]) end += 1;
  const middle = compare(old.slice(start, old.length - end), fresh.slice(start, fresh.length - end));
  const same = (text) => ({ kind: "same", text });
  return [...old.slice(0, start).map(same), ...middle, ...old.slice(old.length - end).map(same)];
}

function compare(old, fresh) {
  const removed = old.map((text) => ({ kind: "old", text }));
  const added = fresh.map((text) => ({ kind: "new", text }));
  if (!old.length || !fresh.length || old.length * fresh.length > MAX_CELLS) return [...removed, ...added];
  const width = fresh.length + 1;
  const longest = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = fresh.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = old[i] === fresh[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < old.length && j < fresh.length) {
    if (old[i] === fresh[j]) {
      lines.push({ kind: "same", text: old[i] });
      i += 1;
      j += 1;
    } else if (longest[(i + 1) * width + j] >= longest[i * width + j + 1]) lines.push(removed[i++]);
    else lines.push(added[j++]);
  }
  return [...lines, ...removed.slice(i), ...added.slice(j)];
}
