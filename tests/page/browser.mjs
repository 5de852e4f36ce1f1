// Chromium for the tests: the system's own, driven by playwright-core. Each page collects what must not happen.

import { existsSync, mkdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { required } from "./packages.mjs";

export const SHOTS = process.env.PAGE_SHOTS ?? join(process.cwd(), "target", "page-shots");

/** Returns the path of a browser, or null. */
export function browserPath() {
  const names = ["chromium", "chromium-browser", "google-chrome"];
  const folders = (process.env.PATH ?? "").split(delimiter);
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(existsSync) ?? null;
}

export function launch() {
  return required("playwright-core").chromium.launch({ executablePath: browserPath(), args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"] });
}

/** Opens a page of the server. `bad` of the result gets what must not happen: errors, violations of the policy, dialogs. */
export async function open(browser, server, path, { token = "owner-token", context: kept, size = [1280, 900], ...options } = {}) {
  const context = kept ?? (await browser.newContext({ viewport: { width: size[0], height: size[1] }, ...options }));
  const page = await context.newPage();
  const bad = [];
  page.on("pageerror", (error) => bad.push(`error: ${error.stack ?? error}`));
  page.on("dialog", (dialog) => {
    bad.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("console", (message) => {
    // A request that fails while the server is away is reported by the browser itself.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) bad.push(`console: ${message.text()}`);
  });
  await page.exposeFunction("reportViolation", (text) => bad.push(`policy: ${text}`));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => window.reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  const [address, hash] = path.split("#");
  await page.goto(`${server.url}${address}${token ? `#token=${token}` : ""}`);
  if (hash) await page.evaluate((text) => { location.hash = text; }, hash);
  return { page, context, bad };
}

/** Takes a picture, for somebody to look at. */
export async function shot(page, name, options = {}) {
  mkdirSync(SHOTS, { recursive: true });
  await page.screenshot({ path: join(SHOTS, `${name}.png`), animations: "disabled", ...options });
}
