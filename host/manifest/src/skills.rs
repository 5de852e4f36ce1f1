//! The shelf: components that are stored on this machine under the name and version in their
//! manifest, so that teams can name them. `fit` checks manifests, `wanted` parses names of skills,
//! and `files` handles the files.

mod files;
mod manifest_check;
mod spec;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Serialize};
use strata_base::advice::Advice;
use strata_base::files::blob::digest_of;
use strata_base::files::open;
use strata_base::files::user;
use strata_base::text::display_path::absolute_path;
use strata_base::text::unexpanded_path::UnexpandedPath;
use strata_core::record::id::Digest;

use files::ShelfWriter;
pub use spec::{SkillSpec, SkillVersions};
use strata_sandbox::ComponentManifest;

/// The environment variable that selects the shelf.
pub const SHELF_VARIABLE: &str = "STRATA_SHELF";

/// The reason why an operation on the shelf failed.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// No directory is known.
    #[error(
        "there is no place for skills: neither XDG_DATA_HOME nor HOME names a directory; choose one with `{SHELF_VARIABLE}`"
    )]
    NoPlace,
    /// The path of the shelf was written for a shell.
    #[error("`${SHELF_VARIABLE}` names no shelf: {0}: {hint}", hint = .0.hint())]
    Unexpanded(UnexpandedPath),
    /// A file cannot be read or written.
    #[error("cannot use `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A text is not a name and version.
    #[error("`{text}` does not name a skill: {why}")]
    Name {
        /// The text.
        text: String,
        /// What is expected.
        why: String,
    },
    /// The component's manifest lacks what a skill requires.
    #[error("the component cannot be a skill: {0}")]
    Unfit(String),
    /// There is no such skill.
    #[error("there is no skill `{wanted}` on the shelf `{}`{}", shelf.display(), format_suggestion(suggestion.as_deref()))]
    Unknown {
        /// The requested skill.
        wanted: String,
        /// The shelf that was searched.
        shelf: PathBuf,
        /// The skills that may be meant.
        suggestion: Option<String>,
    },
    /// Another component has this name and version.
    #[error(
        "`{name}` is on the shelf already, with another component: its sha256 is `{existing}`, that of the new one \
         `{new}`"
    )]
    Taken {
        /// The name and version.
        name: String,
        /// The component on the shelf.
        existing: Digest,
        /// The component that was to be added.
        new: Digest,
    },
    /// A file was changed or damaged.
    #[error("the skill `{name}` is damaged: `{}` is not what was put there; add its component again", path.display())]
    Damaged {
        /// The name and version, according to the file's name.
        name: String,
        /// The file.
        path: PathBuf,
    },
}

impl SkillError {
    /// Returns what the user can do about it, if a command of the program helps.
    pub fn advice(&self) -> Option<Advice> {
        match self {
            Self::Unknown {
                suggestion: None, ..
            } => Some(Advice::AddSkill),
            Self::Taken { name, .. } => Some(Advice::ReplaceSkill { name: name.clone() }),
            _ => None,
        }
    }
}

fn format_suggestion(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |known| format!("; {known}"))
}

/// A component on the shelf.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skill {
    /// The SHA-256 of the component.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Its manifest.
    pub manifest: ComponentManifest,
}

/// The outcome of adding a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddOutcome {
    /// It was added.
    New,
    /// It was on the shelf already.
    Unchanged,
}

/// The result of removing a skill.
#[derive(Debug)]
pub struct RemovedSkill {
    /// The name and version of the skill.
    pub name: String,
    /// Entries that cannot be read. As long as there are any, no component is deleted, because it
    /// may belong to one of them.
    pub damaged: Vec<SkillError>,
}

/// The contents of a shelf.
#[derive(Debug, Default)]
pub struct SkillListing {
    /// The skills, by name and version.
    pub skills: Vec<Skill>,
    /// The entries that cannot be read.
    pub damaged: Vec<SkillError>,
}

/// A directory of components. It is created when the first one is added.
///
/// Readers need no lock, because files are replaced atomically. Writers wait for each other.
#[derive(Clone, Debug)]
pub struct Shelf {
    dir: PathBuf,
}

impl Skill {
    /// Returns `NAME@VERSION`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.manifest.name, self.manifest.version)
    }

    fn version(&self) -> Option<Version> {
        self.manifest.version.parse().ok()
    }
}

impl Shelf {
    /// Returns the shelf in a directory.
    pub fn in_directory(dir: &Path) -> Self {
        // The path is made absolute because the working directory may be another one when a
        // component is loaded.
        Self {
            dir: absolute_path(dir),
        }
    }

    /// Returns the user's shelf, or the one that the environment variable names.
    pub fn for_user() -> Result<Self, SkillError> {
        if let Some(chosen) = std::env::var_os(SHELF_VARIABLE).filter(|dir| !dir.is_empty()) {
            return match UnexpandedPath::find(&chosen.to_string_lossy()) {
                Some(unexpanded) => Err(SkillError::Unexpanded(unexpanded)),
                None => Ok(Self::in_directory(Path::new(&chosen))),
            };
        }
        Ok(Self::in_directory(
            &user::data_dir()
                .ok_or(SkillError::NoPlace)?
                .join("strata-host/skills"),
        ))
    }

