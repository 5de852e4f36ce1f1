//! What a Python action says about itself: its `pyproject.toml`, or the lack of one.

use crate::build::{BuildError, at};
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

const MANIFEST: &str = "pyproject.toml";
/// The requirements of an action that holds them in a file of their own.
const REQUIREMENTS: &str = "requirements.txt";
/// The SDK, which is no package of PyPI's: whoever lists it, for an editor's sake, gets the one of this program.
const SDK_NAME: &str = "strata-action";

/// A Python action.
#[derive(Debug)]
pub struct Project {
    /// Its name.
    pub name: String,
    version: String,
    description: String,
    module: String,
    exports: Vec<Export>,
    /// The packages it needs.
    pub requirements: Requirements,
}

/// Where it is written which packages an action needs.
#[derive(Debug, PartialEq, Eq)]
pub enum Requirements {
    /// In this file, for pip.
    File(PathBuf),
    /// In the manifest.
    Listed(Vec<String>),
}

/// What an action can do beside acting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Export {
    Thinker,
    Planner,
}

#[derive(Debug, Default, Deserialize)]
struct Manifest {
    #[serde(default)]
    project: Metadata,
    #[serde(default)]
    tool: Tools,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    name: Option<String>,
    version: Option<String>,
    description: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Tools {
    #[serde(default)]
    strata: Settings,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    module: Option<String>,
    #[serde(default)]
    exports: Vec<Export>,
}

impl Project {
    /// Reads what the directory says.
    pub fn read(dir: &Path) -> Result<Self, BuildError> {
        let path = dir.join(MANIFEST);
        let refused = |details: String| BuildError::Compile { dir: dir.to_owned(), details };
        let manifest: Manifest = if path.is_file() {
            let text = at(&path, fs::read_to_string(&path))?;
            toml::from_str(&text).map_err(|error| refused(format!("{MANIFEST}: {error}")))?
        } else {
            Manifest::default()
        };
        let Metadata { name, version, description, dependencies } = manifest.project;
        let of_dir = || dir.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.or_else(of_dir).unwrap_or_else(|| "action".into());
        if !is_name(&name) {
            let hint = "names are made of letters, digits, `-`, `_` and `.`; set `[project] name` in pyproject.toml";
            return Err(refused(format!("`{name}` is no name of an action: {hint}")));
        }
        let file = dir.join(REQUIREMENTS);
        let requirements = if file.is_file() {
            Requirements::File(file)
        } else {
            Requirements::Listed(dependencies.into_iter().filter(|listed| !is_sdk(listed)).collect())
        };
        let module = manifest.tool.strata.module.unwrap_or_else(|| "action".into());
        if !module.split('.').all(is_identifier) {
            return Err(refused(format!("{MANIFEST}: `tool.strata.module`: `{module}` is no name of a module")));
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

    /// The world that the component is made for.
    pub fn world(&self) -> &'static str {
        let exports = |export| self.exports.contains(&export);
        match (exports(Export::Thinker), exports(Export::Planner)) {
            (false, false) => "action",
            (true, false) => "thinking-action",
            (false, true) => "planning-action",
            (true, true) => "versatile-action",
        }
    }

    /// The source of the module that the component is made from.
    pub fn entry(&self) -> String {
        let Self { name, version, description, module, .. } = self;
        // A JSON string is a literal of Python's, too.
        let [name, version, description] =
            [name, version, description].map(|text| serde_json::Value::from(text.as_str()).to_string());
        format!(
            "from strata_action import wasm\n\
             import {module} as author\n\
             for export in wasm.bind({name}, {version}, {description}, author):\n    \
             globals()[export.__name__] = export\n"
        )
    }
}

fn is_name(name: &str) -> bool {
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
    requirement[..end.unwrap_or(requirement.len())].replace(['_', '.'], "-").eq_ignore_ascii_case(SDK_NAME)
}
