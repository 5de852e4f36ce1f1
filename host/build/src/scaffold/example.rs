//! The example teams that are installed with the program, with the components that they use.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use strata_base::files::installation::installation;

use crate::prebuilt::ACTION_DIRECTORY;

use super::{EditorSchemas, NewFile, ScaffoldError, write_directory};

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

/// Copies an example team to a new directory below `parent`, with the schemas of its files, and returns the directory.
///
/// # Errors
/// Fails if there is no such example, if the name is invalid or exists already, or if the files cannot
/// be copied. In that case nothing is left behind.
pub fn create_example(
    parent: &Path,
    name: &str,
    example: &str,
    schemas: &EditorSchemas,
) -> Result<PathBuf, ScaffoldError> {
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
    for name in component_names(&files) {
        let path = installed.join(ACTION_DIRECTORY).join(&name);
        let content = fs::read(&path).map_err(|source| ScaffoldError::File { path, source })?;
        files.push((format!("{ACTION_DIRECTORY}/{name}"), content));
    }
    for (path, content) in &mut files {
        if let Some(line) = schema_line(path, content) {
            content.splice(..0, line.into_bytes());
        }
    }
    files.extend(schemas.files());
    write_directory(parent, name, |_| files.clone())
}

/// Returns the names of the installed components that the team files among these name: in `components`, which examples do
/// not contain, because several use the same ones.
fn component_names(files: &[NewFile]) -> BTreeSet<String> {
    let begin = format!("\"{ACTION_DIRECTORY}/");
    let mut names = BTreeSet::new();
    for (_, content) in files.iter().filter(|(path, _)| path.ends_with(".toml")) {
        let text = String::from_utf8_lossy(content);
        let named = text.split(&*begin).skip(1);
        let named = named.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
        names.extend(named.filter(|name| !name.contains('/')));
    }
    names
}

/// Returns the line with which a file of a team names its schema, if there is one for this kind of file.
fn schema_line(path: &str, content: &[u8]) -> Option<String> {
    if path.contains('/') || !path.ends_with(".toml") {
        return None;
    }
    let text = std::str::from_utf8(content).ok()?;
    let schema = text.lines().find_map(|line| match line {
        "[[reply]]" => Some(EditorSchemas::REPLIES),
        line if line.starts_with("schema = \"strata.team/") => Some(EditorSchemas::TEAM),
        _ => None,
    })?;
    Some(format!("#:schema ./{}\n", EditorSchemas::path(schema)))
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
        let relative = if relative.file_name().is_some_and(|name| name == "gitignore") {
            relative.with_file_name(".gitignore")
        } else {
            relative.to_owned()
        };
        files.push((relative.to_string_lossy().into_owned(), fs::read(&path)?));
    }
    Ok(())
}

#[test]
fn files_of_a_team_name_their_schemas() {
    let check = |path: &str, content: &str, expected: Option<&str>| {
        let line = schema_line(path, content.as_bytes());
        let expected = expected.map(|name| format!("#:schema ./schemas/{name}.schema.json\n"));
        assert_eq!(line, expected, "{path}");
    };
    let team = "# A team.\n\nschema = \"strata.team/1\"\n[team]\n";
    check("team.toml", team, Some("team"));
    check("trap.toml", team, Some("team"));
    check("replies.toml", "# Replies.\n[[reply]]\n", Some("replies"));
    check("search/pyproject.toml", team, None);
    check("README.md", team, None);
    check("other.toml", "[project]\n", None);
}

#[test]
fn a_team_names_the_components_that_are_copied_with_it() {
    let team = "component = \"components/read.wasm\"\ncomponent = \"components/../x\"\ncomponent = \"builtin:probe\"\n";
    let files = [
        ("team.toml".to_owned(), team.as_bytes().to_vec()),
        (
            "trap.toml".to_owned(),
            b"component = \"components/trap.wasm\"".to_vec(),
        ),
        (
            "README.md".to_owned(),
            b"\"components/other.wasm\"".to_vec(),
        ),
    ];
    let names: Vec<String> = component_names(&files).into_iter().collect();
    assert_eq!(names, ["read.wasm", "trap.wasm"]);
}
