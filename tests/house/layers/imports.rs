//! Imports between the files of a crate, read from its sources, and cycles of them.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::house::{Source, files};

/// For each module of a crate that has a file, the other such modules that it imports from.
pub(super) type Imports = BTreeMap<String, BTreeSet<String>>;

/// Returns the path of the module that a file in a directory of sources contains, e.g.
/// `record::event`.
fn module_of(source: &Source, directory: &str) -> String {
    let path = source.name.trim_start_matches(directory);
    path.trim_end_matches(".rs").replace('/', "::")
}

/// Returns all paths in `code` that begin with `crate` or `super`, without groups in braces.
fn relative_paths(code: &str) -> Vec<String> {
    let pattern = Regex::new(r"\b((?:crate|super)(?:::\w+)*)(?:::\{([^{}]*)(.))?").unwrap();
    let mut paths = Vec::new();
    for found in pattern.captures_iter(code) {
        let path = &found[1];
        let Some(items) = found.get(2) else {
            paths.push(path.to_owned());
            continue;
        };
        assert_eq!(&found[3], "}", "a group within a group: {}", &found[0]);
        let items = items.as_str().split(',').map(str::trim);
        for item in items.filter(|item| !item.is_empty()) {
            let name = item.split(' ').next().unwrap_or_default();
            paths.push(format!("{path}::{name}"));
        }
    }
    paths
}

/// Returns the path of a module or an item from the root of the crate, for a path that begins with
/// `crate` or `super` and stands in the file of `module`.
fn absolute_path(module: &str, path: &str) -> Vec<String> {
    let mut absolute: Vec<&str> = module.split("::").collect();
    for segment in path.split("::") {
        match segment {
            "crate" => absolute.clear(),
            "super" => {
                absolute.pop();
            }
            name => absolute.push(name),
        }
    }
    absolute.into_iter().map(str::to_owned).collect()
}

/// Returns the imports of a crate, whose sources are in this directory, without those of its tests.
/// A path refers to the innermost module on it that has a file.
pub(super) fn imports_of(directory: &str) -> Imports {
    let mut sources = files(&[directory], |path| {
        path.extension().is_some_and(|extension| extension == "rs")
            && path.file_name().is_some_and(|name| name != "lib.rs")
    });
    sources.retain(|source| !source.is_test());
    let name = |source: &Source| module_of(source, directory);
    let modules: BTreeSet<String> = sources.iter().map(name).collect();
    let mut imports = Imports::new();
    for source in &sources {
        let module = module_of(source, directory);
        let code: Vec<&str> = source.code().map(|(_, line)| line).collect();
        let mut imported = BTreeSet::new();
        for path in relative_paths(&code.join("\n")) {
            let path = absolute_path(&module, &path);
            let mut prefixes = (1..=path.len()).rev().map(|n| path[..n].join("::"));
            let target = prefixes.find(|prefix| modules.contains(prefix));
            imported.extend(target.filter(|target| *target != module));
        }
        imports.insert(module, imported);
    }
    imports
}

/// Returns whether one of two modules contains the other.
fn is_nested(one: &str, other: &str) -> bool {
    let contains = |outer: &str, inner: &str| {
        let rest = inner.strip_prefix(outer);
        rest.is_some_and(|rest| rest.starts_with("::"))
    };
    contains(one, other) || contains(other, one)
}

/// Returns the modules of cycles of imports and those that depend on them, if there are any. A
/// module and those it contains may import each other.
pub(super) fn find_cycle(imports: &Imports) -> Option<Vec<&str>> {
    // Removes modules that import only removed ones, as long as there are any.
    let mut left: BTreeSet<&str> = imports.keys().map(String::as_str).collect();
    loop {
        let next = left.iter().copied().find(|module| {
            let imported = imports[*module].iter();
            let mut other = imported.filter(|target| !is_nested(module, target));
            !other.any(|target| left.contains(target.as_str()))
        });
        match next {
            Some(module) => left.remove(module),
            None => break,
        };
    }
    (!left.is_empty()).then(|| left.into_iter().collect())
}

#[test]
fn imports_are_found_in_use_declarations_and_in_paths() {
    let code = "use crate::record::id::{\n    RoleId, Slot as Place,\n};\nuse super::Stepper;\n\
        fn f() -> super::super::effect::Effect { crate::text::g() }";
    let found: Vec<String> = relative_paths(code)
        .iter()
        .map(|path| absolute_path("machine::stepper::apply", path).join("::"))
        .collect();
    assert_eq!(
        found,
        [
            "record::id::RoleId",
            "record::id::Slot",
            "machine::stepper::Stepper",
            "machine::effect::Effect",
            "text::g",
        ]
    );
}

#[test]
fn a_cycle_is_found_unless_it_is_of_a_module_and_those_it_contains() {
    let check = |edges: &[(&str, &str)], expected: Option<Vec<&str>>| {
        let mut imports = Imports::new();
        for (from, to) in edges {
            imports.entry((*to).to_owned()).or_default();
            let imported = imports.entry((*from).to_owned()).or_default();
            imported.insert((*to).to_owned());
        }
        assert_eq!(find_cycle(&imports), expected, "{edges:?}");
    };
    check(&[("a", "b"), ("b", "c")], None);
    check(&[("a", "a::b"), ("a::b", "a")], None);
    check(&[("a", "b"), ("b", "a")], Some(vec!["a", "b"]));
    check(
        &[("a", "b"), ("b", "c"), ("c", "a")],
        Some(vec!["a", "b", "c"]),
    );
}
