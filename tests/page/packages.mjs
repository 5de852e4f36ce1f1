// The packages of the tests: installed below `target`, so that the sources have none of their thousands of files.

import { copyFileSync, existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const SOURCES = fileURLToPath(new URL(".", import.meta.url));
const FOLDER = fileURLToPath(new URL("../../target/page-tests/", import.meta.url));

/** Returns a package as `require` does. */
export const required = createRequire(join(FOLDER, "package.json"));

/** Installs the packages, unless that was done before. Returns why that is not possible, or null. */
export function install() {
  if (existsSync(join(FOLDER, "node_modules/playwright-core"))) return null;
  mkdirSync(FOLDER, { recursive: true });
  for (const name of ["package.json", "package-lock.json"]) copyFileSync(join(SOURCES, name), join(FOLDER, name));
  const done = spawnSync("npm", ["ci", "--no-audit", "--no-fund"], { cwd: FOLDER, encoding: "utf8" });
  return done.status === 0 ? null : `npm cannot install what the tests need: ${done.stderr ?? done.error}`;
}
