//! Makes the beginnings of actions and teams, from templates that are part of the program: `strata-host new`.
//!
//! What is made builds and runs as it is. The templates are listed in `templates`, one entry a language; what is told
//! about the thing made is the command's business.

mod templates;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use templates::{LANGUAGES, Language};

/// The directory of the action in a new team; the team's template names it, too.
const ACTION_OF_TEAM: &str = "respond";
/// The longest name; packages of all languages may have it.
const NAME_CHARS: usize = 64;
/// Words of a language or of its tools that a package or a module cannot be called by.
const TAKEN: &[&str] = &[
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

/// Why nothing was made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScaffoldError {
    /// It cannot be the name of a directory, a package and a module.
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
    /// There is something of this name.
    #[error("making `{}`: it already exists; choose another name, or remove it first", dir.display())]
    Exists {
        /// Where.
        dir: PathBuf,
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

/// What a new action says of itself, whatever its language.
const README: &str = include_str!("scaffold/action.md");

/// A file to be written: its path, and what is in it.
type New = (String, Vec<u8>);

/// Makes an action in a new directory below `parent`, and returns the directory.
///
/// # Errors
/// Fails if the name will not do or is taken, or if the files cannot be written. Then nothing is left behind.
pub fn action(parent: &Path, name: &str, language: &Language) -> Result<PathBuf, ScaffoldError> {
    make(parent, name, |name| action_files(name, language))
}

/// Makes a team, and an action that its roles use, in a new directory below `parent`, and returns the directory.
///
/// # Errors
/// As [`action`].
pub fn team(parent: &Path, name: &str, language: &Language) -> Result<PathBuf, ScaffoldError> {
    make(parent, name, |name| {
        let mut files = filled_in(templates::TEAM, name);
        let of_action = action_files(ACTION_OF_TEAM, language).into_iter();
        files
            .extend(of_action.map(|(path, content)| (format!("{ACTION_OF_TEAM}/{path}"), content)));
        files
    })
}

fn action_files(name: &str, language: &Language) -> Vec<New> {
    let mut files = filled_in(language.template, name);
    let readme = README
        .replace("{{language}}", language.name)
        .replace("{{test}}", language.test);
    files.extend(filled_in(&[("README.md", readme.as_bytes())], name));
    if let Some((dir, kit)) = &language.beside {
        files.extend(
            kit.files()
                .iter()
                .map(|(path, content)| (format!("{dir}/{path}"), content.to_vec())),
        );
    }
    files
}

/// The files of a template, with the name in its places.
fn filled_in(template: &[(&str, &[u8])], name: &str) -> Vec<New> {
    let module = name.replace('-', "_");
    let one = |(path, content): &(&str, &[u8])| {
        let text = String::from_utf8_lossy(content)
            .replace("{{name}}", name)
            .replace("{{module}}", &module);
        // Under its own name it would rule over the template, too.
        let path = if *path == "gitignore" {
            ".gitignore"
        } else {
            path
        };
        (path.to_owned(), text.into_bytes())
    };
    template.iter().map(one).collect()
}

/// Writes the files into a new directory, all of them or none.
fn make(
    parent: &Path,
    name: &str,
    files: impl Fn(&str) -> Vec<New>,
) -> Result<PathBuf, ScaffoldError> {
    check(name).map_err(|problem| ScaffoldError::Name {
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
    // As any other directory, not as a temporary one, which is its maker's alone.
    let made = unfinished.path().join(name);
    for (path, content) in files(name) {
        let path = made.join(path);
        let parent = path.parent().unwrap_or(&made);
        at(parent, fs::create_dir_all(parent))?;
        at(&path, fs::write(&path, content))?;
    }
    at(&dir, fs::rename(&made, &dir))?;
    Ok(dir)
}

fn check(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.chars().count() > NAME_CHARS {
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
    if TAKEN.contains(&name) {
        return Err("languages and their tools use this name for something else");
    }
    Ok(())
}
