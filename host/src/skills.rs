//! The shelf: components kept on this machine under the name and version that they give themselves, so that teams can
//! name them. What makes a manifest fit for it is in `fit`, which skills are meant in `wanted`, the files in `files`.

mod files;
mod fit;
#[cfg(test)]
mod tests;
mod wanted;

use std::path::{Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Serialize};
use strata_core::id::Digest;

use crate::blob::digest_of;
use crate::open;
use crate::sandbox::Manifest;
use crate::shell::word;
use crate::user;
use files::Change;
pub use wanted::{Versions, Wanted};

/// The variable that chooses the shelf.
pub const SHELF_VARIABLE: &str = "STRATA_SHELF";

/// Why something cannot be done with the shelf.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// Nobody says where it is.
    #[error(
        "there is no place for skills: neither XDG_DATA_HOME nor HOME names a directory; choose one with `{SHELF_VARIABLE}`"
    )]
    NoPlace,
    /// A file cannot be read or written.
    #[error("cannot use `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// What is asked for is no name and version.
    #[error("`{text}` does not name a skill: {why}")]
    Name {
        /// What was asked for.
        text: String,
        /// What it should be.
        why: String,
    },
    /// The component does not say what a skill has to say.
    #[error("the component cannot be a skill: {0}")]
    Unfit(String),
    /// There is none like that.
    #[error("there is no skill `{wanted}` on the shelf `{}`; {hint}", shelf.display())]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// Where it was looked for.
        shelf: PathBuf,
        /// What may have been meant.
        hint: String,
    },
    /// Another component has that name and version.
    #[error(
        "`{name}` is on the shelf already, with another component: its sha256 is `{there}`, that of the new one \
         `{new}`; give the new one another version, or remove the old one: `strata-host skill remove {}`",
        word(name)
    )]
    Taken {
        /// The name and version.
        name: String,
        /// What is there.
        there: Digest,
        /// What was to be added.
        new: Digest,
    },
    /// A file is not what was written.
    #[error("the skill `{name}` is damaged: `{}` is not what was put there; add its component again", path.display())]
    Damaged {
        /// The name and version, as the file's name gives them.
        name: String,
        /// The file.
        path: PathBuf,
    },
}

/// A component on the shelf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// The SHA-256 of the component.
    pub digest: Digest,
    /// How many bytes it has.
    pub size: u64,
    /// What it says about itself.
    pub manifest: Manifest,
}

/// What became of an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is there now.
    New,
    /// It was there before.
    Already,
}

/// What was taken from a shelf.
#[derive(Debug)]
pub struct Removed {
    /// The name and version of the skill.
    pub name: String,
    /// Entries that cannot be read. While there are any, every component stays: it may be theirs.
    pub damaged: Vec<SkillError>,
}

/// All that is on a shelf.
#[derive(Debug, Default)]
pub struct Listing {
    /// The skills, by name and version.
    pub skills: Vec<Skill>,
    /// What cannot be read.
    pub damaged: Vec<SkillError>,
}

/// A directory with components. It is made with the first one that is added.
///
/// Readers need no lock: every file is there as a whole or not at all. Those who change something wait for each other.
#[derive(Clone, Debug)]
pub struct Shelf {
    dir: PathBuf,
}

impl Skill {
    /// `NAME@VERSION`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.manifest.name, self.manifest.version)
    }

    fn version(&self) -> Option<Version> {
        self.manifest.version.parse().ok()
    }
}

