//! Reads the `pyproject.toml` of a Python action, which is optional.

use strata_base::files::open;

use crate::sources::SourceKind;
use crate::{BuildError, with_path};
use serde::Deserialize;
use std::path::{Path, PathBuf};

pub const MANIFEST: &str = "pyproject.toml";
/// The file for requirements that are not in the manifest.
pub const REQUIREMENTS: &str = "requirements.txt";
/// The SDK. It is not on PyPI, so it is ignored in requirements, where it may be listed for
/// editors: the action gets the one of this program.
const SDK_NAME: &str = "strata-action";

/// A Python action.
#[derive(Debug)]
pub struct PythonProject {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its description; empty if the manifest has none.
    pub description: String,
    /// The name of the module with the action.
    pub module: String,
    exports: Vec<OptionalExport>,
    /// The packages it needs.
    pub requirements: Requirements,
}

/// The packages that an action needs.
#[derive(Debug, PartialEq, Eq)]
pub enum Requirements {
    /// In a requirements file for pip.
    File(PathBuf),
    /// In the manifest.
    Listed(Vec<String>),
}

/// An optional export of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum OptionalExport {
    Thinker,
    Planner,
}

#[derive(Debug, Default, Deserialize)]
struct PyprojectToml {
    #[serde(default)]
    project: PyprojectMetadata,
    #[serde(default)]
    tool: PyprojectTools,
}

#[derive(Debug, Default, Deserialize)]
struct PyprojectMetadata {
    name: Option<String>,
    version: Option<String>,
    description: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct PyprojectTools {
    #[serde(default)]
    strata: PyprojectStrata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PyprojectStrata {
    module: Option<String>,
    #[serde(default)]
    exports: Vec<OptionalExport>,
}

impl PythonProject {
    /// Reads the manifest in a directory, with defaults for what is missing.
    pub fn read(dir: &Path) -> Result<Self, BuildError> {
        let path = dir.join(MANIFEST);
        let refused = |details: String| BuildError::Compile {
            dir: dir.to_owned(),
            details,
        };
        let manifest: PyprojectToml = if path.is_file() {
            let text = with_path(&path, open::read_to_string(&path))?;
            toml::from_str(&text).map_err(|error| refused(format!("{MANIFEST}: {error}")))?
        } else {
            PyprojectToml::default()
        };
        let PyprojectMetadata {
            name,
            version,
            description,
            dependencies,
        } = manifest.project;
        let of_dir = || {
            dir.file_name()
                .map(|name| name.to_string_lossy().into_owned())
        };
        let name = name.or_else(of_dir).unwrap_or_else(|| "action".into());
        if !is_valid_name(&name) {
            let hint = "names are made of letters, digits, `-`, `_` and `.`; set `[project] name` in pyproject.toml";
            return Err(refused(format!("`{name}` is no name of an action: {hint}")));
        }
        let file = dir.join(REQUIREMENTS);
        let requirements = if file.is_file() {
            Requirements::File(file)
        } else {
            Requirements::Listed(
                dependencies
                    .into_iter()
                    .filter(|listed| !is_sdk(listed))
                    .collect(),
            )
        };
        let module = manifest
            .tool
            .strata
            .module
            .unwrap_or_else(|| "action".into());
        if !module.split('.').all(is_identifier) {
            return Err(refused(format!(
                "{MANIFEST}: `tool.strata.module`: `{module}` is no name of a module"
            )));
        }
        Ok(Self {
            name,
            version: version.unwrap_or_else(|| "0.0.0".into()),
            description: description.unwrap_or_default(),
            module,
            exports: manifest.tool.strata.exports,
            requirements,
        })
    }

    /// Returns the name of the component's WIT world.
    pub fn world(&self) -> &'static str {
        let exports = |export| self.exports.contains(&export);
        match (
            exports(OptionalExport::Thinker),
            exports(OptionalExport::Planner),
        ) {
            (false, false) => "action",
            (true, false) => "thinking-action",
            (false, true) => "planning-action",
            (true, true) => "versatile-action",
        }
    }

    /// Returns the source of the entry module.
    pub fn entry_source(&self, kind: SourceKind) -> String {
        let Self {
            name,
            version,
            description,
            module,
            ..
        } = self;
        // A JSON string is also a valid Python literal.
        let [name, version, description] = [name, version, description]
            .map(|text| serde_json::Value::from(text.as_str()).to_string());
        // Scripts import modules in each call.
        let compiled = match kind {
            SourceKind::Action => "False",
            SourceKind::Interpreter => "True",
        };
        // The objects of the SDK and of the author's module are created next to each other, because
        // calls use them together.
        format!(
            "import strata_library, strata_snapshot\n\
             strata_library.keep(compiled={compiled})\n\
             strata_snapshot.fill_gaps()\n\
             from strata_action import wasm\n\
             import {module} as author\n\
             for export in wasm.bind({name}, {version}, {description}, author):\n    \
             globals()[export.__name__] = export\n"
        )
    }
}

/// Returns whether a requirements file lists packages besides the SDK.
pub fn requires_packages(requirements: &str) -> bool {
    let lines = requirements
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .any(|line| !is_sdk(line))
}

fn is_valid_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(plain)
}

