// Builds a component from an action: checks TypeScript, bundles the source with its imports, and combines the bundle
// with an engine. `strata-host build` runs it with one argument, a JSON object with the keys `dir` (the directory of the
// action), `entry` (the source file, relative to `dir`), `out` (the component to write), `inputs` (the file to which
// the list of source files is written), `about` (the contents of package.json), `sdk` and `wit` (their directories), and
// `interpreter` (the directory of the interfaces that only interpreters of scripts import, or null for an action). Errors
// are written to stderr as `file:line:column`.

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

const { dir: given, entry, out, inputs, about, sdk: kit, wit, interpreter } = JSON.parse(process.argv[2]);
// The bundler resolves symbolic links in the names of files.
const [dir, sdk] = [given, kit].map((directory) => fs.realpathSync(directory));

const OWN_CONFIG = path.join(dir, "tsconfig.json");
const NO_NODE = "Actions do not run in node; `@strata/action` has `files`, `env`, `http`, `clock` and `random`.";
/** Advice of the compiler that does not apply to actions, and its replacements. */
const REPLACED_ADVICE = [
  [/Do you need to install type definitions for (node|Bun)\?.*/g, NO_NODE],
  [/Do you need to install type definitions for jQuery\?.*/g, "Actions do not run in a browser."],
  [/Do you need to change your target library\? Try changing the 'lib' compiler option to include 'dom'\./g,
    "Actions do not run in a browser."],
];

try {
  if (/\.[mc]?ts$/.test(entry)) check();
  const { source, map, files } = await bundle();
  fs.writeFileSync(inputs, files.join("\n"));
  fs.writeFileSync(out, await component(source, map));
} catch (error) {
  console.error(error.report ?? error.stack);
  process.exitCode = 1;
}

/** Throws an error whose report is shown without a stack. */
function fail(report) {
  throw Object.assign(new Error(report), { report: report.trimEnd() });
}

/** Checks the types with the action's tsconfig.json, if it has one. Those of parent directories are ignored. */
function check() {
  const compiler = path.join(TOOLS, "typescript/bin/tsc");
  const settings = fs.existsSync(OWN_CONFIG)
    ? ["--project", OWN_CONFIG]
    : ["--ignoreConfig", "--strict", "--target", "es2023", "--lib", "es2023", "--module", "esnext", "--moduleResolution", "bundler",
       "--allowImportingTsExtensions", "--skipLibCheck", "--types", "@strata/action/globals", entry];
  const done = spawnSync(process.execPath, [compiler, "--noEmit", "--pretty", "false", ...settings], { cwd: dir, encoding: "utf8" });
  if (done.status === 0) return;
  const report = (done.stdout + done.stderr).replace(/^(\S+?)\((\d+),(\d+)\): /gm, "$1:$2:$3: ");
  fail(REPLACED_ADVICE.reduce((text, [advice, instead]) => text.replace(advice, instead), report) || String(done.error));
}

/**
 * Imports the source of a package, for `import text from "source:NAME"`: the body of a function that returns its exports.
 * Code that few calls need would otherwise take up memory in all of them.
 */
function sources() {
  const resolve = ({ path: name }) => ({ path: name.slice("source:".length), namespace: "source" });
  const load = async ({ path: name }) => {
    const { outputFiles } = await esbuild.build({
      stdin: { contents: `export * from ${JSON.stringify(name)}`, resolveDir: TOOLS },
      write: false,
      bundle: true,
      minify: true,
      format: "iife",
      globalName: "exported",
      footer: { js: "return exported" },
      platform: "neutral",
      mainFields: ["module", "main"],
      target: "es2023",
      legalComments: "none",
      charset: "utf8",
      logLevel: "silent",
    });
    return { contents: outputFiles[0].text, loader: "text" };
  };
  return {
    name: "sources",
    setup(build) {
      build.onResolve({ filter: /^source:/ }, resolve);
      build.onLoad({ filter: /./, namespace: "source" }, load);
    },
  };
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
      // The engine does not run jobs of its own promises during a call. If async functions are not supported, esbuild
      // generates code that uses the global `Promise`, which is that of `promises.js`.
      supported: { "async-await": false, "async-generator": false, "for-await": false },
      external: ["strata:*"],
      plugins: [sources()],
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
      if (!errors) fail(message);
      fail((await esbuild.formatMessages(errors.map(explain), { kind: "error" })).join("\n"));
    });
  const [map, source] = [".map", ""].map((end) => result.outputFiles.find((file) => file.path.endsWith(BUNDLE + end)).text);
  return { source, map: relativeMap(JSON.parse(map)), files: ownFiles(result.metafile) };
}

