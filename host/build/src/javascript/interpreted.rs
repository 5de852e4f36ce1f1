//! Decides whether the source of an action in JavaScript or TypeScript can be run by the interpreter of
//! scripts, which needs no build, and reads it.
//!
//! The decision depends only on the files, so that it is the same on every machine, and before anything
//! is run. The modules are not parsed here. Whatever looks as if only a bundler could do it demands a
//! build, so comments may demand one needlessly. Types are removed, and checked only by a build.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use strata_base::files::open;
use strata_sandbox::{ModuleFile, ScriptFile, ScriptModules, ScriptSource};
use strata_services::plugin::script::{MAX_SCRIPT_BYTES, ScriptLanguage};

use super::package::{MANIFEST, NodePackage};
use crate::{BuildError, SourceUse, with_path};

/// The name with which actions import the SDK.
const SDK_NAME: &str = "@strata/action";
/// The settings of the compiler and of the bundler.
const SETTINGS: &str = "tsconfig.json";
/// The settings that change what imports mean or what code does.
const BUNDLER_SETTINGS: [&str; 6] = [
    "baseUrl",
    "experimentalDecorators",
    "extends",
    "paths",
    "rootDirs",
    "useDefineForClassFields",
];
/// What the bundler appends to the name of a module to find its file, in this order.
const ENDINGS: [&str; 5] = ["", ".ts", ".js", "/index.ts", "/index.js"];
/// Source files in TypeScript are imported with the names of the files that a compiler would write.
const COMPILED_ENDINGS: [(&str, &str); 2] = [(".js", ".ts"), (".mjs", ".mts")];
/// What modules may contain that only a bundler can do, and its name.
const BUNDLED: [(&str, &str); 8] = [
    (
        r"\brequire\s*\(|\bmodule\.exports\b|^\s*exports\.",
        "modules of CommonJS",
    ),
    (
        r"\bfor\s+await\b|\basync\s*\*|\basync\s+function\s*\*",
        "asynchronous generators",
    ),
    (r"\bimport\.meta\b", "`import.meta`"),
    (r"^\s*@[A-Za-z_(]", "decorators"),
    (
        r"^\s*(?:export\s+)?(?:declare\s+)?(?:namespace|module)\s+[\w.]+\s*\{",
        "namespaces",
    ),
    (
        r"^\s*(?:export\s+)?import\s+\w+\s*=|^\s*export\s*=",
        "modules of CommonJS",
    ),
    (r"^\s*(?:await\s+)?using\s+\w+\s*=", "`using`"),
    // What imports such a variable would keep the value that it had then.
    (
        r"\bexport\s+(?:let|var)\b",
        "exports of variables that can change",
    ),
];

/// Returns how the source in a directory is run.
pub fn source_use(dir: &Path) -> Result<SourceUse, BuildError> {
    let package = NodePackage::read(dir)?;
    let modules = match read_modules(dir, &package)? {
        Ok(modules) => modules,
        Err(because) => {
            return Ok(SourceUse::Built {
                because: Some(because),
            });
        }
    };
    let named = [MANIFEST, SETTINGS].map(|name| dir.join(name));
    Ok(SourceUse::Interpreted {
        language: ScriptLanguage::JavaScript,
        files: modules
            .iter()
            .map(|module| dir.join(&module.path))
            .chain(named.into_iter().filter(|path| path.is_file()))
            .collect(),
        script: ScriptFile {
            name: package.name,
            source: ScriptSource::Modules(ScriptModules {
                module: package.entry,
                version: package.version,
                description: package.description,
                files: modules,
            }),
        },
    })
}

/// Returns the modules that the entry point imports, directly or not, sorted by their paths. The inner
/// error says why they have to be built.
fn read_modules(
    dir: &Path,
    package: &NodePackage,
) -> Result<Result<Vec<ModuleFile>, String>, BuildError> {
    if !package.dependencies.is_empty() {
        let listed = package.dependencies.join("`, `");
        return Ok(Err(format!("it needs packages (`{listed}`)")));
    }
    let settings = dir.join(SETTINGS);
    if settings.is_file() {
        let text = with_path(&settings, open::read_to_string(&settings))?;
        let is_set = |key: &&&str| text.contains(&format!("\"{key}\""));
        if let Some(key) = BUNDLER_SETTINGS.iter().find(is_set) {
            return Ok(Err(format!("its `{SETTINGS}` sets `{key}`")));
        }
    }
    let mut modules: BTreeMap<String, ModuleFile> = BTreeMap::new();
    let mut bytes = 0;
    let mut open = vec![package.entry.clone()];
    while let Some(path) = open.pop() {
        if modules.contains_key(&path) {
            continue;
        }
        let file = dir.join(&path);
        let text = with_path(&file, open::read_to_string(&file))?;
        bytes += text.len() as u64;
        if bytes > MAX_SCRIPT_BYTES {
            return Ok(Err(format!("it has more than {MAX_SCRIPT_BYTES} bytes")));
        }
        // No part of the program.
        let text = text.trim_start_matches('\u{feff}').to_owned();
        let module = match read_module(dir, path.clone(), text) {
            Ok(module) => module,
            Err(because) => return Ok(Err(because)),
        };
        open.extend(module.imports.values().cloned());
        modules.insert(path, module);
    }
    if has_cycle(&modules) {
        return Ok(Err("its modules import each other in a circle".into()));
    }
    Ok(Ok(modules.into_values().collect()))
}

