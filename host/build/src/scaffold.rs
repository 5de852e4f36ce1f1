//! Creates new actions and teams from templates that are embedded in the program: `strata-host
//! new`.
//!
//! The result builds and runs without changes. The templates are listed in `templates`, one entry
//! per language. The messages for the user are in the command.

pub mod example;
mod templates;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use templates::{LANGUAGES, TemplateLanguage};

/// The directory of the action in a new team. The team's template refers to it.
pub const TEAM_ACTION_DIR: &str = "respond";
/// The longest name, in characters. It is valid for packages of all languages.
const MAX_NAME_CHARS: usize = 64;
/// Words of the languages and their tools that cannot be the name of a package or a module.
const RESERVED_NAMES: &[&str] = &[
    "abstract",
    "action",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "class",
    "const",
    "continue",
    "core",
    "crate",
    "def",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "node-modules",
    "override",
    "priv",
    "pub",
    "ref",
    "return",
    "self",
    "serde",
    "serde-json",
    "static",
    "std",
    "strata-action",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "wit-bindgen",
    "yield",
];

/// Why nothing was created.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScaffoldError {
    /// The name is not valid for a directory, a package and a module.
    #[error(
        "making `{name}`: {problem}; a name begins with a letter and is made of lower-case letters, digits and single \
         dashes, e.g. `greet-people`"
    )]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The directory exists already.
    #[error("making `{}`: it already exists; choose another name, or remove it first", dir.display())]
    Exists {
        /// The directory.
        dir: PathBuf,
    },
    /// No example team has this name.
    #[error("making the example `{name}`: {}", describe_examples(known))]
    UnknownExample {
        /// The name.
        name: String,
        /// The examples that are installed.
        known: Vec<String>,
    },
    /// A file could not be written.
    #[error("making `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// The directory of the schemas in a new team. The templates refer to it.
const SCHEMA_DIR: &str = "schemas";

/// The README of a new action, for all languages.
const README: &str = include_str!("scaffold/action.md");

/// A file to be written: its path and its contents.
type NewFile = (String, Vec<u8>);

/// Creates an action in a new directory below `parent`, and returns the directory.
///
/// # Errors
/// Fails if the name is invalid or exists already, or if the files cannot be written. In that case
/// nothing is left behind.
pub fn create_action(
    parent: &Path,
    name: &str,
    language: &TemplateLanguage,
) -> Result<PathBuf, ScaffoldError> {
    write_directory(parent, name, |name| action_files(name, language))
}

/// Creates a team, and an action that its roles use, in a new directory below `parent`, and returns
/// the directory.
///
/// # Errors
/// Fails in the same cases as [`create_action`].
pub fn create_team(
    parent: &Path,
    name: &str,
    language: &TemplateLanguage,
    schemas: &EditorSchemas,
) -> Result<PathBuf, ScaffoldError> {
    write_directory(parent, name, |name| {
        let mut files = instantiate(templates::TEAM, name);
        files.extend(schemas.files());
        let of_action = action_files(TEAM_ACTION_DIR, language).into_iter();
        files.extend(
            of_action.map(|(path, content)| (format!("{TEAM_ACTION_DIR}/{path}"), content)),
        );
        files
    })
}

/// Creates a team with a role whose model works with tools, in a new directory below `parent`, and
/// returns the directory.
///
/// # Errors
/// Fails in the same cases as [`create_action`].
pub fn create_team_with_tools(
    parent: &Path,
    name: &str,
    schemas: &EditorSchemas,
) -> Result<PathBuf, ScaffoldError> {
    write_directory(parent, name, |name| {
        let mut files = instantiate(templates::TEAM_WITH_TOOLS, name);
        files.extend(schemas.files());
        files
    })
}

/// The JSON Schemas of a team's files, for editors. The files name them in their first lines.
#[derive(Clone, Debug, Default)]
pub struct EditorSchemas {
    /// That of `team.toml`.
    pub team: String,
    /// That of `replies.toml`.
    pub replies: String,
}

