//! The layers of the core and of the host, read from their sources: no file imports from a later
//! layer, and no files import each other in a cycle. What goes against that is listed here, with the
//! reason; `ARCHITECTURE.md` explains it.

mod imports;

use std::fs;
use std::path::Path;

use super::assert_none;
use crate::probe::project;
use imports::{Imports, find_cycle, imports_of};

/// The directory of the core's sources.
const CORE: &str = "host/core/src/";
/// The layers of the core, each of which may import from itself and from those before it. `team` is
/// no layer of its own: it is the definition that the state and the machine refer to.
const CORE_LAYERS: &[&[&str]] = &[&["text"], &["record"], &["team"], &["state"], &["machine"]];

/// A crate of the host, and the imports without which there would be no cycles in it.
struct HostCrate {
    sources: &'static str,
    exceptions: &'static [Import],
}

/// The crates above the core. What each of them may use of the others is in its `Cargo.toml`.
const HOST_CRATES: &[HostCrate] = &[
    HostCrate {
        sources: HOST,
        exceptions: &[],
    },
    HostCrate {
        sources: "host/base/src/",
        exceptions: &[],
    },
    HostCrate {
        sources: "host/build/src/",
        exceptions: &[],
    },
    HostCrate {
        sources: "host/driver/src/",
        exceptions: &[],
    },
    HostCrate {
        sources: "host/manifest/src/",
        exceptions: &[
            // A table may contain tables, whose readers know the same kinds of values and hints.
            import("authored", "models"),
            import("names", "authored"),
            // The schema is described by the same calls that read the tables, and errors point to it.
            import("schema", "authored"),
            import("schema", "diagnostic"),
            import("schema", "operator"),
            import("schema", "replies"),
            import("schema", "table"),
        ],
    },
    HostCrate {
        sources: "host/postgres/src/",
        exceptions: &[],
    },
    HostCrate {
        sources: "host/records/src/",
        exceptions: &[],
    },
    HostCrate {
        sources: "host/report/src/",
        exceptions: &[],
    },
    HostCrate {
        sources: "host/sandbox/src/",
        exceptions: &[
            // A loaded component can be called, and a call has a loaded component.
            import("component", "attempt"),
        ],
    },
    HostCrate {
        sources: "host/server/src/",
        exceptions: &[
            // What a server has under way is part of its state, and works on that state.
            import("streams::model_text", "server"),
            import("streams::sse", "server"),
        ],
    },
    HostCrate {
        sources: "host/services/src/",
        exceptions: &[
            // The settings of a model name its protocol, and its protocol reads the settings.
            import("endpoint", "models::config"),
            import("models::protocol", "models::config"),
            // Providers answer calls with the types of the registry, which contains the providers.
            import("models::reply_check", "models::endpoint"),
            import("models::endpoint::retry", "models::endpoint::failure"),
        ],
    },
    HostCrate {
        sources: "host/storage/src/",
        exceptions: &[],
    },
    HostCrate {
        sources: "host/team-json/src/",
        exceptions: &[],
    },
    HostCrate {
        sources: "host/view/src/",
        exceptions: &[],
    },
];

/// The directory of the sources of the host's own crate.
const HOST: &str = "host/src/";
/// Its layers.
const HOST_LAYERS: &[&[&str]] = &[
    &["bundle", "difference", "storage_mark"],
    &["launch"],
    &[
        "doctor",
        "live",
        "mcp_server",
        "operate",
        "prebuild",
        "worker",
    ],
];

/// An import from one module to another.
struct Import {
    from: &'static str,
    to: &'static str,
}

const fn import(from: &'static str, to: &'static str) -> Import {
    Import { from, to }
}

/// Returns the position of a module's layer, or `None` if it belongs to none.
fn layer_of(layers: &[&[&str]], module: &str) -> Option<usize> {
    let top = module.split("::").next()?;
    layers.iter().position(|layer| layer.contains(&top))
}

/// Returns the imports that are not of the same or an earlier layer.
fn imports_from_later_layers(imports: &Imports, layers: &[&[&str]]) -> Vec<String> {
    let mut broken = Vec::new();
    for (module, imported) in imports {
        let Some(layer) = layer_of(layers, module) else {
            broken.push(format!("{module}: belongs to no layer"));
            continue;
        };
        let is_later =
            |target: &&String| layer_of(layers, target).is_some_and(|other| other > layer);
        let later = imported.iter().filter(is_later);
        broken.extend(later.map(|target| format!("{module}: imports from {target}")));
    }
    broken
}

/// Removes imports. Fails if one of them does not exist.
fn remove(imports: &mut Imports, exceptions: &[Import]) {
    for Import { from, to } in exceptions {
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
    assert_none(imports_from_later_layers(&imports_of(CORE), CORE_LAYERS));
}

#[test]
fn no_layer_of_the_host_imports_from_a_later_one() {
    assert_none(imports_from_later_layers(&imports_of(HOST), HOST_LAYERS));
}

#[test]
fn files_of_a_crate_do_not_import_each_other_in_a_cycle() {
    assert_no_cycle(&imports_of(CORE));
    for HostCrate {
        sources,
        exceptions,
    } in HOST_CRATES
    {
        let mut imports = imports_of(sources);
        remove(&mut imports, exceptions);
        assert_no_cycle(&imports);
    }
}

#[test]
fn every_crate_of_the_host_is_checked() {
    let lists = |place: &Path| {
        let place = place.strip_prefix(project()).unwrap().join("src/");
        let place = place.to_string_lossy().into_owned();
        let of_host = HOST_CRATES.iter().any(|one| one.sources == place);
        of_host || [CORE, "host/cli/src/"].contains(&&*place)
    };
    let packages = fs::read_dir(project().join("host")).unwrap();
    let packages = packages.map(|entry| entry.unwrap().path());
    let packages = packages.filter(|path| path.join("Cargo.toml").exists());
    let missing = packages.filter(|path| !lists(path));
    assert_none(missing.map(|path| path.display().to_string()).collect());
}
