//! Builds actions in languages that this program does not know: the script `build.sh` in the
//! action's directory makes a core module or a component with whatever tools its author has.
//!
//! The result must export the handler or functions of its own. A core module is turned into a
//! component here.

use super::core_module::LineTables;
use super::sdk::WIT;
use super::sources::{BuildOutput, fingerprint};
use super::tool::CallerEnvironment;
use super::{BuildError, Built, component, tool, with_path};
use std::fs;
use std::path::Path;

const RECIPE: &str = "build.sh";
/// The variable with the path to which the script writes its result.
const OUTPUT_VARIABLE: &str = "STRATA_OUT";
/// The variable with the directory of the WIT interfaces.
const WIT_VARIABLE: &str = "STRATA_WIT";

const NO_SHELL: &str = "a posix shell carries out `build.sh`";

/// Builds the action in `dir`.
pub fn build(dir: &Path, report: &mut dyn FnMut(&str)) -> Result<Built, BuildError> {
    let name = dir
        .file_name()
        .map_or("action".into(), |name| name.to_string_lossy());
    let output = BuildOutput::lock(dir, &name)?;
    let fingerprint = fingerprint(dir, &[&WIT.digest(), env!("CARGO_PKG_VERSION")])?;
    if let Some(component) = output.up_to_date_component(&fingerprint) {
        return Ok(Built {
            component,
            fresh: true,
        });
    }
    report(&format!("building {name} by its {RECIPE}"));
    let out = output.temporary_path();
    // The output of an earlier run must not be mistaken for that of this one.
    if out.exists() {
        with_path(&out, fs::remove_file(&out))?;
    }
    let mut command = CallerEnvironment::default().command("sh");
    command
        .arg(RECIPE)
        .current_dir(dir)
        .env(OUTPUT_VARIABLE, &out)
        .env(WIT_VARIABLE, WIT.unpack()?);
    let no_shell = |source| BuildError::Program {
        program: "sh",
        hint: NO_SHELL,
        source,
    };
    let ended = tool::run(&mut command).map_err(no_shell)?;
    let refused = |details: String| BuildError::Compile {
        dir: dir.to_owned(),
        details,
    };
    if !ended.success {
        return Err(refused(format!(
            "`{RECIPE}` failed\n{}",
            ended.details.trim_end()
        )));
    }
    let bytes = fs::read(&out).map_err(|_| {
        refused(format!(
            "`{RECIPE}` wrote nothing to `${OUTPUT_VARIABLE}`, where it is to put the module or component"
        ))
    })?;
    if component::export_names(&bytes).is_empty() {
        let bytes =
            component::encode_component(&bytes, LineTables::Dropped).map_err(|details| {
                BuildError::Component {
                    module: dir.to_owned(),
                    details,
                }
            })?;
        with_path(&out, fs::write(&out, bytes))?;
    }
    Ok(Built {
        component: output.install(&fingerprint, &[])?,
        fresh: false,
    })
}
