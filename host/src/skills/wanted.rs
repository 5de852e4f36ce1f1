//! Parses the name of a skill with its versions: `name@1.2.3`, or the newest of `name@^1.2` or
//! `name@~1.2`.

use std::fmt;
use std::str::FromStr;

use semver::{Version, VersionReq};

use super::{Skill, SkillError, fit};
use crate::suggest::suggest;

/// The name of a skill and the acceptable versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The name.
    pub name: String,
    /// The versions.
    pub versions: Versions,
}

/// The acceptable versions of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Versions {
    /// Exactly this one.
    Exactly(Version),
    /// The newest of these.
    Newest(VersionReq),
}

impl Versions {
    pub(super) fn fit(&self, version: &Version) -> bool {
        match self {
            Self::Exactly(wanted) => wanted == version,
            Self::Newest(wanted) => wanted.matches(version),
        }
    }
}

impl Wanted {
    /// Returns a suggestion if there is no such skill.
    pub(super) fn hint(&self, skills: &[Skill]) -> String {
        let versions = skills
            .iter()
            .filter(|skill| skill.manifest.name == self.name);
        let versions: Vec<String> = versions
            .map(|skill| format!("`{}`", skill.name()))
            .collect();
        if !versions.is_empty() {
            return format!("there is {}", versions.join(", "));
        }
        let names: Vec<String> = skills.iter().map(Skill::name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let add = "add one with `strata-host skill add COMPONENT`";
        suggest(&self.to_string(), &names).unwrap_or_else(|| add.into())
    }
}

impl FromStr for Wanted {
    type Err = SkillError;

    fn from_str(text: &str) -> Result<Self, SkillError> {
        let refuse = |why: String| SkillError::Name {
            text: text.into(),
            why,
        };
        let form = "expected a name and a version: `write-code@1.0.0`, or `write-code@^1` for the newest of those";
        let (name, version) = text.split_once('@').ok_or_else(|| refuse(form.into()))?;
        fit::name(name).map_err(|why| refuse(format!("the name {why}")))?;
        let wrong =
            |error: semver::Error| refuse(format!("the version is wrong ({error}); {form}"));
        let versions = match version.starts_with(['^', '~']) {
            true => Versions::Newest(version.parse().map_err(wrong)?),
            false => Versions::Exactly(version.parse().map_err(wrong)?),
        };
        Ok(Self {
            name: name.into(),
            versions,
        })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.versions {
            Versions::Exactly(version) => write!(f, "{}@{version}", self.name),
            Versions::Newest(versions) => write!(f, "{}@{versions}", self.name),
        }
    }
}