/** Returns the files of a bundle, except those of the SDK and of packages, whose versions are in other files. */
function ownFiles({ inputs }) {
  const files = Object.keys(inputs).filter((file) => !file.startsWith("<")).map((file) => path.resolve(dir, file));
  const isExcluded = (file) => file.startsWith(sdk + path.sep) || file.split(path.sep).includes("node_modules");
  return files.filter((file) => !isExcluded(file));
}

/** Returns an error of the bundler in terms of the author's sources. */
function explain(error) {
  // The generated entry point imports the default export, so the location is not in the author's source.
  if (!/No matching export .* for import "default"/.test(error.text)) return { ...error, notes: error.notes.flatMap(note) };
  return { ...error, location: null, notes: [], text: `\`${entry}\` has no \`export default action({ run(cx) { … } })\`` };
}

/** Returns the notes to show for a note. Notes without a location are about settings that an author cannot change. */
function note({ text, location }) {
  if (location) return [{ text, location }];
  if (text.includes("built into node")) return [{ text: NO_NODE }];
  return text.includes("mark the path") ? [{ text: "Add the package to `dependencies` in package.json." }] : [];
}

/** Makes the sources of the action relative to it, and marks those of the SDK, which traces leave out, with `sdk:`. */
function relativeMap(map) {
  const sources = map.sources.map((source) => {
    const file = path.resolve(dir, source);
    const own = [sdk, TOOLS].some((home) => file.startsWith(home + path.sep));
    return own ? `sdk:${path.basename(file)}` : path.relative(dir, file);
  });
  return { version: map.version, sources, names: [], mappings: map.mappings };
}

async function component(source, map) {
  const jsSource = `${source}\n;globalThis.__strata_source_map = ${JSON.stringify(JSON.stringify(map))};\n`;
  const world = interpreter ? "interpreter" : WORLDS[[...about.exports].sort().join(",")];
  const temporary = fs.mkdtempSync(path.join(os.tmpdir(), "strata-js-"));
  // The engine can read this directory while it loads the bundle, so it contains only the bundle.
  const moduleRoot = path.join(temporary, "bundle");
  const jsPath = path.join(moduleRoot, BUNDLE);
  try {
    fs.mkdirSync(moduleRoot);
    fs.writeFileSync(jsPath, jsSource);
    const witPath = interpreter ? interpreterInterfaces(path.join(temporary, "wit")) : wit;
    const built = await componentize({ witPath, world, jsSource, jsPath, moduleRoot, sync: true, optSize: true });
    return built.component;
  } catch (error) {
    fail(locateFrames(error.message, new SourceMap(map)));
  } finally {
    fs.rmSync(temporary, { recursive: true });
  }
}

/** Creates a directory with the interfaces of an interpreter and, as their dependency, those of all actions. Returns it. */
function interpreterInterfaces(directory) {
  fs.cpSync(interpreter, directory, { recursive: true });
  fs.cpSync(wit, path.join(directory, "deps/action"), { recursive: true });
  return directory;
}

/** Converts an error of loading the bundle to one whose frames refer to the sources. */
function locateFrames(message, map) {
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
