//! The rules of the house, read from the sources: who may touch what, how long a file is, how it begins. What the
//! compiler and clippy see by themselves (documentation, `unwrap`, `unsafe`) is not looked at again.

mod comments;
mod core_layers;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::probe::project;

/// Where the sources are.
const SOURCES: [&str; 5] = ["guest-sdk", "host", "plugins", "tests", "wit"];
/// The longest file.
const MAX_LINES: usize = 600;
/// The longest function.
const MAX_FUNCTION_LINES: usize = 75;
/// The longest function of a test, which may contain a table of cases.
const MAX_TEST_FUNCTION_LINES: usize = 100;
/// What a tool writes.
const GENERATED: [&str; 2] = [
    "guest-sdk/rust/src/bindings.rs",
    "plugins/text-tools/src/bindings.rs",
];

/// What only some places may name.
struct Rule {
    what: &'static str,
    /// How it looks in a source.
    marks: &'static [&'static str],
    /// Where it may be. A place is a file without its `.rs`, and everything below it.
    only: &'static [&'static str],
}

/// Where the sources of the product are.
const PRODUCT: [&str; 3] = ["host/src/", "host/cli/src/", "host/core/src/"];

/// Holds for the product, without its tests.
const RULES: &[Rule] = &[
    Rule {
        // A guest, a model or a server may have written it: faults have a cause to go by.
        what: "a branch on the text of a message",
        marks: &[
            "message.contains(",
            "message.starts_with(",
            "message.ends_with(",
            "message.strip_prefix(",
            "msg.contains(",
            "msg.starts_with(",
            "to_string().contains(",
            "to_string().starts_with(",
        ],
        // The parser of conditions has no other errors.
        only: &["host/src/manifest/condition/check"],
    },
    Rule {
        what: "wasmtime",
        marks: &["wasmtime::", "wasmtime_wasi"],
        only: &["host/src/sandbox"],
    },
    Rule {
        what: "the database",
        marks: &["rusqlite"],
        only: &["host/src/storage"],
    },
    Rule {
        what: "the names of what lies in the storage directory",
        marks: &["\"team.db", "\"team.json\"", "\"team.lock\""],
        only: &["host/src/storage"],
    },
    Rule {
        what: "writing to the disk",
        marks: &[
            "fs::write",
            "File::create",
            "File::options",
            "OpenOptions",
            "create_dir",
            "fs::rename",
            "fs::remove_",
        ],
        // Directories that guests are granted; compiled code; builds; what `new` makes; the file of `--events`.
        only: &[
            "host/src/storage",
            "host/src/sandbox/capability",
            "host/src/sandbox/engine/cache",
            "host/src/build",
            "host/src/caches",
            "host/src/scaffold",
            "host/cli/src/events_sink",
            "host/src/skills/files",
            "host/src/trust/storage_mark",
            // Where the operator says.
            "host/cli/src/manual",
            "host/src/open",
        ],
    },
    Rule {
        what: "the network",
        marks: &["reqwest::Client", "TcpStream", "TcpListener", "UdpSocket"],
        // Telemetry goes its own way, past what guests can reach.
        only: &[
            "host/src/services",
            "host/src/server",
            "host/src/telemetry/client",
        ],
    },
    Rule {
        what: "the parts of the server",
        marks: &["axum::", "hyper::", "hyper_util::"],
        only: &["host/src/server"],
    },
    Rule {
        what: "the wall clock",
        marks: &["SystemTime", "Instant::now", "Timestamp::now", "Zoned::now"],
        // The cache knows by it what was used last.
        only: &[
            "host/src/driver/clock",
            "host/src/sandbox/limits",
            "host/src/sandbox/engine/cache",
            "host/src/storage/directory/file",
            // For the date of a `Retry-After` in an answer without a `Date`.
            "host/src/services/client",
        ],
    },
    Rule {
        what: "randomness",
        marks: &["rand::", "getrandom", "Uuid::new_v4"],
        only: &["host/src/sandbox/capability", "host/src/launch/start"],
    },
    Rule {
        what: "arguments, the end of the process",
        marks: &["env::args", "process::exit", "process::abort"],
        only: &["host/cli/src"],
    },
    Rule {
        what: "standard output and standard error",
        marks: &[
            "io::stdout",
            "io::stderr",
            "stdout()",
            "stderr()",
            "print!(",
            "println!(",
            "dbg!(",
        ],
        // The process that watches children writes before there is a printer.
        only: &["host/cli/src/printer", "host/cli/src/lib"],
    },
    Rule {
        what: "arguments",
        marks: &["clap::"],
        only: &["host/cli/src"],
    },
    Rule {
        what: "variables of the environment",
        marks: &["env::var"],
        only: &[
            "host/cli/src",
            "host/src/services/variables",
            "host/src/build",
            // Where the shelf is.
            "host/src/skills",
            // Where policies are.
            "host/src/manifest/operator/search",
            "host/src/telemetry",
            // Where the user's directories are.
            "host/src/user",
            // Where programs are.
            "host/src/services/external",
        ],
    },
    Rule {
        what: "other programs",
        marks: &["process::Command", " Command::new(", "(Command::new("],
        only: &[
            "host/src/build",
            "host/src/children",
            "host/src/services/external",
        ],
    },
    Rule {
        what: "unsafe code",
        marks: &["unsafe {", "unsafe fn"],
        only: &["host/src/sandbox"],
    },
];

