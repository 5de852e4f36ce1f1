// Makes a component of an action: TypeScript is checked, the source and what it imports become one bundle, the
// bundle and an engine become a component. Started by `strata-host build`, with one argument: a JSON object with
// `dir` (the action), `entry` (its source, relative to it), `out` (the component), `inputs` (where the files are listed
// that it was made from), `about` (what package.json says), `sdk` and `wit` (where those are). What is wrong is written to stderr, as `file:line:column`.

import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { SourceMap } from "node:module";
import { fileURLToPath } from "node:url";
import { componentize } from "componentize-qjs";
import * as esbuild from "esbuild";

const TOOLS = path.join(path.dirname(fileURLToPath(import.meta.url)), "node_modules");
const BUNDLE = "bundle.js";
const WORLDS = { "": "action", planner: "planning-action", thinker: "thinking-action", "planner,thinker": "versatile-action" };

const { dir: given, entry, out, inputs, about, sdk: kit, wit } = JSON.parse(process.argv[2]);
// The bundler names files by where they really are.
const [dir, sdk] = [given, kit].map((directory) => fs.realpathSync(directory));

const OWN_CONFIG = path.join(dir, "tsconfig.json");
const NO_NODE = "There is no node where an action runs; `@strata/action` has `files`, `env`, `http`, `clock` and `random`.";
/** Advice of the compiler that leads nowhere here, and what is true instead. */
const ASTRAY = [
  [/Do you need to install type definitions for (node|Bun)\?.*/g, NO_NODE],
  [/Do you need to install type definitions for jQuery\?.*/g, "There is no browser where an action runs."],
  [/Do you need to change your target library\? Try changing the 'lib' compiler option to include 'dom'\./g,
    "There is no browser where an action runs."],
];

try {
  if (/\.[mc]?ts$/.test(entry)) check();
  const { source, map, files } = await bundle();
  fs.writeFileSync(inputs, files.join("\n"));
  fs.writeFileSync(out, await component(source, map));
} catch (error) {
  console.error(error.told ?? error.stack);
  process.exitCode = 1;
}

function refuse(told) {
  throw Object.assign(new Error(told), { told: told.trimEnd() });
}

/** Checks the types, by the action's own tsconfig.json if it has one; one further up is of something else. */
function check() {
  const compiler = path.join(TOOLS, "typescript/bin/tsc");
  const settings = fs.existsSync(OWN_CONFIG)
    ? ["--project", OWN_CONFIG]
    : ["--ignoreConfig", "--strict", "--target", "es2023", "--lib", "es2023", "--module", "esnext", "--moduleResolution", "bundler",
       "--allowImportingTsExtensions", "--skipLibCheck", "--types", "@strata/action/globals", entry];
  const done = spawnSync(process.execPath, [compiler, "--noEmit", "--pretty", "false", ...settings], { cwd: dir, encoding: "utf8" });
  if (done.status === 0) return;
  const told = (done.stdout + done.stderr).replace(/^(\S+?)\((\d+),(\d+)\): /gm, "$1:$2:$3: ");
  refuse(ASTRAY.reduce((text, [advice, instead]) => text.replace(advice, instead), told) || String(done.error));
}

