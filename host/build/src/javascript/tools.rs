//! Installs the tools that make components from JavaScript, once per machine, and the packages that
//! an action needs. Both use the machine's own node and npm.

use strata_base::files::caches::CacheName;

use super::package::NodePackage;
use crate::sdk::JAVASCRIPT_TOOLS;
use crate::tool::CallerEnvironment;
use crate::{BuildError, cache, tool, with_path};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest major version of node that the tools support.
pub const MINIMUM_VERSION: u32 = 20;

const WITHHELD_VARIABLES: [&str; 2] = ["NODE_OPTIONS", "NODE_PATH"];

const NO_NODE: &str = "JavaScript actions are built by node 20 or later with npm: install them, e.g. `apt install nodejs npm`";
const NO_TOOLS: &str = "they come from npm's registry, once: see that it can be reached (npm's own settings hold, e.g. \
                        `npm config set registry`)";
const NO_PACKAGES: &str =
    "see that package.json names them rightly and that npm's registry can be reached";

/// Installs the tools, unless they are installed, and returns their directory.
pub fn ensure_tools(report: &mut dyn FnMut(&str)) -> Result<PathBuf, BuildError> {
    let found = tool::run(node_command().arg("--version")).map_err(node_missing)?;
    let version = found
        .details
        .trim()
        .trim_start_matches('v')
        .split('.')
        .next()
        .and_then(|major| major.parse().ok());
    if version.is_none_or(|major: u32| major < MINIMUM_VERSION) {
        return Err(setup_error("node", NO_NODE, &found.details));
    }
    // Some packages contain machine code, which does not run on a different machine that shares the
    // cache.
    let machine = format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    cache::create_once(
        CacheName::JavaScript,
        &format!("tools-{machine}-{}", JAVASCRIPT_TOOLS.digest()),
        |dir| {
            report("setting up the tools for JavaScript actions: 80 MB from npm, once");
            for (path, content) in JAVASCRIPT_TOOLS.files() {
                let path = dir.join(path);
                with_path(&path, fs::write(&path, content))?;
            }
            // Not `ci`, which requires packages for other platforms that npm itself leaves out of
            // the lock file. Packages in the lock file are installed as it says, by digest.
            let got = tool::run(npm_command(dir).arg("install")).map_err(npm_missing)?;
            if !got.success {
                return Err(setup_error(
                    "the tools for JavaScript actions",
                    NO_TOOLS,
                    &got.details,
                ));
            }
            Ok(())
        },
    )
}

/// Installs the packages that an action needs, unless they were installed after package.json and
/// the lock file were last changed.
pub fn install_packages(
    dir: &Path,
    package: &NodePackage,
    report: &mut dyn FnMut(&str),
) -> Result<(), BuildError> {
    let changed = |file: &str| {
        fs::metadata(dir.join(file))
            .and_then(|metadata| metadata.modified())
            .ok()
    };
    let lock = changed("package-lock.json");
    let installed = changed("node_modules/.package-lock.json");
    if installed.is_some() && installed >= lock.max(changed("package.json")) {
        return Ok(());
    }
    report(&format!("getting the packages that {} needs", package.name));
    // `ci` follows the lock file and fails if it does not fit; `install` would write one.
    let how: &[&str] = if lock.is_some() {
        &["ci"]
    } else {
        &["install", "--no-package-lock"]
    };
    let got = tool::run(npm_command(dir).args(how)).map_err(npm_missing)?;
    if !got.success {
        return Err(setup_error(
            "the packages of the action",
            NO_PACKAGES,
            &got.details,
        ));
    }
    Ok(())
}

/// Returns a node command that is not influenced by the caller's environment.
pub fn node_command() -> Command {
    let mut command = CallerEnvironment {
        withheld: &WITHHELD_VARIABLES,
        passed: &[],
    }
    .command("node");
    command.env("NO_COLOR", "1");
    command
}

/// Returns an npm command in a directory. The packages' installation scripts are not run.
fn npm_command(dir: &Path) -> Command {
    // npm's configuration files refer to registry tokens in these variables.
    let mut command = CallerEnvironment {
        withheld: &WITHHELD_VARIABLES,
        passed: &["NODE_AUTH_", "NPM_", "npm_"],
    }
    .command("npm");
    command
        .current_dir(dir)
        .env("NO_COLOR", "1")
        .env("NPM_CONFIG_UPDATE_NOTIFIER", "false");
    command.args([
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel",
        "error",
    ]);
    command
}

/// Returns the error for a machine without node.
pub fn node_missing(source: io::Error) -> BuildError {
    BuildError::Program {
        program: "node",
        hint: NO_NODE,
        source,
    }
}

fn npm_missing(source: io::Error) -> BuildError {
    BuildError::Program {
        program: "npm",
        hint: NO_NODE,
        source,
    }
}

fn setup_error(what: &'static str, hint: &'static str, details: &str) -> BuildError {
    // npm appends the usage of the command.
    let details = details.split("npm error Usage:").next().unwrap_or_default();
    BuildError::Setup {
        what,
        hint,
        details: details.trim_end().to_owned(),
    }
}
