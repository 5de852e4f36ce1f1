//! Reads the `package.json` of an action.

use strata_base::files::open;
use strata_core::record::json::lenient;
use strata_core::record::json::lenient::NonFinite;

use crate::{BuildError, with_path};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::Path;

/// The file that describes a package.
pub const MANIFEST: &str = "package.json";
/// Where the source is looked for if package.json does not name it.
const ENTRIES: [&str; 8] = [
    "src/action.ts",
    "src/action.js",
    "src/index.ts",
    "src/index.js",
    "action.ts",
    "action.js",
    "index.ts",
    "index.js",
];
/// What an action may export besides its handler.
const INTERFACES: [&str; 2] = ["planner", "thinker"];

/// An action's package.
#[derive(Debug, PartialEq, Eq)]
pub struct NodePackage {
    /// Its name.
    pub name: String,
    /// Its source, relative to its directory.
    pub entry: String,
    /// The names of the packages that it depends on, other than the SDK.
    pub dependencies: Vec<String>,
    /// Its version.
    pub version: String,
    /// Its description; empty if it has none.
    pub description: String,
    exports: Vec<String>,
}

#[derive(Deserialize)]
struct PackageJson {
    name: Option<String>,
    #[serde(default)]
    version: String,
    #[serde(default)]
    description: String,
    main: Option<String>,
    #[serde(default)]
    exports: Value,
    #[serde(default)]
    dependencies: Map<String, Value>,
    #[serde(default)]
    strata: PackageJsonStrata,
}

#[derive(Default, Deserialize)]
struct PackageJsonStrata {
    #[serde(default)]
    exports: Vec<String>,
}

impl NodePackage {
    /// Reads package.json in `dir`.
    pub fn read(dir: &Path) -> Result<Self, BuildError> {
        let path = dir.join(MANIFEST);
        let text = with_path(&path, open::read_to_string(&path))?;
        let refused = |details: String| BuildError::Compile {
            dir: dir.to_owned(),
            details,
        };
        let authored = lenient::parse(&text, NonFinite::Refused, |text| {
            serde_json::from_str::<PackageJson>(text)
        });
        let authored = authored.map_err(|error| refused(format!("package.json: it is {error}")))?;
        if let Some(other) = authored
            .strata
            .exports
            .iter()
            .find(|name| !INTERFACES.contains(&name.as_str()))
        {
            let known = "`planner` and `thinker`";
            return Err(refused(format!(
                "package.json: `strata.exports` names `{other}`; there are {known}"
            )));
        }
        let named = dir
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        Ok(Self {
            entry: find_entry(dir, &authored).map_err(refused)?,
            name: authored.name.or(named).unwrap_or_else(|| "action".into()),
            dependencies: authored
                .dependencies
                .keys()
                .filter(|name| *name != "@strata/action")
                .cloned()
                .collect(),
            version: authored.version,
            description: authored.description,
            exports: authored.strata.exports,
        })
    }

    /// Returns the name with all characters replaced that a file name should not contain, such as
    /// the slash of a scope.
    pub fn file_name(&self) -> String {
        self.name.trim_start_matches('@').replace(
            |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c),
            "-",
        )
    }

    /// Returns whether its source is TypeScript.
    pub fn is_typescript(&self) -> bool {
        [".ts", ".mts", ".cts"]
            .iter()
            .any(|ending| self.entry.ends_with(ending))
    }

    /// Returns the component's metadata: name, version, description, and what it exports besides
    /// its handler.
    pub fn metadata(&self) -> Value {
        json!({
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "exports": self.exports,
        })
    }
}

fn find_entry(dir: &Path, authored: &PackageJson) -> Result<String, String> {
    let exported = authored
        .exports
        .as_str()
        .or_else(|| authored.exports.get(".")?.as_str());
    let entry = match exported.or(authored.main.as_deref()) {
        Some(named) => named,
        None => ENTRIES.into_iter().find(|entry| dir.join(entry).is_file()).ok_or(
            "no source was found: write `src/action.ts` or `src/action.js`, or name it as `main` in package.json",
        )?,
    };
    if dir.join(entry).is_file() {
        Ok(entry.trim_start_matches("./").to_owned())
    } else {
        Err(format!(
            "package.json names the entry `{entry}`, which is no file"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(package: &str, files: &[&str]) -> Result<NodePackage, String> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("src")).expect("a directory");
        fs::write(dir.path().join("package.json"), package).expect("a manifest");
        for file in files {
            fs::write(dir.path().join(file), "").expect("a source");
        }
        NodePackage::read(dir.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_source_is_what_the_package_names_or_else_where_it_usually_lies() {
        let cases = [
            (r#"{"main":"./a.js"}"#, ["a.js", "index.js"], "a.js"),
            (
                r#"{"exports":"./b.js","main":"a.js"}"#,
                ["a.js", "b.js"],
                "b.js",
            ),
            (r#"{"exports":{".":"./b.js"}}"#, ["a.js", "b.js"], "b.js"),
            ("{}", ["index.js", "src/action.ts"], "src/action.ts"),
            ("{}", ["index.js", "a.js"], "index.js"),
        ];
        for (package, files, expected) in cases {
            assert_eq!(read(package, &files).expect(package).entry, expected);
        }
    }

    #[test]
    fn what_is_wrong_with_a_package_is_said() {
        let cases = [
            ("{}", "write `src/action.ts` or `src/action.js`"),
            (
                r#"{"main":"gone.js"}"#,
                "names the entry `gone.js`, which is no file",
            ),
            (
                r#"{"main":"a.js","strata":{"exports":["chooser"]}}"#,
                "`strata.exports` names `chooser`",
            ),
            (
                "{",
                "package.json: it is not a JSON document: EOF while parsing",
            ),
            (
                "\u{feff}{",
                "package.json: it is not a JSON document: EOF while parsing",
            ),
        ];
        for (package, expected) in cases {
            let error = read(package, &["a.js"]).expect_err(expected);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_scope_is_no_directory() {
        let package =
            read(r#"{"name":"@team/count words","main":"a.js"}"#, &["a.js"]).expect("it is sound");
        assert_eq!(package.file_name(), "team-count-words");
    }
}
