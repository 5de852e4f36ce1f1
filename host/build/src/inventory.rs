//! Which toolchains for building actions are installed. This only looks for them; tools that can be
//! installed automatically are installed by the first build.

mod other_programs;

use std::process::{Command, Stdio};

use super::{javascript, pypi, toolchain};

pub use other_programs::{OtherProgram, other_programs};

/// Whether the toolchain of one language is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolchainStatus {
    /// The language.
    pub language: &'static str,
    /// The programs that were found, or what is missing.
    pub found: Result<String, String>,
    /// How to install what is missing, with a command.
    pub advice: String,
}

/// A language whose actions are built by programs of this machine.
struct Language {
    name: &'static str,
    /// The programs that its builds call.
    programs: &'static [&'static [&'static str]],
    /// Which actions need them.
    used_by: &'static str,
    install: Install,
}

/// How the programs of a language are installed.
#[derive(Clone, Copy)]
enum Install {
    Rustup,
    Python,
    Node,
}

/// Python's modules are packages of their own in some distributions. The compiler for C is zig's, from PyPI.
const PYTHON_WITH_VENV: &[&[&str]] = &[
    &["python3", "--version"],
    &["python3", "-c", "import ensurepip, venv"],
];

const LANGUAGES: [Language; 4] = [
    Language {
        name: "rust",
        programs: &[&["cargo", "--version"]],
        used_by: "actions in rust",
        install: Install::Rustup,
    },
    Language {
        name: "python",
        programs: PYTHON_WITH_VENV,
        used_by: "actions in python that are built",
        install: Install::Python,
    },
    Language {
        name: "c",
        programs: PYTHON_WITH_VENV,
        used_by: "actions in c, whose compiler comes from PyPI,",
        install: Install::Python,
    },
    Language {
        name: "javascript",
        programs: &[&["node", "--version"], &["npm", "--version"]],
        used_by: "actions in javascript and typescript with packages",
        install: Install::Node,
    },
];

/// A program that installs packages, its arguments for that, and its packages for Python and for node.
struct PackageManager {
    program: &'static str,
    install: &'static str,
    python: &'static str,
    node: &'static str,
}

/// Those of common distributions. The first is the example where there is none of them.
const PACKAGE_MANAGERS: [PackageManager; 5] = [
    PackageManager {
        program: "apt-get",
        install: "install",
        python: "python3-venv",
        node: "nodejs npm",
    },
    PackageManager {
        program: "dnf",
        install: "install",
        python: "python3",
        node: "nodejs npm",
    },
    PackageManager {
        program: "apk",
        install: "add",
        python: "python3",
        node: "nodejs npm",
    },
    PackageManager {
        program: "pacman",
        install: "-S",
        python: "python",
        node: "nodejs npm",
    },
    PackageManager {
        program: "zypper",
        install: "install",
        python: "python3",
        node: "nodejs npm",
    },
];

impl PackageManager {
    /// Returns that of this machine.
    fn of_machine() -> &'static Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories: Vec<_> = std::env::split_paths(&path).collect();
        let is_here = |manager: &&Self| {
            let mut directories = directories.iter();
            directories.any(|directory| directory.join(manager.program).is_file())
        };
        PACKAGE_MANAGERS
            .iter()
            .find(is_here)
            .unwrap_or(&PACKAGE_MANAGERS[0])
    }

    /// Returns what installs the programs of a language.
    fn advice(&self, install: Install) -> String {
        let Self {
            program,
            install: argument,
            ..
        } = self;
        match install {
            Install::Rustup => {
                "install rust: `curl --proto =https --tlsv1.2 -sSf https://sh.rustup.rs | sh`"
                    .into()
            }
            Install::Python => format!(
                "install python 3 with `venv`, e.g. `{program} {argument} {}`",
                self.python
            ),
            Install::Node => format!(
                "install node {} or later with npm, e.g. `{program} {argument} {}`",
                javascript::tools::MINIMUM_VERSION,
                self.node
            ),
        }
    }
}

