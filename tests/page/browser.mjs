// Chromium for the tests: the system's own, driven by playwright-core. Each page collects what must not happen.

import { existsSync, mkdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";
import { required } from "./packages.mjs";

/** Where pictures are put for somebody to look at. Without it only those of failures are taken. */
const SHOTS = process.env.PAGE_SHOTS;
const FAILURES = fileURLToPath(new URL("../../target/page-shots", import.meta.url));
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
/** So many frames without a change mean that nothing is under way: effects of what was drawn begin one frame later. */
const QUIET_FRAMES = 4;

/** Returns the path of a browser, or null. */
export function browserPath() {
  const names = ["chromium", "chromium-browser", "google-chrome"];
  const folders = (process.env.PATH ?? "").split(delimiter);
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(existsSync) ?? null;
}

export function launch() {
  return required("playwright-core").chromium.launch({ executablePath: browserPath(), args: FLAGS });
}

/** Runs in each page before its own scripts: tells of violations, and counts what is under way. */
function watch() {
  document.addEventListener("securitypolicyviolation", (event) => window.reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  const watched = { requests: 0, changes: 0 };
  window.watched_ = watched;
  const look = () => {
    watched.changes += 1;
    // What a person came for: an entry of what waits, a run of the list, or the head of a run. It is painted with the next frame.
    if (watched.useful !== undefined || !document.querySelector(".entry, table.runs tbody tr, .run-title")) return;
    watched.useful = null;
    requestAnimationFrame(() => setTimeout(() => (watched.useful = performance.now())));
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
  const { fetch } = window;
  window.fetch = async (...request) => {
    // A stream is always under way.
    const isStream = request[1]?.headers?.Accept === "text/event-stream";
    watched.requests += isStream ? 0 : 1;
    try {
      const response = await fetch(...request);
      if (!isStream) await response.clone().arrayBuffer();
      return response;
    } finally {
      watched.requests -= isStream ? 0 : 1;
    }
  };
}

/** Opens a page of the server, in which `init` runs first. `bad` of the result gets what must not happen: errors, violations of the policy, dialogs. */
export async function open(browser, server, path, { token = "owner-token", context: kept, size = [1280, 900], init, ...options } = {}) {
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
  await page.addInitScript(watch);
  if (init) await page.addInitScript(init);
  const [address, hash] = path.split("#");
  await page.goto(`${server.url}${address}${token ? `#token=${token}` : ""}`);
  if (hash) await page.evaluate((text) => { location.hash = text; }, hash);
  return { page, context, bad };
}

/** Waits until the page has drawn what it asked for: no request is under way, and nothing has changed for some frames. */
export const settled = (page) => page.evaluate((frames) => new Promise((resolve) => {
  let quiet = 0;
  let before = -1;
  const look = () => {
    const { requests, changes } = window.watched_;
    quiet = requests === 0 && changes === before ? quiet + 1 : 0;
    before = changes;
    if (quiet >= frames) resolve();
    else requestAnimationFrame(look);
  };
  look();
}), QUIET_FRAMES);

/** Shows another address without loading the page anew. */
export async function visit(page, path) {
  await page.evaluate((to) => {
    history.pushState({}, "", to);
    dispatchEvent(new PopStateEvent("popstate", { state: {} }));
  }, path);
  await settled(page);
}

async function picture(page, folder, name, options) {
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: join(folder, `${name}.png`), animations: "disabled", ...options });
}

/** In which ways something is looked at: on a wide and on a narrow screen, in light and dark colours. */
const WAYS = ["wide", "narrow"].flatMap((size) => ["light", "dark"].map((colorScheme) => [`${size}-${colorScheme}`, size, colorScheme]));
const NARROW = { width: 360, height: 760 };

/** Takes pictures of what is seen for somebody to look at, if that is wanted: in all ways, unless it `isOneWay`. */
export async function shot(page, name, { isOneWay, ...options } = {}) {
  if (!SHOTS) return;
  await settled(page);
  if (isOneWay) return picture(page, SHOTS, name, options);
  const own = page.viewportSize();
  const top = await page.evaluate(() => scrollY);
  for (const [way, size, colorScheme] of WAYS) {
    await page.setViewportSize(size === "wide" ? own : NARROW);
    await page.emulateMedia({ colorScheme });
    await settled(page);
    await picture(page, join(SHOTS, way), name, options);
  }
  await page.setViewportSize(own);
  await page.emulateMedia({ colorScheme: null });
  await page.evaluate((to) => scrollTo(0, to), top);
  await settled(page);
}

export const shotOfFailure = (page, name) => picture(page, SHOTS ?? FAILURES, `failed ${name.slice(0, 60).replace(/[^a-z0-9]+/gi, "-")}`).catch(() => {});
