//! Which toolchains there are to build actions with. They are only looked for; what can be made is made by the first
//! build.

use std::process::{Command, Stdio};

use super::{javascript, pypi, toolchain};

/// What there is for one language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The language.
    pub language: &'static str,
    /// The programs that were found, or what is missing.
    pub found: Result<String, String>,
    /// What to do about what is missing.
    pub advice: &'static str,
}

/// A language, the programs that its builds call, and where they are had.
const LANGUAGES: [(&str, &[&[&str]], &str); 4] = [
    (
        "rust",
        &[&["cargo", "--version"]],
        "actions in rust need it: install rust, e.g. from https://rustup.rs",
    ),
    (
        "python",
        &[
            &["python3", "--version"],
            &["python3", "-c", "import ensurepip, venv"],
        ],
        "actions in python need it: install python 3 with `venv`, e.g. `apt install python3-venv`",
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
        "actions in javascript and typescript need it: install node with npm, e.g. from https://nodejs.org",
    ),
];

/// Looks for the toolchains of all languages.
pub fn inventory() -> Vec<Tool> {
    let language = |(language, programs, advice): (&'static str, &[&[&str]], &'static str)| {
        let mut found = programs
            .iter()
            .map(|program| version(program))
            .collect::<Result<Vec<_>, _>>();
        if language == "rust" {
            found = found.map(|found| [found, vec![compiler()]].concat());
        }
        found = found.and_then(|found| {
            match oldest(language).filter(|oldest| is_older(&found[0], *oldest)) {
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
        Tool {
            language,
            found,
            advice,
        }
    };
    LANGUAGES.map(language).into()
}

/// The oldest version of what is asked for first that builds take.
fn oldest(language: &str) -> Option<(u32, u32)> {
    match language {
        "python" | "c" => Some(pypi::OLDEST),
        "javascript" => Some((javascript::tools::OLDEST, 0)),
        _ => None,
    }
}

/// Whether the version in what a program said is older. One that says none is taken as it is.
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

/// What a program says when it is asked for its version; one that only has to succeed says nothing.
fn version(program: &[&str]) -> Result<String, String> {
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
    let said = last_line(&output.stdout);
    // Some say only the number.
    Ok(
        if said.is_empty() || said.to_lowercase().contains(name.trim_end_matches('3')) {
            said
        } else {
            format!("{name} {said}")
        },
    )
}

fn last_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim().lines().last().unwrap_or_default().to_owned()
}

/// What guests in Rust are compiled with.
fn compiler() -> String {
    match toolchain::look() {
        Some(toolchain::Toolchain::Default) => "its own compiler for WebAssembly".into(),
        Some(toolchain::Toolchain::At(path)) => format!("`{}` for WebAssembly", path.display()),
        None => "a compiler for WebAssembly is set up by the first build".into(),
    }
}
