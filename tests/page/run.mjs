// Runs the tests of the page: `node tests/page/run.mjs [FILE…]`. Each file is named after what it tests.
//
// `PAGE_SHOTS=FOLDER` puts pictures of all that is tested there, for somebody to look at. `STRATA_PAGE_LONG=1` adds what takes minutes
// and an idle machine. `STRATA_HOST` is the program that `real` tests.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { browserPath } from "./browser.mjs";
import { runAll } from "./harness.mjs";
import { install } from "./packages.mjs";

/** What waits most comes first. */
const FILES = ["real", "connection", "hostile", "looks", "run", "needs", "runs", "load"];
const IS_WORKER = "PAGE_TESTS_RUN";

const files = process.argv.length > 2 ? process.argv.slice(2) : FILES;
if (process.env[IS_WORKER]) {
  for (const name of files) await import(`./${name}.test.mjs`);
  await runAll();
} else {
  // The exit code 3 says that the page cannot be tested here.
  const missing = browserPath() ? install() : "there is no Chromium on this machine";
  if (missing) {
    console.error(missing);
    process.exit(3);
  }
  const result = spawnSync(process.execPath, ["--test-reporter=spec", fileURLToPath(import.meta.url), ...files], { stdio: "inherit", env: { ...process.env, [IS_WORKER]: "1" } });
  process.exit(result.status ?? 1);
}