/// A source file, by its path in the project.
struct Source {
    name: String,
    text: String,
}

impl Source {
    /// The lines of code, with their numbers: without comments, and without the tests at the end.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self
            .text
            .lines()
            .take_while(|line| !line.starts_with("mod tests {"));
        lines
            .enumerate()
            .map(|(i, line)| (i + 1, line))
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
    }

    /// Whether it is part of the program, and no test of it.
    fn is_product(&self) -> bool {
        PRODUCT.iter().any(|place| self.name.starts_with(place)) && !self.is_test()
    }

    /// Whether the module that it belongs to declares it for tests only.
    fn is_test(&self) -> bool {
        let path = Path::new(&self.name);
        let Some(directory) = path.parent() else {
            return false;
        };
        let parents = [directory.with_extension("rs"), directory.join("lib.rs")];
        let parent = parents
            .iter()
            .find_map(|parent| fs::read_to_string(project().join(parent)).ok());
        let Some(parent) = parent else {
            return false;
        };
        let module = path.file_stem().unwrap_or_default().to_string_lossy();
        module == "tests"
            || self.name.contains("/tests/")
            || parent.contains(&format!("#[cfg(test)]\nmod {module};"))
    }

    fn is_generated(&self) -> bool {
        GENERATED.contains(&self.name.as_str())
    }

    fn lies_in(&self, place: &str) -> bool {
        let rest = self.name.strip_prefix(place);
        rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }
}

/// All files below some directories of the project that this holds for.
fn files(dirs: &[&str], wanted: impl Fn(&Path) -> bool) -> Vec<Source> {
    let mut open: Vec<PathBuf> = dirs.iter().map(|dir| project().join(dir)).collect();
    let mut found = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            if path
                .file_name()
                .is_some_and(|name| name != "target" && name != ".git")
            {
                open.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            }
        } else if wanted(&path)
            && let Ok(text) = fs::read_to_string(&path)
        {
            let name = path
                .strip_prefix(project())
                .unwrap()
                .to_string_lossy()
                .into_owned();
            found.push(Source { name, text });
        }
    }
    assert!(!found.is_empty());
    found
}

fn sources() -> Vec<Source> {
    files(&SOURCES, |path| {
        path.extension().is_some_and(|extension| extension == "rs")
    })
}

/// Fails with everything that was found.
#[track_caller]
fn assert_none(broken: Vec<String>) {
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

#[test]
fn each_thing_is_touched_in_its_room_only() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.is_product()) {
        for rule in RULES
            .iter()
            .filter(|rule| !rule.only.iter().any(|place| source.lies_in(place)))
        {
            let bad = source
                .code()
                .filter(|(_, line)| rule.marks.iter().any(|mark| line.contains(mark)));
            broken.extend(
                bad.map(|(n, line)| format!("{}:{n}: {}: {}", source.name, rule.what, line.trim())),
            );
        }
    }
    assert_none(broken);
}

