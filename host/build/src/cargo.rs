//! Runs cargo: reads the metadata of a package and compiles it to a core module. The output of
//! cargo is shown only if it fails.

use strata_base::files::user;
use strata_base::process::children::{ChildProcess, spawn_build};

use super::core_module::LineTables;
use super::tool::CallerEnvironment;
use super::toolchain::Toolchain;
use super::{BuildError, toolchain};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

/// How much of cargo's output is kept for the error message, in bytes. The first errors matter
/// most.
const DETAILS_BYTES: usize = 256 * 1024;

const LIBRARY_HINT: &str = "add to it:\n\n    [lib]\n    crate-type = [\"cdylib\", \"rlib\"]\n";

/// Prefixes of the environment variables that are passed on although they belong to cargo: they
/// configure access to the network and to registries, not what is built.
const PASSED_VARIABLES: [&str; 5] = [
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTR",
    "CARGO_SOURCE_",
];

/// The profile: optimised for size, but with the names of functions, which backtraces of faults
/// need.
const PROFILE: [(&str, &str); 7] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "s"),
    ("CARGO_PROFILE_RELEASE_LTO", "true"),
    ("CARGO_PROFILE_RELEASE_PANIC", "abort"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
    ("CARGO_PROFILE_RELEASE_STRIP", "debuginfo"),
    ("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "false"),
];

/// Changes to the profile for packages that want line numbers in backtraces.
const LINE_TABLES_PROFILE: [(&str, &str); 2] = [
    ("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only"),
    ("CARGO_PROFILE_RELEASE_STRIP", "none"),
];

/// A package that can become a component.
#[derive(Debug)]
pub struct CargoPackage {
    /// Its name.
    pub name: String,
    /// The root of its workspace, or its own directory if it belongs to none.
    pub workspace: PathBuf,
    /// Whether its backtraces contain line numbers: `lines = true` in `[package.metadata.strata]`.
    pub line_tables: LineTables,
    dir: PathBuf,
    id: String,
}

/// The output directory and the compiler of a compilation.
#[derive(Debug)]
pub struct CompileTarget {
    /// Cargo's target directory.
    pub dir: PathBuf,
    /// The compiler.
    pub toolchain: Toolchain,
}

#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<CargoMetadataPackage>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct CargoMetadataPackage {
    name: String,
    id: String,
    manifest_path: PathBuf,
    targets: Vec<CargoMetadataTarget>,
    #[serde(default)]
    metadata: serde_json::Value,
}

#[derive(Deserialize)]
struct CargoMetadataTarget {
    crate_types: Vec<String>,
}

/// A line of cargo's JSON messages, with the fields of those about artifacts.
#[derive(Deserialize)]
struct CargoMessage {
    package_id: Option<String>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

impl CargoPackage {
    /// Reads the metadata of the package in `dir`.
    pub fn read(dir: &Path) -> Result<Self, BuildError> {
        let manifest = dir.join("Cargo.toml");
        let mut command = cargo_command(dir);
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = spawn_build(&mut command)
            .and_then(ChildProcess::output)
            .map_err(cargo_missing)?;
        let refused = |details: String| BuildError::Compile {
            dir: dir.to_owned(),
            details,
        };
        if !output.status.success() {
            return Err(refused(
                String::from_utf8_lossy(&output.stderr).into_owned(),
            ));
        }
        let metadata: CargoMetadata = serde_json::from_slice(&output.stdout)
            .map_err(|error| refused(format!("reading the output of `cargo metadata`: {error}")))?;
        let mut packages = metadata.packages.into_iter();
        let package = packages
            .find(|package| package.manifest_path == manifest)
            .ok_or_else(|| refused("its Cargo.toml describes a workspace and no package".into()))?;
        let is_library =
            |target: &CargoMetadataTarget| target.crate_types.iter().any(|t| t == "cdylib");
        if !package.targets.iter().any(is_library) {
            return Err(BuildError::NotALibrary {
                manifest,
                hint: LIBRARY_HINT,
            });
        }
        let lines = if package.metadata["strata"]["lines"] == true {
            LineTables::Kept
        } else {
            LineTables::Dropped
        };
        Ok(Self {
            name: package.name,
            line_tables: lines,
            workspace: metadata.workspace_root,
            dir: dir.to_owned(),
            id: package.id,
        })
    }

