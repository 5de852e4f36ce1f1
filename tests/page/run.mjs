// Runs the tests of the page: `node tests/page/run.mjs [FILE…]`. Each file is named after what it tests.

import { existsSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { browserPath } from "./browser.mjs";
import { install } from "./packages.mjs";

const folder = fileURLToPath(new URL(".", import.meta.url));
const all = ["needs", "runs", "run", "connection", "looks", "hostile", "real", "load"];
const files = (process.argv.length > 2 ? process.argv.slice(2) : all).map((name) => `${folder}${name}.test.mjs`).filter(existsSync);
// The exit code 3 says that the page cannot be tested here.
const missing = browserPath() ? install() : "there is no Chromium on this machine";
if (missing) {
  console.error(missing);
  process.exit(3);
}
const result = spawnSync(process.execPath, ["--test", "--test-concurrency=1", "--test-reporter=spec", ...files], { stdio: "inherit" });
process.exit(result.status ?? 1);
