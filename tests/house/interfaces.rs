//! The functions that guests call are found by the names of their interfaces: each interface that the
//! host provides has a file in the sandbox.

use std::collections::BTreeSet;
use std::fs;

use regex::Regex;
use strata_host::sandbox::host_wit::{host_interfaces, parse_host_wit};

use super::{assert_none, files};
use crate::probe::project;

/// The module with a file for each interface.
const INTERFACES: &str = "host/sandbox/src/interfaces";
/// The additional interfaces for interpreters.
const INTERPRETER_WIT: &str = "guest-sdk/interpreter/script.wit";

/// Returns the names of the interfaces with functions that guests can call.
fn interfaces_with_functions() -> BTreeSet<String> {
    let (resolve, package) = parse_host_wit();
    let provided = host_interfaces(&resolve, package).map(|id| &resolve.interfaces[id]);
    let called = provided.filter(|interface| !interface.functions.is_empty());
    let mut names: BTreeSet<String> = called.filter_map(|one| one.name.clone()).collect();
    let text = fs::read_to_string(project().join(INTERPRETER_WIT)).unwrap();
    let declaration = Regex::new(r"(?m)^interface ([\w-]+)").unwrap();
    let declared = declaration.captures_iter(&text);
    names.extend(declared.map(|found| found[1].to_owned()));
    names
}

#[test]
fn each_interface_has_a_file_with_its_name_that_implements_it() {
    let sources = files(&["host/sandbox/src"], |path| {
        path.extension().is_some_and(|extension| extension == "rs")
    });
    let mut missing = interfaces_with_functions();
    let mut broken = Vec::new();
    let implementation = Regex::new(r"impl (\w+)::Host for ").unwrap();
    for source in &sources {
        let implemented = implementation.captures_iter(&source.text);
        let implemented: BTreeSet<&str> = implemented
            .map(|found| found.get(1).unwrap().as_str())
            .collect();
        let place = source.name.trim_end_matches(".rs");
        let expected: BTreeSet<&str> = match place.strip_prefix(INTERFACES) {
            // It has no functions.
            Some("") => BTreeSet::from(["types"]),
            // What is below an interface belongs to it.
            Some(name) if name.matches('/').count() == 1 => {
                let name = name.trim_start_matches('/');
                if !missing.remove(&name.replace('_', "-")) {
                    broken.push(format!("{}: there is no such interface", source.name));
                }
                BTreeSet::from([name])
            }
            _ => BTreeSet::new(),
        };
        if implemented != expected {
            let name = &source.name;
            broken.push(format!(
                "{name}: implements {implemented:?}, not {expected:?}"
            ));
        }
    }
    broken.extend(missing.iter().map(|name| {
        let file = name.replace('-', "_");
        format!("{INTERFACES}/{file}.rs: missing, for the interface `{name}`")
    }));
    assert_none(broken);
}
