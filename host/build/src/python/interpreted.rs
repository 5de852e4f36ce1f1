//! Decides whether the source of a Python action can be run by the interpreter of scripts, which needs
//! no build, and reads it.
//!
//! The decision depends only on the files, so that it is the same on every machine, and before
//! anything is run.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use strata_base::files::open;
use strata_sandbox::{ModuleFile, ScriptFile, ScriptModules, ScriptSource};
use strata_services::plugin::script::{MAX_SCRIPT_BYTES, ScriptLanguage};

use super::project::{MANIFEST, PythonProject, REQUIREMENTS, Requirements, requires_packages};
use crate::sources::list_sources;
use crate::{BuildError, SourceUse, with_path};

/// The file extension of modules.
const MODULE: &str = "py";
/// The file extensions of what only editors and installers read.
const NOT_READ: [&str; 3] = ["lock", "pyi", "typed"];
/// Directories that contain tests.
const TEST_DIRS: [&str; 2] = ["test", "tests"];

/// Returns how the source in a directory is run.
pub fn source_use(dir: &Path) -> Result<SourceUse, BuildError> {
    let project = PythonProject::read(dir)?;
    let built = |because: String| {
        Ok(SourceUse::Built {
            because: Some(because),
        })
    };
    match &project.requirements {
        Requirements::Listed(listed) if listed.is_empty() => {}
        Requirements::Listed(listed) => {
            return built(format!("it needs packages (`{}`)", listed.join("`, `")));
        }
        Requirements::File(file) => {
            if requires_packages(&with_path(file, open::read_to_string(file))?) {
                return built(format!("it needs packages (`{REQUIREMENTS}`)"));
            }
        }
    }
    let mut files = Vec::new();
    let mut bytes = 0;
    for path in list_sources(dir)? {
        let inside = path.strip_prefix(dir).unwrap_or(&path);
        match FilePurpose::of(inside) {
            FilePurpose::Module => {}
            FilePurpose::None => continue,
            FilePurpose::Data => {
                return built(format!(
                    "its modules may read `{}` when they are imported",
                    inside.display()
                ));
            }
        }
        let text = with_path(&path, open::read_to_string(&path))?;
        bytes += text.len() as u64;
        if bytes > MAX_SCRIPT_BYTES {
            return built(format!("it has more than {MAX_SCRIPT_BYTES} bytes"));
        }
        files.push(ModuleFile {
            path: inside.to_string_lossy().into_owned(),
            // No part of the program.
            text: text.trim_start_matches('\u{feff}').to_owned(),
            imports: BTreeMap::new(),
        });
    }
    let manifests = [MANIFEST, REQUIREMENTS].map(|name| dir.join(name));
    Ok(SourceUse::Interpreted {
        language: ScriptLanguage::Python,
        files: files
            .iter()
            .map(|file| dir.join(&file.path))
            .chain(manifests.into_iter().filter(|path| path.is_file()))
            .collect(),
        script: ScriptFile {
            name: project.name,
            source: ScriptSource::Modules(ScriptModules {
                module: project.module,
                version: project.version,
                description: project.description,
                files,
            }),
        },
    })
}

/// The purpose of a file in the directory of an action.
#[derive(Debug, PartialEq, Eq)]
enum FilePurpose {
    Module,
    /// An action does not use it.
    None,
    /// A module may read it when it is imported, which only a build allows.
    Data,
}

impl FilePurpose {
    /// Returns the purpose of a file with this path in the directory.
    fn of(inside: &Path) -> Self {
        let part = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let (stem, extension) = (part(inside.file_stem()), part(inside.extension()));
        let directory = inside.parent().unwrap_or(Path::new(""));
        let is_top_level = directory == Path::new("");
        let is_test = TEST_DIRS.iter().any(|name| directory.starts_with(name))
            || extension == MODULE && is_test_module(&stem);
        let is_manifest = inside == Path::new(MANIFEST) || inside == Path::new(REQUIREMENTS);
        // By convention, such names are those of documentation: `README.md`, `LICENSE-MIT`.
        let is_documentation = is_top_level && !stem.contains(char::is_lowercase);
        if is_test || is_manifest || NOT_READ.contains(&&*extension) {
            Self::None
        } else if extension == MODULE {
            Self::Module
        } else if is_documentation {
            Self::None
        } else {
            Self::Data
        }
    }
}

/// Returns whether this is the name of a module that test runners look for.
fn is_test_module(stem: &str) -> bool {
    stem.starts_with("test_") || stem.ends_with("_test") || stem == "conftest"
}

#[cfg(test)]
mod tests {
    use crate::tests::read_modules;

    #[test]
    fn source_without_packages_is_interpreted_and_what_modules_may_read_demands_a_build() {
        let action = ("action.py", "import words");
        let check = |files: &[(&str, &str)], expected: Result<&[&str], &str>| {
            let files: Vec<_> = [action].iter().chain(files).copied().collect();
            let found = read_modules(&files);
            match expected {
                Ok(expected) => assert_eq!(
                    found.as_deref(),
                    Ok(&expected
                        .iter()
                        .map(|&name| name.to_owned())
                        .collect::<Vec<_>>()[..])
                ),
                Err(expected) => assert!(
                    found.as_ref().is_err_and(|why| why.contains(expected)),
                    "{found:?}"
                ),
            }
        };
        check(&[], Ok(&["action.py"]));
        let beside = [
            ("README.md", ""),
            ("LICENSE", ""),
            ("requirements.txt", "# none\n\nstrata-action\n"),
            (
                "pyproject.toml",
                "[project]\ndependencies = [\"strata-action\"]\n",
            ),
            ("test_action.py", ""),
            ("tests/data.json", ""),
            ("uv.lock", ""),
            (".gitignore", ""),
            ("more/__init__.py", ""),
            ("words.py", "\u{feff}a = 1"),
        ];
        check(&beside, Ok(&["action.py", "more/__init__.py", "words.py"]));
        check(&[("prompt.md", "")], Err("`prompt.md`"));
        check(&[("more/README", "")], Err("`more/README`"));
        check(
            &[("requirements.txt", "slugify==1")],
            Err("packages (`requirements.txt`)"),
        );
        let manifest = "[project]\ndependencies = [\"slugify==1\"]\n";
        check(
            &[("pyproject.toml", manifest)],
            Err("packages (`slugify==1`)"),
        );
        let large = format!("a = '{}'", "a".repeat(1 << 20));
        check(&[("words.py", &large)], Err("1048576 bytes"));
    }
}
