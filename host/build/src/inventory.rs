//! Which toolchains for building actions are installed. This only looks for them; tools that can be
//! installed automatically are installed by the first build.

use std::process::{Command, Stdio};

use super::{javascript, pypi, toolchain};

/// Whether the toolchain of one language is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolchainStatus {
    /// The language.
    pub language: &'static str,
    /// The programs that were found, or what is missing.
    pub found: Result<String, String>,
    /// How to install what is missing.
    pub advice: &'static str,
}

/// The languages, the programs that their builds call, and how to install these.
const LANGUAGES: [(&str, &[&[&str]], &str); 4] = [
    (
        "rust",
        &[&["cargo", "--version"]],
        "actions in rust need it: install rust: `curl --proto =https --tlsv1.2 -sSf https://sh.rustup.rs | sh`",
    ),
    (
        "python",
        &[
            &["python3", "--version"],
            &["python3", "-c", "import ensurepip, venv"],
        ],
        "actions in python that are built need it: install python 3 with `venv`, e.g. `apt install python3-venv`",
    ),
    (
        "c",
        // The compiler is zig's, from PyPI.
        &[
            &["python3", "--version"],
            &["python3", "-c", "import ensurepip, venv"],
        ],
        "actions in c need it to set up their compiler: install python 3 with `venv`, e.g. `apt install python3-venv`",
    ),
    (
        "javascript",
        &[&["node", "--version"], &["npm", "--version"]],
        "actions in javascript and typescript with packages need it: install node with npm, e.g. `apt install nodejs npm`",
    ),
];

/// Looks for the toolchains of all languages.
pub fn inventory() -> Vec<ToolchainStatus> {
    let mut found = Vec::new();
    for (language, programs, advice) in LANGUAGES {
        found.push(language_status(language, programs, advice));
    }
    found
}

/// Looks for the toolchain of one language.
fn language_status(
    language: &'static str,
    programs: &[&[&str]],
    advice: &'static str,
) -> ToolchainStatus {
    let mut found = programs
        .iter()
        .map(|program| query_version(program))
        .collect::<Result<Vec<_>, _>>();
    if language == "rust" {
        found = found.map(|found| [found, vec![describe_rust_compiler()]].concat());
    }
    found = found.and_then(|found| {
        match minimum_version(language).filter(|oldest| is_older(&found[0], *oldest)) {
            Some((major, minor)) => Err(format!(
                "{} is older than {major}.{minor}, which builds need",
                found[0]
            )),
            None => Ok(found),
        }
    });
    let found = found.map(|found| {
        found
            .into_iter()
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join(", ")
    });
    let found = found.map(|found| match language {
        "c" => format!("zig, which the first build sets up with {found}"),
        _ => found,
    });
    ToolchainStatus {
        language,
        found,
        advice,
    }
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
fn is_older(said: &str, oldest: (u32, u32)) -> bool {
    let mut numbers = said
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|number| number.parse().ok());
    numbers
        .next()
        .is_some_and(|major: u32| (major, numbers.next().unwrap_or(0)) < oldest)
}

#[test]
fn a_version_is_found_in_what_a_program_says_of_itself() {
    for (said, oldest, older) in [
        ("Python 3.8.18", (3, 9), true),
        ("Python 3.10.1", (3, 9), false),
        ("node v18.20.2", (20, 0), true),
        ("node v20.0.0", (20, 0), false),
        ("something", (1, 0), false),
    ] {
        assert_eq!(is_older(said, oldest), older, "{said}");
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
