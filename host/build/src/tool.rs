//! Runs the programs of a toolchain: with a filtered environment, and with their output captured
//! for error messages.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::process::{Command, Stdio};

use strata_base::process::children::spawn_build;

/// How much of a program's output is kept, in bytes. The last lines matter most, because the cause
/// of a failure follows the steps before it.
const DETAILS_BYTES: usize = 64 << 10;

/// Substrings of the names of variables that contain API keys and other secrets.
const SECRET_MARKERS: [&str; 4] = ["API_KEY", "PASSWORD", "SECRET", "TOKEN"];

/// Which of the caller's environment variables a program gets. Variables are given by the prefixes
/// of their names.
#[derive(Clone, Copy, Default)]
pub struct CallerEnvironment<'a> {
    /// Variables that would influence the result. They are withheld.
    pub withheld: &'a [&'a str],
    /// Variables that are passed on in any case, such as tokens of registries.
    pub passed: &'a [&'a str],
}

impl CallerEnvironment<'_> {
    /// Returns a command whose environment lacks the withheld variables and secrets, because a
    /// build runs code of the source's author.
    pub fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if self.is_withheld(&name.to_string_lossy()) {
                command.env_remove(&name);
            }
        }
        command
    }

    fn is_withheld(self, name: &str) -> bool {
        let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        let upper = name.to_ascii_uppercase();
        let is_secret = SECRET_MARKERS.iter().any(|part| upper.contains(part));
        (is_secret || starts(self.withheld)) && !starts(self.passed)
    }
}

/// The result of running a program.
#[derive(Debug)]
pub struct ToolOutput {
    /// Whether its exit status is success.
    pub success: bool,
    /// The end of its output, both of stdout and stderr.
    pub details: String,
}

/// Runs a program to its end, without standard input.
pub fn run(command: &mut Command) -> io::Result<ToolOutput> {
    let (mut read, write) = io::pipe()?;
    let child = spawn_build(
        command
            .stdin(Stdio::null())
            .stdout(write.try_clone()?)
            .stderr(write),
    );
    // The command also holds the writing end of the pipe. Unless it is released, reading would
    // never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child?;
    let mut tail = Vec::new();
    let mut chunk = [0; 8 << 10];
    loop {
        match read.read(&mut chunk)? {
            0 => break,
            length => tail.extend_from_slice(&chunk[..length]),
        }
        if tail.len() > 2 * DETAILS_BYTES {
            tail.drain(..tail.len() - DETAILS_BYTES);
        }
    }
    let success = child.wait()?.success();
    let details =
        String::from_utf8_lossy(&tail[tail.len().saturating_sub(DETAILS_BYTES)..]).into_owned();
    Ok(ToolOutput { success, details })
}

#[test]
fn a_program_is_given_neither_what_bends_it_nor_secrets() {
    let caller = CallerEnvironment {
        withheld: &["CARGO_", "PATH"],
        passed: &["CARGO_REGISTR"],
    };
    for (name, withheld) in [
        ("CARGO_BUILD_TARGET", true),
        ("CARGO_REGISTRY_TOKEN", false),
        ("OPENAI_API_KEY", true),
        ("my_api_key_2", true),
        ("GITHUB_TOKEN", true),
        ("DB_PASSWORD", true),
        ("HOME", false),
        ("HTTPS_PROXY", false),
    ] {
        assert_eq!(caller.is_withheld(name), withheld, "{name}");
    }
    let command = caller.command("true");
    assert!(
        command
            .get_envs()
            .any(|(name, value)| name == "PATH" && value.is_none())
    );
}
