// The files of the page, under the addresses at which the server delivers them. The names have no digests here.

import { existsSync, readFileSync } from "node:fs";
import { dirname, extname, join, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";

export const PAGE = fileURLToPath(new URL("../../../host/server/page/", import.meta.url));
const TYPES = { ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".html": "text/html; charset=utf-8" };
const imports = JSON.parse(readFileSync(join(PAGE, "imports.json"), "utf8"));

/** Returns the address of a file of the page. */
const address = (path) => `/assets/${path.replaceAll("/", "-")}`;

/** Replaces what a module imports by addresses, as the build of the server does. */
function withAddresses(text, folder) {
  return text.replace(/\b(from|import)(\s*\(?\s*)(["'])([^"']+)\3/g, (all, word, space, quote, name) => {
    const path = name.startsWith(".") ? normalize(join(folder, name)) : imports[name];
    return path && existsSync(join(PAGE, path)) ? `${word}${space}${quote}${address(path)}${quote}` : all;
  });
}

const delivered = new Map();

/** Returns the file at an address: `{type, content}`, or null. */
export function pageFile(path) {
  if (!delivered.has(path)) delivered.set(path, read(path));
  return delivered.get(path);
}

function read(path) {
  if (!path.startsWith("/assets/")) {
    if (extname(path.split("/").at(-1))) return null;
    const html = readFileSync(join(PAGE, "index.html"), "utf8").replace(/(src|href)="\.\/([^"]+)"/g, (_, name, file) => `${name}="${address(file)}"`);
    return { type: TYPES[".html"], content: html };
  }
  const name = path.slice("/assets/".length);
  const file = name.startsWith("vendor-") ? `vendor/${name.slice("vendor-".length)}` : name;
  const full = join(PAGE, file);
  if (!TYPES[extname(file)] || relative(PAGE, full).startsWith("..") || !existsSync(full)) return null;
  const content = readFileSync(full);
  return { type: TYPES[extname(file)], content: extname(file) === ".js" ? withAddresses(content.toString(), dirname(file)) : content };
}