/// Looks for the toolchains of all languages.
pub fn inventory() -> Vec<ToolchainStatus> {
    LANGUAGES.iter().map(Language::status).collect()
}

/// Looks for the toolchain of a language. Returns none if no toolchain is listed under this name.
pub fn toolchain_of(language: &str) -> Option<ToolchainStatus> {
    let mut languages = LANGUAGES.iter();
    let found = languages.find(|one| one.name == language)?;
    Some(found.status())
}

impl Language {
    fn status(&self) -> ToolchainStatus {
        let manager = PackageManager::of_machine();
        ToolchainStatus {
            language: self.name,
            found: find_programs(self),
            advice: format!("{} need it: {}", self.used_by, manager.advice(self.install)),
        }
    }
}

/// Returns the versions of the programs of a language, or what is missing.
fn find_programs(language: &Language) -> Result<String, String> {
    let programs = language.programs.iter();
    let mut found = programs
        .map(|program| query_version(program))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some((major, minor)) = minimum_version(language.name)
        && is_older(&found[0], (major, minor))
    {
        return Err(format!(
            "{} is older than {major}.{minor}, which builds need",
            found[0]
        ));
    }
    if language.name == "rust" {
        found.push(describe_rust_compiler());
    }
    found.retain(|line| !line.is_empty());
    let found = found.join(", ");
    Ok(match language.name {
        "c" => format!("zig, which the first build sets up with {found}"),
        _ => found,
    })
}

/// Returns the oldest supported version of a language's first program.
fn minimum_version(language: &str) -> Option<(u32, u32)> {
    match language {
        "python" | "c" => Some(pypi::MINIMUM_VERSION),
        "javascript" => Some((javascript::tools::MINIMUM_VERSION, 0)),
        _ => None,
    }
}

/// Returns whether the version in a program's output is older than `oldest`. Output without a
/// version is accepted.
fn is_older(output: &str, oldest: (u32, u32)) -> bool {
    let mut numbers = output
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok());
    numbers
        .next()
        .is_some_and(|major: u32| (major, numbers.next().unwrap_or(0)) < oldest)
}

#[test]
fn a_version_is_found_in_what_a_program_says_of_itself() {
    for (output, oldest, older) in [
        ("Python 3.8.18", (3, 9), true),
        ("Python 3.10.1", (3, 9), false),
        ("node v18.20.2", (20, 0), true),
        ("node v20.0.0", (20, 0), false),
        ("something", (1, 0), false),
    ] {
        assert_eq!(is_older(output, oldest), older, "{output}");
    }
}

/// Returns what a program says of its version. The error describes why it does not run.
pub fn program_version(program: &str) -> Result<String, String> {
    query_version(&[program, "--version"])
}

/// Runs a program and returns the last line of its output, which is empty for a program that only
/// has to succeed. The error describes why it does not run.
fn query_version(program: &[&str]) -> Result<String, String> {
    let [name, args @ ..] = program else {
        return Ok(String::new());
    };
    let output = Command::new(name).args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("`{name}` does not run: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "`{}` fails: {}",
            program.join(" "),
            last_line(&output.stderr)
        ));
    }
    let line = last_line(&output.stdout);
    // Some programs print only the number.
    Ok(
        if line.is_empty() || line.to_lowercase().contains(name.trim_end_matches('3')) {
            line
        } else {
            format!("{name} {line}")
        },
    )
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().lines().last().unwrap_or_default().to_owned()
}

/// Describes the compiler for guests in Rust.
fn describe_rust_compiler() -> String {
    match toolchain::find_installed() {
        Some(toolchain::Toolchain::Default) => "its own compiler for WebAssembly".into(),
        Some(toolchain::Toolchain::At(path)) => format!("`{}` for WebAssembly", path.display()),
        None => "a compiler for WebAssembly is set up by the first build".into(),
    }
}