#[test]
fn every_place_that_a_rule_names_exists() {
    let all = sources();
    let places = RULES.iter().flat_map(|rule| rule.only);
    assert_none(
        places
            .filter(|place| !all.iter().any(|source| source.lies_in(place)))
            .map(|p| (*p).to_owned())
            .collect(),
    );
}

#[test]
fn the_core_depends_on_nothing_that_touches_the_machine() {
    let manifest = fs::read_to_string(project().join("host/core/Cargo.toml")).unwrap();
    let manifest: toml::Table = manifest.parse().unwrap();
    let dependencies: Vec<&String> = manifest["dependencies"]
        .as_table()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(dependencies, ["serde", "serde_json", "thiserror"]);
    let lib = fs::read_to_string(project().join("host/core/src/lib.rs")).unwrap();
    assert!(lib.contains("#![no_std]"));
    let names_std = |source: &Source| {
        source
            .code()
            .any(|(_, line)| line.contains("std::") || line.contains("extern crate std"))
    };
    let core = files(&["host/core/src"], |_| true);
    assert_none(
        core.into_iter()
            .filter(names_std)
            .map(|source| source.name)
            .collect(),
    );
}

#[test]
fn types_of_the_sandbox_s_engine_are_in_no_public_signature() {
    let mut broken = Vec::new();
    let names = [
        "wasmtime",
        "Linker<",
        "InstancePre",
        "ResourceLimiter",
        "component::Val",
    ];
    for source in sources()
        .iter()
        .filter(|source| source.lies_in("host/src/sandbox"))
    {
        let public = source
            .code()
            .filter(|(_, line)| line.trim_start().starts_with("pub "));
        let bad = public.filter(|(_, line)| names.iter().any(|name| line.contains(name)));
        broken.extend(bad.map(|(n, line)| format!("{}:{n}: {}", source.name, line.trim())));
    }
    assert_none(broken);
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| !source.is_generated()) {
        let lines = source.text.lines().count();
        if lines > MAX_LINES {
            broken.push(format!(
                "{}: {lines} lines, at most {MAX_LINES}",
                source.name
            ));
        }
        if !source.text.starts_with("//!") {
            broken.push(format!("{}: does not begin with `//!`", source.name));
        }
        if source.name.ends_with("/mod.rs") {
            broken.push(format!("{}: call it after its module", source.name));
        }
    }
    assert_none(broken);
}

#[test]
fn functions_are_short() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| !source.is_generated()) {
        let lines: Vec<&str> = source.text.lines().collect();
        let begins = |line: &str| {
            line.contains("fn ") && line.contains('(') && !line.trim_start().starts_with("//")
        };
        for (i, line) in lines.iter().enumerate().filter(|(_, line)| begins(line)) {
            // As the formatter writes it, a function ends where a brace stands as far to the right as it begins.
            let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
            let one_line = line.ends_with('}') || line.ends_with(';') || line.ends_with(',');
            let length = lines[i..]
                .iter()
                .position(|line| *line == end)
                .unwrap_or_default()
                + 1;
            let most = match source.is_product() {
                true => MAX_FUNCTION_LINES,
                false => MAX_TEST_FUNCTION_LINES,
            };
            if !one_line && length > most {
                broken.push(format!(
                    "{}:{}: {length} lines, at most {most}",
                    source.name,
                    i + 1
                ));
            }
        }
    }
    assert_none(broken);
}