/// Returns a module with the files that it imports. The error says why it has to be built.
fn read_module(dir: &Path, path: String, text: String) -> Result<ModuleFile, String> {
    static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let all = BUNDLED.map(|(pattern, what)| {
            let pattern = Regex::new(&format!("(?m){pattern}"));
            (pattern.expect("it is valid"), what)
        });
        all.into()
    });
    static IMPORTS: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r#"\b(?:from|import)\s*\(?\s*(?:"([^"\n]+)"|'([^'\n]+)')"#;
        Regex::new(pattern).expect("it is valid")
    });
    if ScriptLanguage::from_path(Path::new(&path)) != Some(ScriptLanguage::JavaScript) {
        return Err(format!("it imports `{path}`"));
    }
    if let Some((_, what)) = PATTERNS.iter().find(|(pattern, _)| pattern.is_match(&text)) {
        return Err(format!("`{path}` has {what}"));
    }
    let mut imports = BTreeMap::new();
    for found in IMPORTS.captures_iter(&text) {
        let named = found.get(1).or(found.get(2));
        let name = named.map_or("", |named| named.as_str());
        if name == SDK_NAME {
            continue;
        }
        let file = find_module(dir, &path, name);
        let file = file.ok_or_else(|| format!("`{path}` imports `{name}`"))?;
        imports.insert(name.to_owned(), file);
    }
    Ok(ModuleFile {
        path,
        text,
        imports,
    })
}

/// Returns the path of the file that a module imports with this name, if it is in the directory.
fn find_module(dir: &Path, importing: &str, name: &str) -> Option<String> {
    if !name.starts_with("./") && !name.starts_with("../") {
        return None;
    }
    let base = Path::new(importing).parent().unwrap_or(Path::new(""));
    let mut path = PathBuf::new();
    for part in base.join(name).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::ParentDir if path.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    let path = path.to_str()?.to_owned();
    let appended = ENDINGS.iter().map(|ending| format!("{path}{ending}"));
    let replaced = COMPILED_ENDINGS.iter().filter_map(|(compiled, source)| {
        let stem = path.strip_suffix(compiled)?;
        Some(format!("{stem}{source}"))
    });
    let mut candidates = appended.chain(replaced);
    candidates.find(|path| dir.join(path).is_file())
}

/// Returns whether a module imports itself, directly or not.
fn has_cycle(modules: &BTreeMap<String, ModuleFile>) -> bool {
    // Modules that import nothing but modules which were removed before are removed. If that ends before
    // all are, the rest has a cycle.
    let mut left: Vec<&ModuleFile> = modules.values().collect();
    loop {
        let before = left.len();
        let names: Vec<&str> = left.iter().map(|module| &*module.path).collect();
        left.retain(|module| {
            let mut imported = module.imports.values();
            imported.any(|path| names.contains(&path.as_str()))
        });
        if left.is_empty() || left.len() == before {
            return !left.is_empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::read_modules;

    /// Checks a directory with an entry point in JavaScript, and these other files.
    #[track_caller]
    fn check(entry: &str, others: &[(&str, &str)], expected: Result<&[&str], &str>) {
        let own = [("package.json", "{}"), ("src/action.js", entry)];
        let files: Vec<_> = own.iter().chain(others).copied().collect();
        let found = read_modules(&files);
        let found: Result<Vec<&str>, &str> = match &found {
            Ok(paths) => Ok(paths.iter().map(String::as_str).collect()),
            Err(why) => Err(why),
        };
        match (found, expected) {
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{entry}: {why}"),
            (found, expected) => assert_eq!(found, expected.map(<[_]>::to_vec), "{entry}"),
        }
    }

    #[test]
    fn modules_that_the_entry_point_imports_are_interpreted_and_other_files_do_not_count() {
        let beside = [
            ("tests/data.json", ""),
            ("eslint.config.js", "require('x')"),
            ("README.md", ""),
            (
                "tsconfig.json",
                "{ \"compilerOptions\": { \"strict\": true } }",
            ),
        ];
        let entry = "import { action } from \"@strata/action\";";
        check(entry, &beside, Ok(&["src/action.js"]));
        check(
            "import { a } from './a'\nimport './b/index.js'; export * from \"../c.js\"; import(\"./d\")",
            &[
                ("src/a.ts", "import type { B } from './b'"),
                ("src/b/index.js", ""),
                ("c.ts", ""),
                ("src/d/index.ts", ""),
            ],
            Ok(&[
                "c.ts",
                "src/a.ts",
                "src/action.js",
                "src/b/index.js",
                "src/d/index.ts",
            ]),
        );
    }

    #[test]
    fn what_only_a_bundler_can_do_demands_a_build() {
        let cases = [
            (
                "import x from 'slugify'",
                "`src/action.js` imports `slugify`",
            ),
            ("import fs from 'node:fs'", "imports `node:fs`"),
            (
                "import x from '../../shared/words.js'",
                "imports `../../shared/words.js`",
            ),
            ("import x from './data.json'", "it imports `src/data.json`"),
            ("const x = require('./a.js')", "modules of CommonJS"),
            ("module.exports = {}", "modules of CommonJS"),
            ("for await (const x of y) {}", "asynchronous generators"),
            ("@logged\nclass A {}", "decorators"),
            ("export let count = 0", "variables that can change"),
            ("import './round.js'", "in a circle"),
        ];
        let others = [
            ("src/data.json", "{}"),
            ("src/round.js", "import './action.js'"),
        ];
        for (entry, expected) in cases {
            check(entry, &others, Err(expected));
        }
        let large = format!("const a = '{}'", "a".repeat(1 << 20));
        check(&large, &[], Err("1048576 bytes"));
        let settings = "{ \"compilerOptions\": { \"paths\": {} } }";
        check("", &[("tsconfig.json", settings)], Err("sets `paths`"));
        let package = r#"{ "dependencies": { "slugify": "1" } }"#;
        let own = [("package.json", package), ("action.js", "")];
        assert_eq!(
            read_modules(&own),
            Err("it needs packages (`slugify`)".into())
        );
    }
}
