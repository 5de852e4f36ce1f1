//! Builds JavaScript and TypeScript actions: the source and its imports become one bundle, and the
//! bundle and QuickJS for WebAssembly become a component. The script that does this ships with the
//! SDK.
//!
//! `package` reads `package.json`; `tools` installs the tools and the packages; `interpreted` decides
//! whether an action needs a build.

mod interpreted;
mod package;
pub mod tools;

use super::sdk::{INTERPRETER_WIT, JAVASCRIPT, JAVASCRIPT_TOOLS, WIT};
use super::sources::{BuildOutput, SourceKind, component_path, fingerprint};
use super::{BuildError, Built, component, tool, with_path};
pub use interpreted::source_use;
use package::NodePackage;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Where node, editors and the type checker look for the SDK.
const SDK_LINK: &str = "node_modules/@strata/action";
/// Where npm's scripts look for esbuild, which removes the types from tests.
const BUNDLER_LINK: &str = "node_modules/.bin/esbuild";

/// Builds the action in `dir`.
pub fn build(dir: &Path, report: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    build_source(SourceKind::Action, dir, report)
}

/// Builds the interpreter of scripts in `dir`.
pub fn build_interpreter(dir: &Path, report: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    build_source(SourceKind::Interpreter, dir, report)
}

/// Returns the component that was built from the present source in `dir`, if there is one.
pub fn up_to_date_component(dir: &Path) -> Result<Option<PathBuf>, BuildError> {
    let package = NodePackage::read(dir)?;
    if !component_path(dir, &package.file_name()).is_file() {
        return Ok(None);
    }
    let output = BuildOutput::lock(dir, &package.file_name())?;
    Ok(output.up_to_date_component(&fingerprint_of(dir)?))
}

/// Returns the fingerprint of everything that a component is made from.
fn fingerprint_of(dir: &Path) -> Result<String, BuildError> {
    let also = [
        &WIT.digest(),
        &INTERPRETER_WIT.digest(),
        &JAVASCRIPT.digest(),
        &JAVASCRIPT_TOOLS.digest(),
    ];
    fingerprint(dir, &also.map(|digest| &**digest))
}

fn build_source(
    kind: SourceKind,
    dir: &Path,
    report: &mut dyn FnMut(&str),
) -> Result<Built, BuildError> {
    let package = NodePackage::read(dir)?;
    let output = BuildOutput::lock(dir, &package.file_name())?;
    let fingerprint = fingerprint_of(dir)?;
    if let Some(component) = output.up_to_date_component(&fingerprint) {
        return Ok(Built {
            component,
            fresh: true,
        });
    }
    let tools = tools::ensure_tools(report)?;
    if !package.dependencies.is_empty() {
        tools::install_packages(dir, &package, report)?;
    }
    let sdk = JAVASCRIPT.unpack()?;
    link_to_cache(&sdk, &dir.join(SDK_LINK))?;
    if package.is_typescript() {
        link_to_cache(&tools.join(BUNDLER_LINK), &dir.join(BUNDLER_LINK))?;
    }
    report(&format!("building {}", package.name));
    let job = json!({
        "dir": dir,
        "entry": package.entry,
        "about": package.metadata(),
        "sdk": sdk,
        "wit": WIT.unpack()?,
        "interpreter": match kind {
            SourceKind::Action => None,
            SourceKind::Interpreter => Some(INTERPRETER_WIT.unpack()?),
        },
    });
    let inputs = componentize(dir, &tools, job, &output.temporary_path())?;
    Ok(Built {
        component: output.install(&fingerprint, &inputs)?,
        fresh: false,
    })
}

/// Makes the component at `to`, and returns the files that it was made from, except for those of
/// the SDK and of packages. `build.mjs` describes the keys of `job`.
fn componentize(
    dir: &Path,
    tools: &Path,
    mut job: Value,
    to: &Path,
) -> Result<Vec<PathBuf>, BuildError> {
    let list = to.with_extension("inputs");
    job["out"] = json!(to);
    job["inputs"] = json!(list);
    let mut command = tools::node_command();
    command
        .current_dir(dir)
        .arg(tools.join("build.mjs"))
        .arg(job.to_string());
    let ended = tool::run(&mut command).map_err(tools::node_missing)?;
    let refused = |details: String| BuildError::Compile {
        dir: dir.to_owned(),
        details,
    };
    if !ended.success {
        return Err(refused(ended.details.trim_end().to_owned()));
    }
    if component::is_action(&with_path(to, fs::read(to))?) {
        let inputs = with_path(&list, fs::read_to_string(&list))?
            .lines()
            .map(PathBuf::from)
            .collect();
        with_path(&list, fs::remove_file(&list))?;
        Ok(inputs)
    } else {
        Err(refused(
            "the component that componentize-qjs made is no action".into(),
        ))
    }
}

/// Creates a symbolic link to a path in the cache in an action's directory. What the author put
/// there is left alone: a file or directory, or a relative link, which is npm's.
fn link_to_cache(cached: &Path, link: &Path) -> Result<(), BuildError> {
    match fs::read_link(link) {
        Ok(leads_to) if leads_to == cached => return Ok(()),
        Ok(leads_to) if leads_to.is_relative() && link.exists() => return Ok(()),
        Ok(_) => with_path(link, fs::remove_file(link))?,
        Err(_) if link.exists() => return Ok(()),
        Err(_) => {}
    }
    let parent = link.parent().unwrap_or(link);
    with_path(parent, fs::create_dir_all(parent))?;
    with_path(link, symlink(cached, link))
}
