//! The compiler for C actions (zig, with its C library), and the SDK, which is compiled with it
//! once per machine and version.

use strata_base::files::caches::CacheName;
use strata_base::files::user;

use crate::pypi::PypiTools;
use crate::sdk::C;
use crate::sources::parse_make_rule;
use crate::tool::CallerEnvironment;
use crate::{BuildError, cache, tool, with_path};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The PyPI package of the compiler, with its digests.
pub const PACKAGES: &str = include_str!("../../../../guest-sdk/c/toolchain.txt");

const TOOLS: PypiTools = PypiTools {
    cache: CacheName::C,
    what: "the compiler for C actions",
    progress_message: "setting up the compiler for C actions: zig, 100 MB from PyPI, once",
    packages: PACKAGES,
};

/// Flags for the compiler. A reactor has no `main` and is called by its exports. `-g` is for the
/// names of functions in backtraces; other debug information is removed later.
const FLAGS: [&str; 6] = [
    "--target=wasm32-wasi",
    "-mexec-model=reactor",
    "-std=gnu17",
    "-Os",
    "-g",
    "-UNDEBUG",
];

const BROKEN_SDK_HINT: &str = "this should not happen with the files that ship with the program; take the directory away that \
                      is named below, and try again";

/// The compiler and the SDK.
#[derive(Debug)]
pub struct Compiler {
    tools: PathBuf,
    sdk: PathBuf,
    library: PathBuf,
}

impl Compiler {
    /// Finds the tools and the compiled SDK, and installs or compiles what is missing.
    pub fn prepare(report: &mut dyn FnMut(&str)) -> Result<Self, BuildError> {
        let tools = TOOLS.ensure_installed(report)?;
        let sdk = C.unpack()?;
        let version = tools.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("library-{}-{version}", C.digest());
        let library = cache::create_once(CacheName::C, &name, |dir| {
            report("compiling the sdk and the library for C actions, once");
            compile_sdk(&tools, &sdk, dir)
        })?;
        Ok(Self {
            tools,
            sdk,
            library,
        })
    }

    /// Compiles and links the C files of `dir` to a core module with this name. Returns the module
    /// and the compiler's warnings.
    pub fn link(
        &self,
        dir: &Path,
        sources: &[String],
        name: &str,
    ) -> Result<(Vec<u8>, String), BuildError> {
        let scratch = temporary_dir()?;
        // The name of the file becomes the name of the module in backtraces.
        let module = scratch.path().join(name);
        let mut command = zig_command(&self.tools, scratch.path());
        // The files are compiled in their directory, by bare names, so that messages, assertions
        // and the component contain no path of this machine.
        command
            .current_dir(dir)
            .arg("cc")
            .args(FLAGS)
            .args(["-Wall", "-Wextra"]);
        command
            .arg("-I")
            .arg(self.sdk.join("include"))
            .args(sources);
        command
            .arg(self.library.join(REPLACEMENT_OBJECT.1))
            .arg(self.library.join(LIBRARY))
            .arg("-o")
            .arg(&module);
        let ended = run_zig(&mut command)?;
        if !ended.success {
            return Err(BuildError::Compile {
                dir: dir.to_owned(),
                details: ended.details.trim_end().to_owned(),
            });
        }
        Ok((with_path(&module, fs::read(&module))?, ended.details))
    }

    /// Returns the files that the C files of `dir` include, except for those of the SDK.
    pub fn included_files(
        &self,
        dir: &Path,
        sources: &[String],
    ) -> Result<Vec<PathBuf>, BuildError> {
        let scratch = temporary_dir()?;
        let mut command = zig_command(&self.tools, scratch.path());
        command
            .current_dir(dir)
            .arg("cc")
            .args(FLAGS)
            .args(["-w", "-MM"]);
        let ended = run_zig(
            command
                .arg("-I")
                .arg(self.sdk.join("include"))
                .args(sources),
        )?;
        // The files were compiled before, so this fails only if the compiler itself fails.
        let files = if ended.success {
            parse_make_rule(&ended.details)
        } else {
            Vec::new()
        };
        let whole = |file: PathBuf| dir.join(file).canonicalize().ok();
        Ok(files
            .into_iter()
            .filter_map(whole)
            .filter(|file| !file.starts_with(&self.sdk))
            .collect())
    }
}

const LIBRARY: &str = "libstrata_action.a";
/// The source and the object file that replace parts of the C library. The object is linked before
/// all libraries, so it is not in the archive.
const REPLACEMENT_OBJECT: (&str, &str) = ("wasm/end.c", "wasm-end.o");

/// Compiles the SDK to an archive. The linker takes only the referenced objects of an archive, so
/// that a component exports only what its author defines.
fn compile_sdk(tools: &Path, sdk: &Path, dir: &Path) -> Result<(), BuildError> {
    let broken = |details: String| BuildError::Setup {
        what: "the sdk for c",
        hint: BROKEN_SDK_HINT,
        details,
    };
    let scratch = temporary_dir()?;
    let mut objects = Vec::new();
    for (path, _) in C
        .files()
        .iter()
        .filter(|(path, _)| path.ends_with(".c") && !path.starts_with("testing/"))
    {
        let object = dir.join(path.replace('/', "-")).with_extension("o");
        let mut command = zig_command(tools, scratch.path());
        command
            .current_dir(sdk)
            .arg("cc")
            .args(FLAGS)
            .args(["-w", "-I", "include", "-c", path, "-o"])
            .arg(&object);
        let ended = run_zig(&mut command)?;
        if !ended.success {
            return Err(broken(format!("{}\n{}", dir.display(), ended.details)));
        }
        if *path != REPLACEMENT_OBJECT.0 {
            objects.push(object);
        }
    }
    let ended = run_zig(
        zig_command(tools, scratch.path())
            .args(["ar", "rcs"])
            .arg(dir.join(LIBRARY))
            .args(&objects),
    )?;
    if !ended.success {
        return Err(broken(format!("{}\n{}", dir.display(), ended.details)));
    }
    for object in &objects {
        with_path(object, fs::remove_file(object))?;
    }
    Ok(())
}

/// Returns a zig command that caches its compiled C library with the tools and keeps all other
/// files in `scratch`.
fn zig_command(tools: &Path, scratch: &Path) -> Command {
    // Variables that configure native compilers.
    let bends: &[&str] = &[
        "CPATH",
        "C_INCLUDE_PATH",
        "LIBRARY_PATH",
        "PYTHON",
        "ZIG_LIB_DIR",
    ];
    let mut command = CallerEnvironment {
        withheld: bends,
        passed: &[],
    }
    .command(tools.join("venv/bin/python"));
    command.args(["-m", "ziglang"]);
    command
        .env("ZIG_GLOBAL_CACHE_DIR", tools.join("cache"))
        .env("ZIG_LOCAL_CACHE_DIR", scratch);
    command.env("NO_COLOR", "1");
    command
}

fn run_zig(command: &mut Command) -> Result<tool::ToolOutput, BuildError> {
    tool::run(command).map_err(crate::pypi::python_missing)
}

fn temporary_dir() -> Result<tempfile::TempDir, BuildError> {
    tempfile::tempdir().map_err(|error| BuildError::File {
        path: std::env::temp_dir(),
        source: user::temporary_dir_error(&error),
    })
}