async function bundle() {
  const exported = ["handler", ...about.exports].join(", ");
  const start = [
    `import { component } from ${JSON.stringify(path.join(sdk, "src/component.js"))};`,
    `import action from ${JSON.stringify("./" + entry)};`,
    `export const { ${exported} } = component(action, ${JSON.stringify(about)});`,
  ];
  const result = await esbuild
    .build({
      stdin: { contents: start.join("\n"), resolveDir: dir, sourcefile: path.join(sdk, "entry.js") },
      absWorkingDir: dir,
      outfile: path.join(dir, BUNDLE),
      write: false,
      metafile: true,
      bundle: true,
      format: "esm",
      platform: "neutral",
      mainFields: ["module", "main"],
      target: "es2023",
      // The engine never gets to the jobs of its own promises; `promises.js` does, once async functions use its.
      supported: { "async-await": false, "async-generator": false, "for-await": false },
      external: ["strata:*"],
      alias: { "@strata/action": path.join(sdk, "src/index.js") },
      nodePaths: [TOOLS],
      ...(fs.existsSync(OWN_CONFIG) ? {} : { tsconfigRaw: {} }),
      sourcemap: "external",
      sourcesContent: false,
      legalComments: "none",
      charset: "utf8",
      logLevel: "silent",
    })
    .catch(async ({ errors, message }) => {
      if (!errors) refuse(message);
      refuse((await esbuild.formatMessages(errors.map(named), { kind: "error" })).join("\n"));
    });
  const [map, source] = [".map", ""].map((end) => result.outputFiles.find((file) => file.path.endsWith(BUNDLE + end)).text);
  return { source, map: relative(JSON.parse(map)), files: own(result.metafile) };
}

/** The files that went into a bundle, but those of the SDK and of packages, which other files name by version. */
function own({ inputs }) {
  const files = Object.keys(inputs).filter((file) => !file.startsWith("<")).map((file) => path.resolve(dir, file));
  const apart = (file) => file.startsWith(sdk + path.sep) || file.split(path.sep).includes("node_modules");
  return files.filter((file) => !apart(file));
}

/** An error as the author can use it. */
function named(error) {
  // The default export is asked for by our own entry, so what esbuild says of it is not about the author's source.
  if (!/No matching export .* for import "default"/.test(error.text)) return { ...error, notes: error.notes.flatMap(note) };
  return { ...error, location: null, notes: [], text: `\`${entry}\` has no \`export default action({ run(cx) { … } })\`` };
}

/** A note that points to no place is about the bundler's settings, which are not the author's. */
function note({ text, location }) {
  if (location) return [{ text, location }];
  if (text.includes("built into node")) return [{ text: NO_NODE }];
  return text.includes("mark the path") ? [{ text: "A package is there once `dependencies` in package.json name it." }] : [];
}

/** Sources of the action are named relative to it, those of the SDK by a word that traces leave out. */
function relative(map) {
  const sources = map.sources.map((source) => {
    const file = path.resolve(dir, source);
    const own = [sdk, TOOLS].some((home) => file.startsWith(home + path.sep));
    return own ? `sdk:${path.basename(file)}` : path.relative(dir, file);
  });
  return { version: map.version, sources, names: [], mappings: map.mappings };
}

async function component(source, map) {
  const jsSource = `${source}\n;globalThis.__strata_source_map = ${JSON.stringify(JSON.stringify(map))};\n`;
  const world = WORLDS[[...about.exports].sort().join(",")];
  // A directory for the bundle alone: it is all that the engine may read while it loads it.
  const moduleRoot = fs.mkdtempSync(path.join(os.tmpdir(), "strata-js-"));
  const jsPath = path.join(moduleRoot, BUNDLE);
  try {
    fs.writeFileSync(jsPath, jsSource);
    const made = await componentize({ witPath: wit, world, jsSource, jsPath, moduleRoot, sync: true, optSize: true });
    return made.component;
  } catch (error) {
    refuse(located(error.message, new SourceMap(map)));
  } finally {
    fs.rmSync(moduleRoot, { recursive: true });
  }
}

/** What the engine said when it loaded the bundle, in terms of the sources. */
function located(message, map) {
  const text = message.replace(/^.*Failed to finish JavaScript module evaluation: /s, "loading the action: ");
  const lines = text.split("\n").map((line) => {
    const frame = /^(\s*at .*?)\(?\/?bundle\.js:(\d+):(\d+)\)?$/.exec(line);
    if (!frame) return line;
    const { originalSource, originalLine, originalColumn } = map.findEntry(Number(frame[2]) - 1, Number(frame[3]) - 1);
    if (!originalSource || originalSource.startsWith("sdk:")) return undefined;
    return `${frame[1]}(${originalSource}:${originalLine + 1}:${originalColumn + 1})`;
  });
  return lines.filter((line) => line !== undefined).join("\n");
}
