// Turns a little Markdown into the tree that the server delivers. It knows what the tests need.

function inline(text) {
  const nodes = [];
  const pattern = /\*\*([^*]+)\*\*|`([^`]+)`|\[([^\]]*)\]\(([^)\s]*)\)/g;
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > from) nodes.push({ type: "text", text: text.slice(from, match.index) });
    if (match[1] !== undefined) nodes.push({ type: "strong", children: [{ type: "text", text: match[1] }] });
    else if (match[2] !== undefined) nodes.push({ type: "inline-code", text: match[2] });
    // The page has to refuse schemes itself, so the mock leaves them as they are.
    else nodes.push({ type: "link", href: match[4], children: [{ type: "text", text: match[3] }] });
    from = match.index + match[0].length;
  }
  if (from < text.length) nodes.push({ type: "text", text: text.slice(from) });
  return nodes;
}

export function tree(text) {
  const blocks = [];
  const parts = text.split(/^```.*$/m);
  parts.forEach((part, at) => {
    if (at % 2) {
      blocks.push({ type: "code", language: "", text: part.trim() });
      return;
    }
    for (const paragraph of part.split(/\n{2,}/)) {
      const whole = paragraph.trim();
      if (!whole) continue;
      const heading = /^(#{1,6}) (.*)$/.exec(whole);
      if (heading) blocks.push({ type: "heading", level: heading[1].length, children: inline(heading[2]) });
      else if (/^[-*] /.test(whole)) blocks.push({ type: "list", ordered: false, children: whole.split("\n").map((line) => ({ type: "item", children: inline(line.replace(/^[-*] /, "")) })) });
      else blocks.push({ type: "paragraph", children: inline(whole) });
    }
  });
  return blocks;
}