fn is_identifier(part: &str) -> bool {
    !part.starts_with(|c: char| c.is_numeric())
        && !part.is_empty()
        && part.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn is_sdk(requirement: &str) -> bool {
    let end = requirement.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    requirement[..end.unwrap_or(requirement.len())]
        .replace(['_', '.'], "-")
        .eq_ignore_ascii_case(SDK_NAME)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(
        manifest: Option<&str>,
        requirements: Option<&str>,
    ) -> Result<PythonProject, BuildError> {
        let parent = tempfile::tempdir().expect("a directory");
        let dir = parent.path().join("greet");
        fs::create_dir(&dir).expect("a directory");
        for (name, text) in [(MANIFEST, manifest), (REQUIREMENTS, requirements)] {
            if let Some(text) = text {
                fs::write(dir.join(name), text).expect("a file");
            }
        }
        PythonProject::read(&dir)
    }

    #[test]
    fn what_is_not_said_is_told_by_the_directory() {
        let project = read(None, None).expect("it needs no manifest");
        assert_eq!(
            (project.name.as_str(), project.world()),
            ("greet", "action")
        );
        assert_eq!(project.requirements, Requirements::Listed(Vec::new()));
        let entry = project.entry_source(SourceKind::Action);
        assert!(entry.contains("import action as author\n") && entry.contains("compiled=False"));
    }

    #[test]
    fn the_manifest_says_what_is_built() {
        let manifest = "[project]\nname = \"wave\"\ndescription = 'says \"hi\"'\n\
            dependencies = [\"strata_action>=0.1\", \"slugify==1\"]\n\
            [tool.strata]\nmodule = \"a.b\"\nexports = [\"planner\", \"thinker\"]\n[tool.other]\nx = 1\n";
        let project = read(Some(manifest), None).expect("it is right");
        assert_eq!(
            (project.name.as_str(), project.world()),
            ("wave", "versatile-action")
        );
        assert_eq!(
            project.requirements,
            Requirements::Listed(vec!["slugify==1".into()])
        );
        let entry = project.entry_source(SourceKind::Interpreter);
        assert!(
            entry.contains("import a.b as author") && entry.contains(r#""says \"hi\"""#),
            "{entry}"
        );
        let locked = read(Some(manifest), Some("slugify==2")).expect("it is right");
        assert!(matches!(locked.requirements, Requirements::File(_)));
    }

    #[test]
    fn a_manifest_that_is_wrong_says_where() {
        let cases = [
            ("[project", "pyproject.toml: "),
            (
                "[project]\nname = \"../x\"\n",
                "`../x` is no name of an action",
            ),
            ("[tool.strata]\nmodul = \"x\"\n", "unknown field `modul`"),
            (
                "[tool.strata]\nexports = [\"singer\"]\n",
                "unknown variant `singer`",
            ),
            (
                "[tool.strata]\nmodule = \"a; import os\"\n",
                "`a; import os` is no name of a module",
            ),
        ];
        for (manifest, expected) in cases {
            let error = read(Some(manifest), None).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
