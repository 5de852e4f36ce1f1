// The module `path` of Node, for paths with slashes.

const normalize = (path) => {
  const parts = [];
  for (const part of path.split("/")) {
    if (part === "..") {
      if (parts.length > 0 && parts.at(-1) !== "..") parts.pop();
      else if (!path.startsWith("/")) parts.push(part);
    } else if (part !== "" && part !== ".") parts.push(part);
  }
  const end = path.endsWith("/") && parts.length > 0 ? "/" : "";
  return (path.startsWith("/") ? "/" : "") + parts.join("/") + end || ".";
};
const basename = (path, suffix = "") => {
  const name = path.replace(/\/+$/, "").split("/").at(-1);
  return suffix && name !== suffix && name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
};
const extname = (path) => /[^/](\.[^./]*)\/*$/.exec(path)?.[1] ?? "";
const dirname = (path) => {
  const end = path.replace(/\/+$/, "").lastIndexOf("/");
  return end < 0 ? "." : path.slice(0, end) || "/";
};
const isAbsolute = (path) => path.startsWith("/");
const join = (...parts) => normalize(parts.filter(Boolean).join("/"));
const resolve = (...parts) => {
  const from = parts.findLastIndex(isAbsolute);
  const absolute = from < 0 ? ["/", ...parts] : parts.slice(from);
  return normalize(absolute.filter(Boolean).join("/")).replace(/(.)\/$/, "$1");
};

export const path = { basename, dirname, extname, isAbsolute, join, normalize, resolve, sep: "/" };
path.posix = path;
