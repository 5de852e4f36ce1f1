//! The layers of the core and of the host, read from their sources: no file imports from a later
//! layer, and no files import each other in a cycle. What goes against that is listed here, with the
//! reason; `ARCHITECTURE.md` explains it.

mod imports;

use super::assert_none;
use imports::{Imports, find_cycle, imports_of};

/// The directory of the core's sources.
const CORE: &str = "host/core/src/";
/// The layers of the core, each of which may import from itself and from those before it. `team` is
/// no layer of its own: it is the definition that the state and the machine refer to.
const CORE_LAYERS: &[&[&str]] = &[&["text"], &["record"], &["team"], &["state"], &["machine"]];

/// The directories of the sources of the crates between the core and the host. What each of them may
/// use of the others is in its `Cargo.toml`.
const LOWER_CRATES: &[&str] = &["host/base/src/", "host/storage/src/", "host/team-json/src/"];

/// The directory of the host's sources.
const HOST: &str = "host/src/";
/// The layers of the host.
const HOST_LAYERS: &[&[&str]] = &[
    // What knows nothing of teams.
    &["difference", "embedded", "serialize_name", "tool_name"],
    &["public_event", "telemetry"],
    &["bundle", "metrics", "trust"],
    &["sandbox"],
    &["build", "interface", "scaffold", "skills"],
    &["manifest"],
    &["driver", "graph"],
    // What is loaded is shown, and what is shown is loaded.
    &["launch", "replay", "report", "view", "wording"],
    &["doctor", "live", "worker"],
];

/// An import that goes against the order of the files.
struct Exception {
    from: &'static str,
    to: &'static str,
}

const fn exception(from: &'static str, to: &'static str) -> Exception {
    Exception { from, to }
}

/// Imports from a later layer.
const LAYER_EXCEPTIONS: &[Exception] = &[];

/// Imports without which there would be no cycles.
const CYCLE_EXCEPTIONS: &[Exception] = &[
    // A table may contain tables, whose readers know the same kinds of values and hints.
    exception("manifest::authored", "manifest::models"),
    exception("manifest::names", "manifest::authored"),
    // The schema is described by the same calls that read the tables, and errors point to it.
    exception("manifest::schema", "manifest::authored"),
    exception("manifest::schema", "manifest::diagnostic"),
    exception("manifest::schema", "manifest::operator"),
    exception("manifest::schema", "manifest::replies"),
    exception("manifest::schema", "manifest::table"),
    // The host functions are implemented for the data of the store, which contains the state of
    // each of them.
    exception("sandbox::capability", "sandbox::ctx"),
    exception("sandbox::capability::wasi", "sandbox::ctx"),
    exception("sandbox::media", "sandbox::ctx"),
    // A loaded component can be called, and a call has a loaded component.
    exception("sandbox::component", "sandbox::attempt"),
    exception("sandbox::convert", "sandbox::component"),
    // The settings of a model name its protocol, and its protocol reads the settings.
    exception("services::endpoint", "services::models::config"),
    exception("services::models::protocol", "services::models::config"),
    // Providers answer calls with the types of the registry, which contains the providers.
    exception(
        "services::models::reply_check",
        "services::models::endpoint",
    ),
    exception(
        "services::models::endpoint::retry",
        "services::models::endpoint::failure",
    ),
];

/// Returns the position of a module's layer, or `None` if it belongs to none.
fn layer_of(layers: &[&[&str]], module: &str) -> Option<usize> {
    let top = module.split("::").next()?;
    layers.iter().position(|layer| layer.contains(&top))
}

/// Returns the imports that are not of the same or an earlier layer, and not among the exceptions.
fn imports_from_later_layers(
    imports: &Imports,
    layers: &[&[&str]],
    exceptions: &[Exception],
) -> Vec<String> {
    let mut broken = Vec::new();
    for (module, imported) in imports {
        let Some(layer) = layer_of(layers, module) else {
            broken.push(format!("{module}: belongs to no layer"));
            continue;
        };
        for target in imported {
            let is_later = layer_of(layers, target).is_some_and(|other| other > layer);
            let is_known = |known: &Exception| known.from == module && known.to == target;
            if is_later && !exceptions.iter().any(is_known) {
                broken.push(format!("{module}: imports from {target}"));
            }
        }
    }
    broken
}

/// Removes imports. Fails if one of them does not exist.
fn remove(imports: &mut Imports, exceptions: &[Exception]) {
    for Exception { from, to } in exceptions {
        let removed = imports.get_mut(*from).is_some_and(|of| of.remove(*to));
        assert!(removed, "{from} does not import from {to} any more");
    }
}

fn assert_no_cycle(imports: &Imports) {
    if let Some(cycle) = find_cycle(imports) {
        panic!("these modules import each other, directly or indirectly: {cycle:?}");
    }
}

#[test]
fn no_layer_of_the_core_imports_from_a_later_one() {
    assert_none(imports_from_later_layers(
        &imports_of(CORE),
        CORE_LAYERS,
        &[],
    ));
}

#[test]
fn files_of_the_core_do_not_import_each_other_in_a_cycle() {
    assert_no_cycle(&imports_of(CORE));
}

#[test]
fn files_of_the_crates_below_the_host_do_not_import_each_other_in_a_cycle() {
    for directory in LOWER_CRATES {
        assert_no_cycle(&imports_of(directory));
    }
}

#[test]
fn no_layer_of_the_host_imports_from_a_later_one() {
    let imports = imports_of(HOST);
    assert_none(imports_from_later_layers(
        &imports,
        HOST_LAYERS,
        LAYER_EXCEPTIONS,
    ));
}

#[test]
fn files_of_the_host_do_not_import_each_other_in_a_cycle() {
    let mut imports = imports_of(HOST);
    remove(&mut imports, LAYER_EXCEPTIONS);
    remove(&mut imports, CYCLE_EXCEPTIONS);
    assert_no_cycle(&imports);
}
