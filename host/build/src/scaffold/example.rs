//! The example teams that are installed with the program, with the components that they use.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use strata_base::files::installation::installation;

use super::{NewFile, ScaffoldError, write_directory};

/// The directory of the examples, among the installed files.
const EXAMPLE_DIRECTORY: &str = "examples";
/// How deep the directories of an example are.
const MAX_DEPTH: usize = 8;

/// Returns the names of the installed example teams, sorted.
pub fn list_examples() -> Vec<String> {
    let Some(files) = installation().files() else {
        return Vec::new();
    };
    let entries = fs::read_dir(files.join(EXAMPLE_DIRECTORY));
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Copies an example team to a new directory below `parent`, and returns the directory.
///
/// # Errors
/// Fails if there is no such example, if the name is invalid or exists already, or if the files cannot
/// be copied. In that case nothing is left behind.
pub fn create_example(parent: &Path, name: &str, example: &str) -> Result<PathBuf, ScaffoldError> {
    let known = list_examples();
    let installed = installation()
        .files()
        .filter(|_| known.iter().any(|name| name == example));
    let Some(installed) = installed else {
        return Err(ScaffoldError::UnknownExample {
            name: example.to_owned(),
            known,
        });
    };
    let root = installed.join(EXAMPLE_DIRECTORY).join(example);
    let mut files = Vec::new();
    read_files(&root, &root, 0, &mut files).map_err(|source| ScaffoldError::File {
        path: root.clone(),
        source,
    })?;
    write_directory(parent, name, |_| files.clone())
}

fn read_files(
    root: &Path,
    directory: &Path,
    depth: usize,
    files: &mut Vec<NewFile>,
) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other("its directories are too deep"));
    }
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            read_files(root, &path, depth + 1, files)?;
            continue;
        }
        let relative = path.strip_prefix(root).unwrap_or(&path);
        // Package managers leave out a `.gitignore`.
        let relative = match relative.file_name().is_some_and(|name| name == "gitignore") {
            true => relative.with_file_name(".gitignore"),
            false => relative.to_owned(),
        };
        files.push((relative.to_string_lossy().into_owned(), fs::read(&path)?));
    }
    Ok(())
}