    /// Compiles the package and returns its core module.
    pub fn compile(
        &self,
        target: &CompileTarget,
        report: &mut dyn FnMut(&str),
    ) -> Result<PathBuf, BuildError> {
        let mut command = cargo_command(&self.dir);
        command.args(["build", "--release", "--lib", "--target", toolchain::TARGET]);
        command
            .args([
                "--message-format",
                "json-render-diagnostics",
                "--target-dir",
            ])
            .arg(&target.dir);
        command.envs(PROFILE);
        if self.line_tables == LineTables::Kept {
            command.envs(LINE_TABLES_PROFILE);
        }
        command.env(
            "CARGO_ENCODED_RUSTFLAGS",
            self.compiler_flags(&target.toolchain),
        );
        if let Toolchain::At(rustc) = &target.toolchain {
            command.env("RUSTC", rustc);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = spawn_build(&mut command).map_err(cargo_missing)?;
        let messages = child
            .stdout
            .take()
            .map(|pipe| thread::spawn(move || read_all(pipe)));
        let details = self.collect_output(&mut child, report);
        let status = child.wait().map_err(cargo_missing)?;
        let messages = messages
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default();
        let refused = |details: String| BuildError::Compile {
            dir: self.dir.clone(),
            details,
        };
        if !status.success() {
            return Err(refused(details));
        }
        self.find_module(&messages)
            .ok_or_else(|| refused("cargo named no core module".into()))
    }

    /// Collects cargo's output while it runs, and reports when it begins to compile.
    fn collect_output(&self, child: &mut Child, report: &mut dyn FnMut(&str)) -> String {
        let mut details = String::new();
        let mut reported = false;
        let Some(pipe) = child.stderr.take() else {
            return details;
        };
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if !reported && line.trim_start().starts_with("Compiling") {
                reported = true;
                report(&format!("building {}", self.name));
            }
            if details.len() + line.len() < DETAILS_BYTES {
                details.push_str(&line);
                details.push('\n');
            }
        }
        details
    }

    fn find_module(&self, messages: &str) -> Option<PathBuf> {
        let messages = messages
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        let own = messages.filter(|m: &CargoMessage| m.package_id.as_ref() == Some(&self.id));
        own.flat_map(|message| message.filenames).find(|file| {
            file.extension()
                .is_some_and(|extension| extension == "wasm")
        })
    }

    /// Returns the flags for the compiler. They keep paths of this machine out of the module, so
    /// that the same source gives the same component everywhere. The compiler's path is included
    /// for another reason: cargo cannot distinguish two compilers of one version, whose standard
    /// libraries are incompatible.
    fn compiler_flags(&self, toolchain: &Toolchain) -> String {
        let mut flags = vec!["-Clink-arg=--keep-section=name".to_owned()];
        let mut remap = |from: &Path, to: &str| {
            flags.push(format!("--remap-path-prefix={}={to}", from.display()));
        };
        remap(&self.workspace, ".");
        if let Some(home) = cargo_home() {
            remap(&home, "/cargo");
        }
        if let Toolchain::At(rustc) = toolchain {
            remap(rustc, "/rustc");
        }
        flags.join("\u{1f}")
    }
}

/// Returns a cargo command in `dir` that is not influenced by the caller's environment: flags,
/// wrappers, targets, profiles, or variables that an enclosing cargo run has set.
fn cargo_command(dir: &Path) -> Command {
    let bends: &[&str] = &["CARGO_", "RUSTC", "RUSTDOC", "RUSTFLAGS"];
    let mut command = CallerEnvironment {
        withheld: bends,
        passed: &PASSED_VARIABLES,
    }
    .command("cargo");
    command.current_dir(dir);
    command.env("CARGO_TERM_COLOR", "never");
    command
}

/// Returns whether cargo runs.
pub fn is_installed() -> bool {
    let mut command = cargo_command(Path::new("."));
    command.arg("--version").stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}

fn cargo_home() -> Option<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    set.or_else(|| Some(user::home_dir()?.join(".cargo")))
}

fn cargo_missing(source: std::io::Error) -> BuildError {
    BuildError::Program {
        program: "cargo",
        hint: "Rust actions are compiled by it: install rust, e.g. from https://rustup.rs",
        source,
    }
}

fn read_all(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // If reading fails, the artifact is not found, which is reported later.
    let _ = pipe.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}