    /// Returns its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Puts a component on the shelf, with the manifest that it returned.
    ///
    /// If it is on the shelf already, nothing changes, except that damaged files are replaced.
    pub fn add(
        &self,
        component: &[u8],
        manifest: &ComponentManifest,
    ) -> Result<(Skill, AddOutcome), SkillError> {
        manifest_check::check_manifest(manifest).map_err(SkillError::Unfit)?;
        let digest = digest_of(component);
        let skill = Skill {
            digest,
            size: component.len() as u64,
            manifest: manifest.clone(),
        };
        let change = ShelfWriter::lock(&self.dir)?;
        let before = files::read_entry(&self.dir, &skill.name());
        if let Ok(Some(there)) = &before
            && there.digest != skill.digest
        {
            let (name, there, new) = (skill.name(), there.digest.clone(), skill.digest);
            return Err(SkillError::Taken {
                name,
                existing: there,
                new,
            });
        }
        let whole =
            matches!(&before, Ok(Some(there)) if *there == skill) && self.component(&skill).is_ok();
        if whole {
            return Ok((skill, AddOutcome::Unchanged));
        }
        // The component is written first, so that an entry never names a missing one.
        change.put_component(&skill.digest, component)?;
        change.put_entry(&skill)?;
        Ok((skill, AddOutcome::New))
    }

    /// Stores a signature with a skill's component and replaces an older one. Teams with `[trust]
    /// keys` require it.
    pub fn sign(&self, skill: &Skill, signature: &str) -> Result<(), SkillError> {
        ShelfWriter::lock(&self.dir)?.put_signature(&skill.digest, signature)
    }

    /// Returns all skills.
    pub fn list(&self) -> Result<SkillListing, SkillError> {
        let mut listing = SkillListing::default();
        for name in files::entry_names(&self.dir)? {
            match files::read_entry(&self.dir, &name) {
                Ok(Some(skill)) => listing.skills.push(skill),
                // It was removed in the meantime.
                Ok(None) => {}
                Err(error) => listing.damaged.push(error),
            }
        }
        let key = |skill: &Skill| (skill.manifest.name.clone(), skill.version());
        listing.skills.sort_by_key(key);
        Ok(listing)
    }

    /// Returns the skills whose name or description contains every word, ignoring case. Those whose
    /// name contains every word come first.
    pub fn search(&self, words: &[String]) -> Result<SkillListing, SkillError> {
        let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        let mut listing = self.list()?;
        let holds = |text: &str| {
            let text = text.to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let searched_text =
            |skill: &Skill| format!("{} {}", skill.manifest.name, skill.manifest.description);
        listing.skills.retain(|skill| holds(&searched_text(skill)));
        listing
            .skills
            .sort_by_key(|skill| !holds(&skill.manifest.name));
        Ok(listing)
    }

    /// Returns the skill that is requested. If several versions match, returns the newest.
    pub fn find(&self, wanted: &SkillSpec) -> Result<Skill, SkillError> {
        if let SkillVersions::Exactly(version) = &wanted.versions
            && let Some(skill) =
                files::read_entry(&self.dir, &format!("{}@{version}", wanted.name))?
        {
            return Ok(skill);
        }
        let SkillListing { skills, damaged } = self.list()?;
        let fitting = skills
            .iter()
            .filter(|skill| skill.manifest.name == wanted.name);
        let fitting = fitting.filter(|skill| {
            skill
                .version()
                .is_some_and(|version| wanted.versions.matches(&version))
        });
        let newest = fitting.max_by_key(|skill| skill.version());
        // If a damaged entry would be the newest match, that is an error.
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
                        .filter(|version| wanted.versions.matches(version));
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
            suggestion: wanted.suggestion(&skills),
        })
    }

    /// Returns the path of a skill's component.
    pub fn file(&self, skill: &Skill) -> PathBuf {
        files::component_path(&self.dir, &skill.digest)
    }

    /// Returns a skill's component. Fails if it is damaged.
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

    /// Removes a skill from the shelf, and the components that no remaining skill names. Teams that
    /// name it no longer run.
    pub fn remove(&self, wanted: &SkillSpec) -> Result<RemovedSkill, SkillError> {
        let SkillVersions::Exactly(version) = &wanted.versions else {
            let why = "only one version is removed at a time: `name@1.2.3`".into();
            return Err(SkillError::Name {
                text: wanted.to_string(),
                why,
            });
        };
        let name = format!("{}@{version}", wanted.name);
        let change = ShelfWriter::lock(&self.dir)?;
        if !change.remove_entry(&name)? {
            // This error lists the other versions.
            self.find(wanted)?;
        }
        let SkillListing { skills, damaged } = self.list()?;
        // It is unknown which components the damaged entries name. Once they are repaired, their
        // components have to exist.
        if damaged.is_empty() {
            change.remove_components_except(
                &skills.into_iter().map(|skill| skill.digest).collect(),
            )?;
        }
        Ok(RemovedSkill { name, damaged })
    }
}