#[test]
fn nothing_dead_is_kept_and_exemptions_carry_reasons() {
    let mut broken = Vec::new();
    // What guests are made with expands its own in other people's code.
    let of_guests =
        |source: &&Source| source.name.starts_with("guest-sdk/") || source.is_generated();
    for source in sources().iter().filter(|source| !of_guests(source)) {
        let lines: Vec<&str> = source.text.lines().collect();
        let begins = |line: &str| {
            ["#[allow(", "#![allow("]
                .iter()
                .any(|mark| line.trim_start().starts_with(mark))
        };
        for (i, _) in lines.iter().enumerate().filter(|(_, line)| begins(line)) {
            let end = lines[i..]
                .iter()
                .position(|line| line.trim_end().ends_with(")]"))
                .unwrap_or_default();
            let attribute = lines[i..=i + end].join(" ");
            let dead = source.is_product() && attribute.contains("dead_code");
            if dead || !attribute.contains("reason") {
                broken.push(format!("{}:{}: {}", source.name, i + 1, attribute.trim()));
            }
        }
    }
    assert_none(broken);
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let marks = [
        ["/ho", "me/"].concat(),
        ["/Us", "ers/"].concat(),
        ["/wo", "rk/"].concat(),
        ["/tm", "p/"].concat(),
    ];
    let text = |path: &Path| {
        let extension = path
            .extension()
            .map(|extension| extension.to_string_lossy().into_owned());
        extension.is_some_and(|extension| {
            ["rs", "toml", "md", "wit", "sh", "json", "lock"].contains(&extension.as_str())
        })
    };
    let mut broken = Vec::new();
    for source in files(
        &[
            &SOURCES[..],
            &[
                ".ci",
                "Cargo.toml",
                "ARCHITECTURE.md",
                "README.md",
                "CHANGELOG.md",
            ],
        ]
        .concat(),
        text,
    ) {
        let lines = source
            .text
            .lines()
            .zip(1..)
            .filter(|(line, _)| marks.iter().any(|mark| line.contains(mark)));
        broken.extend(lines.map(|(line, n)| format!("{}:{n}: {}", source.name, line.trim())));
    }
    assert_none(broken);
}

/// Words that no name of a type, a function or a module contains: metaphors, and verbs that do not
/// say what is done.
const BANNED_WORDS: [&str; 22] = [
    "afford",
    "awake",
    "equipment",
    "flights",
    "hall",
    "hearing",
    "hush",
    "keepers",
    "land",
    "makings",
    "motion",
    "parcel",
    "people",
    "purse",
    "reins",
    "settle",
    "strayed",
    "takeoff",
    "telling",
    "told",
    "utils",
    "weather",
];
/// How many types may have the same name.
const MAX_TYPES_OF_A_NAME: usize = 2;

/// Returns the keyword and the name of the item that a line defines.
fn defined_item(line: &str) -> Option<(&str, &str)> {
    let mut words = line
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty());
    let keyword = words
        .find(|word| !["pub", "crate", "super", "in", "const", "async", "unsafe"].contains(word))?;
    let is_item = ["struct", "enum", "trait", "type", "union", "fn", "mod"].contains(&keyword);
    is_item.then(|| words.next().map(|name| (keyword, name)))?
}

/// Returns the words of a name in lower case: those of `take_off` and `TakeOff` are `take` and `off`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c != '_', words.last_mut()) {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[test]
fn names_are_words_of_the_field() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| source.is_product()) {
        for (n, line) in source.code() {
            let Some((_, name)) = defined_item(line) else {
                continue;
            };
            let banned = words_of(name)
                .into_iter()
                .find(|word| BANNED_WORDS.contains(&word.as_str()));
            if let Some(word) = banned {
                broken.push(format!("{}:{n}: `{name}` contains `{word}`", source.name));
            }
        }
    }
    assert_none(broken);
}

#[test]
fn a_type_name_denotes_two_types_at_most() {
    let mut types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources().iter().filter(|source| source.is_product()) {
        for (_, line) in source.code() {
            let item = defined_item(line).filter(|(keyword, _)| !["fn", "mod"].contains(keyword));
            // Types that a trait requires have the names that the trait gives them.
            if let Some((keyword, name)) = item
                && !(keyword == "type" && line.starts_with(' '))
            {
                let files = types.entry(name.to_owned()).or_default();
                files.insert(source.name.clone());
            }
        }
    }
    types.retain(|_, files| files.len() > MAX_TYPES_OF_A_NAME);
    assert_none(
        types
            .into_iter()
            .map(|(name, files)| format!("`{name}` is defined in {files:?}"))
            .collect(),
    );
}
