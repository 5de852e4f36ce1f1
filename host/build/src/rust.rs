//! Builds Rust actions: cargo compiles the core module, in a target directory that no other cargo
//! run locks, and `component` makes the component from it.

use super::cargo::{CargoPackage, CompileTarget};
use super::sources::parse_make_rule;
use super::{BuildError, Built, cache, component, toolchain, with_path};
use std::fs;
use std::path::{Path, PathBuf};

/// Builds the package in `dir`.
pub fn build(dir: &Path, report: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    let package = CargoPackage::read(dir)?;
    // Below the workspace's own `target`, which is ignored by git and cleaned with it, but separate
    // from it: a host's `cargo test` that builds guests must not wait for its own lock.
    let target_dir = package.workspace.join("target").join("guest");
    with_path(&target_dir, fs::create_dir_all(&target_dir))?;
    let component = target_dir.join(&package.name).with_extension("wasm");
    // Until the output of cargo has been read, no other build of the same package may replace it.
    let _lock = cache::lock(&target_dir.join(&package.name).with_extension("lock"))?;

    let target = CompileTarget {
        dir: target_dir,
        toolchain: toolchain::find_or_install(dir, report)?,
    };
    let module = package.compile(&target, report)?;
    if is_up_to_date(&component, &module) {
        return Ok(Built {
            component,
            fresh: true,
        });
    }
    component::write_component(&module, package.line_tables, &component)?;
    Ok(Built {
        component,
        fresh: false,
    })
}

/// Returns whether cargo and a compiler for guests are installed.
pub fn is_set_up() -> bool {
    super::cargo::is_installed() && toolchain::find_installed().is_some()
}

/// Returns the files outside of its directory that a package was built from, such as other packages
/// of its workspace. Returns none before the first build.
pub fn external_inputs(dir: &Path) -> Vec<PathBuf> {
    let Ok(package) = CargoPackage::read(dir) else {
        return Vec::new();
    };
    let artifact = package
        .workspace
        .join("target")
        .join("guest")
        .join(toolchain::TARGET)
        .join("release");
    // Cargo writes the inputs as a makefile rule beside its output.
    let rule = fs::read_to_string(
        artifact
            .join(package.name.replace('-', "_"))
            .with_extension("d"),
    )
    .unwrap_or_default();
    parse_make_rule(&rule)
        .into_iter()
        .filter(|file| !file.starts_with(dir))
        .collect()
}

/// Returns whether the component is up to date: it is newer than the module, which cargo leaves
/// alone if nothing has changed.
fn is_up_to_date(component: &Path, module: &Path) -> bool {
    let time = |path: &Path| {
        fs::metadata(path)
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    match (time(component), time(module)) {
        (Some(component), Some(module)) => component >= module,
        _ => false,
    }
}