impl Shelf {
    /// The shelf in this directory.
    pub fn at(dir: &Path) -> Self {
        // Who finds a skill there may look for its component from elsewhere.
        Self {
            dir: std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned()),
        }
    }

    /// The user's shelf, or the one that the environment names.
    pub fn of_user() -> Result<Self, SkillError> {
        if let Some(chosen) = std::env::var_os(SHELF_VARIABLE).filter(|dir| !dir.is_empty()) {
            return Ok(Self::at(Path::new(&chosen)));
        }
        Ok(Self::at(
            &user::data()
                .ok_or(SkillError::NoPlace)?
                .join("strata-host/skills"),
        ))
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Puts a component on the shelf, with the manifest that it gave.
    ///
    /// Adding what is there already changes nothing, but mends it where it was damaged.
    pub fn add(&self, component: &[u8], manifest: &Manifest) -> Result<(Skill, Added), SkillError> {
        fit::check(manifest).map_err(SkillError::Unfit)?;
        let digest = digest_of(component);
        let skill = Skill {
            digest,
            size: component.len() as u64,
            manifest: manifest.clone(),
        };
        let change = Change::begin(&self.dir)?;
        let before = files::read_entry(&self.dir, &skill.name());
        if let Ok(Some(there)) = &before
            && there.digest != skill.digest
        {
            let (name, there, new) = (skill.name(), there.digest.clone(), skill.digest);
            return Err(SkillError::Taken { name, there, new });
        }
        let whole =
            matches!(&before, Ok(Some(there)) if *there == skill) && self.component(&skill).is_ok();
        if whole {
            return Ok((skill, Added::Already));
        }
        // The component first: an entry never names what is not there.
        change.put_component(&skill.digest, component)?;
        change.put_entry(&skill)?;
        Ok((skill, Added::New))
    }

    /// Puts a signature beside a skill's component, in place of an older one: teams with `[trust] keys` look for it there.
    pub fn sign(&self, skill: &Skill, signature: &str) -> Result<(), SkillError> {
        Change::begin(&self.dir)?.put_signature(&skill.digest, signature)
    }

    /// All skills.
    pub fn list(&self) -> Result<Listing, SkillError> {
        let mut listing = Listing::default();
        for name in files::names(&self.dir)? {
            match files::read_entry(&self.dir, &name) {
                Ok(Some(skill)) => listing.skills.push(skill),
                // It was removed meanwhile.
                Ok(None) => {}
                Err(error) => listing.damaged.push(error),
            }
        }
        let key = |skill: &Skill| (skill.manifest.name.clone(), skill.version());
        listing.skills.sort_by_key(key);
        Ok(listing)
    }

    /// The skills whose name or description holds every word, in any case. Those that are named so come first.
    pub fn search(&self, words: &[String]) -> Result<Listing, SkillError> {
        let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let mut listing = self.list()?;
        let holds = |text: &str| {
            let text = text.to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let told =
            |skill: &Skill| format!("{} {}", skill.manifest.name, skill.manifest.description);
        listing.skills.retain(|skill| holds(&told(skill)));
        listing
            .skills
            .sort_by_key(|skill| !holds(&skill.manifest.name));
        Ok(listing)
    }

    /// The skill that is meant; of several versions the newest.
    pub fn find(&self, wanted: &Wanted) -> Result<Skill, SkillError> {
        if let Versions::Exactly(version) = &wanted.versions
            && let Some(skill) =
                files::read_entry(&self.dir, &format!("{}@{version}", wanted.name))?
        {
            return Ok(skill);
        }
        let Listing { skills, damaged } = self.list()?;
        let fitting = skills
            .iter()
            .filter(|skill| skill.manifest.name == wanted.name);
        let fitting = fitting.filter(|skill| {
            skill
                .version()
                .is_some_and(|version| wanted.versions.fit(&version))
        });
        let newest = fitting.max_by_key(|skill| skill.version());
        // One that would have been taken, were it whole, is not passed over.
        let better = |version: &Version| {
            newest
                .and_then(Skill::version)
                .is_none_or(|newest| newest < *version)
        };
        let is_meant = |error: &SkillError| match error {
            SkillError::Damaged { name, .. } => {
                name.rsplit_once('@').is_some_and(|(name, version)| {
                    let version = version
                        .parse()
                        .ok()
                        .filter(|version| wanted.versions.fit(version));
                    name == wanted.name && version.is_some_and(|version| better(&version))
                })
            }
            _ => false,
        };
        if let Some(damaged) = damaged.into_iter().find(is_meant) {
            return Err(damaged);
        }
        newest.cloned().ok_or_else(|| SkillError::Unknown {
            wanted: wanted.to_string(),
            shelf: self.dir.clone(),
            hint: wanted.hint(&skills),
        })
    }

    /// Where a skill's component is.
    pub fn file(&self, skill: &Skill) -> PathBuf {
        files::component(&self.dir, &skill.digest)
    }

    /// A skill's component, if it is undamaged.
    pub fn component(&self, skill: &Skill) -> Result<Vec<u8>, SkillError> {
        let path = self.file(skill);
        let bytes = open::read(&path).map_err(|source| SkillError::File {
            path: path.clone(),
            source,
        })?;
        if digest_of(&bytes) != skill.digest {
            return Err(SkillError::Damaged {
                name: skill.name(),
                path,
            });
        }
        Ok(bytes)
    }

    /// Takes a skill from the shelf, and the components that no skill names any more. Teams that name it no longer run.
    pub fn remove(&self, wanted: &Wanted) -> Result<Removed, SkillError> {
        let Versions::Exactly(version) = &wanted.versions else {
            let why = "only one version is removed at a time: `name@1.2.3`".into();
            return Err(SkillError::Name {
                text: wanted.to_string(),
                why,
            });
        };
        let name = format!("{}@{version}", wanted.name);
        let change = Change::begin(&self.dir)?;
        if !change.remove_entry(&name)? {
            // Says what else there is.
            self.find(wanted)?;
        }
        let Listing { skills, damaged } = self.list()?;
        // Nobody knows which components the damaged ones name: what is mended later must find its own.
        if damaged.is_empty() {
            change
                .remove_components_but(&skills.into_iter().map(|skill| skill.digest).collect())?;
        }
        Ok(Removed { name, damaged })
    }
}
