// How the page looks and works in other ways: narrow, enlarged, dark, with other colours, printed, without a mouse.

import { readFileSync } from "node:fs";
import { assert, check, sees, settled, shot, visit } from "./harness.mjs";
import { addAll, addLong } from "./mock/runs.mjs";
import { required } from "./packages.mjs";

const axe = readFileSync(required.resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = [
  ["needs", "/needs", "May this call be made?"], ["runs", "/runs", "snake-1"], ["overview", "/runs/snake-1/overview", "The game is in"],
  ["timeline", "/runs/snake-1/timeline", "WriteCode"], ["conversation", "/runs/research-2/conversation", "Part 1"], ["calls", "/runs/snake-1/calls", "Architect.Design"],
  ["files", "/runs/snake-1/files", "README.md"], ["state", "/runs/snake-1/state", "Checkpoint 4"], ["events", "/runs/snake-1/events", "run-started"],
  ["compare", "/compare?a=snake-1&b=poem-4", "The first difference"], ["server", "/server", "waits-for-room"], ["waiting", "/runs/campaign-7/overview", "How many customers"],
];

/** Shows each view in turn. */
async function eachView(page, look) {
  for (const [name, path, text] of VIEWS) {
    await visit(page, path);
    await sees(page, text);
    await settled(page);
    await look(name);
  }
}

/** By how many pixels something is wider than the page, which cuts it off. */
const overflow = (page) => page.evaluate(() => Math.max(...[...document.querySelectorAll("#page, #page > *")].map((element) => element.scrollWidth - element.clientWidth)));

/** At which sizes a view is looked at. A screen of 1280 pixels at 200 % has room for 640. */
const SIZES = [["narrow", { width: 360, height: 760 }], ["zoomed", { width: 640, height: 450 }], ["wide", { width: 1280, height: 900 }]];

check("nothing is wider than a screen of 360 pixels, and at 200 %", { fill: addAll, path: "/needs" }, async ({ page }) => {
  await sees(page, "May this call be made?");
  await eachView(page, async (name) => {
    for (const [size, pixels] of SIZES) {
      await page.setViewportSize(pixels);
      await settled(page);
      assert.ok((await overflow(page)) <= 0, `${size} ${name}`);
      if (size === "zoomed") await shot(page, `zoomed-${name}`, { isOneWay: true });
    }
    await shot(page, `view-${name}`);
  });
});

check("nothing is too wide with colours that the system forces", { fill: addAll, path: "/needs", options: { forcedColors: "active" } }, async ({ page }) => {
  await sees(page, "May this call be made?");
  await eachView(page, async (name) => {
    assert.ok((await overflow(page)) <= 0, name);
    await shot(page, `forced-${name}`, { isOneWay: true });
  });
});

check("dark is chosen by the system or by a switch, which is kept", { fill: addAll, path: "/needs", options: { colorScheme: "dark" } }, async ({ page }) => {
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await sees(page, "May this call be made?");
  assert.equal(await background(), "rgb(16, 21, 27)");
  await page.getByLabel("Colours").selectOption("light");
  assert.equal(await background(), "rgb(251, 252, 253)");
  await page.reload();
  await sees(page, "Mailer");
  assert.equal(await background(), "rgb(251, 252, 253)", "the choice is kept");
});

check("nothing moves for those who do not want it", { fill: (server) => {
  addAll(server);
  addLong(server, 600);
}, path: "/runs/poem-4/overview", options: { reducedMotion: "reduce" } }, async ({ page }) => {
  await sees(page, "at work: Critic");
  const moving = await page.evaluate(() => document.getAnimations().filter((one) => one.playState === "running").length);
  assert.equal(moving, 0);
});

check("a page is printed without its controls", { fill: addAll, path: "/runs/snake-1/overview" }, async ({ page }) => {
  await sees(page, "The game is in");
  await page.emulateMedia({ media: "print" });
  await shot(page, "print", { isOneWay: true, fullPage: true });
  assert.equal(await page.locator(".top").isVisible(), false);
});

check("axe finds nothing serious in any view, and no text that is hard to read in the dark", { fill: addAll, path: "/needs", allowed: (text) => text.startsWith("policy: style-src") }, async ({ page }) => {
  await sees(page, "May this call be made?");
  await page.evaluate(axe);
  const found = [];
  await eachView(page, async (name) => {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      // Only colours differ.
      const rules = colorScheme === "dark" ? { runOnly: ["color-contrast"] } : {};
      const result = await page.evaluate((options) => window.axe.run(document, { resultTypes: ["violations"], ...options }), rules);
      for (const one of result.violations) found.push(`${name} ${colorScheme}: ${one.impact} ${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.target} ${node.any.concat(node.all)[0]?.message ?? ""}`).join(" | ")}`);
    }
  });
  assert.deepEqual(found.filter((one) => /: (serious|critical) /.test(one)), []);
  if (found.length) console.log(found.join("\n"));
});

check("everything is reached and done with the keyboard alone, and the focus is seen", { fill: addAll, path: "/" }, async ({ page }) => {
  await sees(page, "May this call be made?");
  const focused = () => page.evaluate(() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    return { text: element.innerText || element.getAttribute("aria-label") || element.value || "", outline: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0, tag: element.tagName };
  });
  await page.keyboard.press("Tab");
  assert.equal((await focused()).text, "To the content");
  const seen = new Set();
  for (let at = 0; at < 40; at += 1) {
    await page.keyboard.press("Tab");
    const one = await focused();
    if (one.tag !== "BODY") {
      assert.ok(one.outline, `the focus is seen at ${one.text}`);
      seen.add(one.text.trim().split("\n")[0]);
    }
  }
  for (const text of ["Runs", "Approve ⏎", "Reject…", "Edit arguments"]) assert.ok([...seen].some((one) => one.startsWith(text.split(" ")[0])), text);
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("g");
  await page.keyboard.press("r");
  await sees(page, "snake-1");
  assert.equal((await focused()).text, "Runs", "the title of the view has the focus");
  await page.keyboard.press("?");
  await sees(page, "Single keys do something");
  await shot(page, "keys");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  assert.equal((await focused()).text, "poem-4");
  await page.keyboard.press("Enter");
  await sees(page, "at work: Critic");
  await page.getByRole("tab", { name: "Overview" }).focus();
  await page.keyboard.press("ArrowRight");
  assert.equal((await focused()).text, "Timeline");
  await page.keyboard.press("n");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  assert.equal((await focused()).text, "Timeline", "the focus is back where it came from");
});

check("single keys can be switched off", { fill: addAll, path: "/runs" }, async ({ page }) => {
  await sees(page, "snake-1");
  await page.keyboard.press("?");
  await page.getByLabel("Single keys do something").uncheck();
  await page.keyboard.press("Escape");
  await page.keyboard.press("n");
  await settled(page);
  assert.equal(await page.getByRole("dialog").count(), 0);
});
