//! Parses the name of a skill with its versions: `name@1.2.3`, or the newest of `name@^1.2` or
//! `name@~1.2`.

use std::fmt;
use std::str::FromStr;

use semver::{Version, VersionReq};
use strata_base::text::suggest::suggest;

use super::{Skill, SkillError, manifest_check};

/// The name of a skill and the acceptable versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillSpec {
    /// The name.
    pub name: String,
    /// The versions.
    pub versions: SkillVersions,
}

/// The acceptable versions of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillVersions {
    /// Exactly this one.
    Exactly(Version),
    /// The newest of these.
    Newest(VersionReq),
}

impl SkillVersions {
    pub(super) fn matches(&self, version: &Version) -> bool {
        match self {
            Self::Exactly(wanted) => wanted == version,
            Self::Newest(wanted) => wanted.matches(version),
        }
    }
}

impl SkillSpec {
    /// Returns the skills that may be meant if there is no such skill.
    pub(super) fn suggestion(&self, skills: &[Skill]) -> Option<String> {
        let versions = skills
            .iter()
            .filter(|skill| skill.manifest.name == self.name);
        let versions: Vec<String> = versions
            .map(|skill| format!("`{}`", skill.name()))
            .collect();
        if !versions.is_empty() {
            return Some(format!("there is {}", versions.join(", ")));
        }
        let names: Vec<String> = skills.iter().map(Skill::name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        suggest(&self.to_string(), &names)
    }
}

impl FromStr for SkillSpec {
    type Err = SkillError;

    fn from_str(text: &str) -> Result<Self, SkillError> {
        let refuse = |why: String| SkillError::Name {
            text: text.into(),
            why,
        };
        let form = "expected a name and a version: `write-code@1.0.0`, or `write-code@^1` for the newest of those";
        let (name, version) = text.split_once('@').ok_or_else(|| refuse(form.into()))?;
        manifest_check::check_name(name).map_err(|why| refuse(format!("the name {why}")))?;
        let wrong =
            |error: semver::Error| refuse(format!("the version is wrong ({error}); {form}"));
        let versions = if version.starts_with(['^', '~']) {
            SkillVersions::Newest(version.parse().map_err(wrong)?)
        } else {
            SkillVersions::Exactly(version.parse().map_err(wrong)?)
        };
        Ok(Self {
            name: name.into(),
            versions,
        })
    }
}

impl fmt::Display for SkillSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.versions {
            SkillVersions::Exactly(version) => write!(f, "{}@{version}", self.name),
            SkillVersions::Newest(versions) => write!(f, "{}@{versions}", self.name),
        }
    }
}