impl EditorSchemas {
    /// The name of the schema of team files.
    const TEAM: &str = "team";
    /// The name of the schema of scripted replies.
    const REPLIES: &str = "replies";

    /// Returns the path of the schema with this name in the directory of a team.
    fn path(name: &str) -> String {
        format!("{SCHEMA_DIR}/{name}.schema.json")
    }

    fn files(&self) -> [NewFile; 2] {
        [(Self::TEAM, &self.team), (Self::REPLIES, &self.replies)]
            .map(|(name, text)| (Self::path(name), text.clone().into_bytes()))
    }
}

/// Says which examples there are.
fn describe_examples(known: &[String]) -> String {
    match known {
        [] => "no examples are installed with this program; they are in the project's repository, in `plugins/teams`"
            .into(),
        known => {
            let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            format!("there are {}", known.join(", "))
        }
    }
}

/// The name of the program in the files that are written.
const PROGRAM: &str = "strata-host";

fn action_files(name: &str, language: &TemplateLanguage) -> Vec<NewFile> {
    let mut files = instantiate(language.template, name);
    let readme = README
        .replace("{{language}}", language.name)
        .replace("{{test}}", &language.test_command(PROGRAM));
    files.extend(instantiate(&[("README.md", readme.as_bytes())], name));
    if let Some((dir, kit)) = &language.vendored_sdk {
        files.extend(
            kit.files()
                .iter()
                .map(|(path, content)| (format!("{dir}/{path}"), content.to_vec())),
        );
    }
    files
}

/// Returns the files of a template with the name filled in.
fn instantiate(template: &[(&str, &[u8])], name: &str) -> Vec<NewFile> {
    let module = name.replace('-', "_");
    let one = |(path, content): &(&str, &[u8])| {
        let text = String::from_utf8_lossy(content)
            .replace("{{name}}", name)
            .replace("{{module}}", &module);
        // A `.gitignore` in the template directory would apply to the template itself.
        let path = if *path == "gitignore" {
            ".gitignore"
        } else {
            path
        };
        (path.to_owned(), text.into_bytes())
    };
    template.iter().map(one).collect()
}

/// Writes the files into a new directory, either all of them or none.
fn write_directory(
    parent: &Path,
    name: &str,
    files: impl Fn(&str) -> Vec<NewFile>,
) -> Result<PathBuf, ScaffoldError> {
    check_name(name).map_err(|problem| ScaffoldError::Name {
        name: name.to_owned(),
        problem,
    })?;
    let dir = parent.join(name);
    if dir.symlink_metadata().is_ok() {
        return Err(ScaffoldError::Exists { dir });
    }
    let at = |path: &Path, result: io::Result<()>| {
        result.map_err(|source| ScaffoldError::File {
            path: path.to_owned(),
            source,
        })
    };
    let around = if parent == Path::new("") {
        Path::new(".")
    } else {
        parent
    };
    let unfinished = tempfile::Builder::new().prefix(".new-").tempdir_in(around);
    let unfinished = unfinished.map_err(|source| ScaffoldError::File {
        path: around.to_owned(),
        source,
    })?;
    // A subdirectory with default permissions, because the temporary directory is private.
    let staged = unfinished.path().join(name);
    for (path, content) in files(name) {
        let path = staged.join(path);
        let parent = path.parent().unwrap_or(&staged);
        at(parent, fs::create_dir_all(parent))?;
        at(&path, fs::write(&path, content))?;
    }
    at(&dir, fs::rename(&staged, &dir))?;
    Ok(dir)
}

fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
        return Err("it must have 1 to 64 characters");
    }
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err("it must begin with a lower-case letter");
    }
    if !name
        .chars()
        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    {
        return Err("it holds other characters");
    }
    if name.ends_with('-') || name.contains("--") {
        return Err("a dash stands between letters or digits");
    }
    if RESERVED_NAMES.contains(&name) {
        return Err("languages and their tools use this name for something else");
    }
    Ok(())
}
