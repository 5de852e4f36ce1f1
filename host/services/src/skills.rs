//! Skills of roles whose model works with tools: directories in the Agent Skills format, with a
//! `SKILL.md` and further files.
//!
//! A skill is text that a model reads when it needs it, and scripts that run in the sandbox. It grants
//! nothing: what its scripts may do is in the team file, and what its texts ask for has no effect on
//! the host. `front_matter` reads the head of a `SKILL.md`, `files` the directory.

pub mod files;
pub mod front_matter;

use std::path::PathBuf;

use strata_core::record::id::{Digest, SkillLanguage};
use strata_core::text::is_invisible;

/// The name of the file that makes a directory a skill.
pub const SKILL_FILE: &str = "SKILL.md";
/// Where scripts see the files of their skill.
pub const SKILL_MOUNT: &str = "/skill";
/// The directory of a skill with the scripts that can be run.
const SCRIPTS: &str = "scripts/";

/// A skill that a role has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// Its name, by which the model loads it.
    pub name: String,
    /// What it is for, which the model always knows.
    pub description: String,
    /// Its directory.
    pub directory: PathBuf,
    /// The digest that its files must have, if they are locked.
    pub pin: Option<Digest>,
}

impl Skill {
    /// Returns the line with which a model is told about it.
    pub fn line(&self) -> String {
        let description = self.description.replace(is_invisible, " ");
        let words: Vec<&str> = description.split_whitespace().collect();
        format!("- {}: {}", self.name, words.join(" "))
    }
}

/// Returns the language of a script of a skill, given its path in the skill. Returns `None` if the file
/// can only be read.
pub fn script_language(path: &str) -> Option<SkillLanguage> {
    let name = path.trim_start_matches("./").strip_prefix(SCRIPTS)?;
    match name.rsplit_once('.')? {
        (_, "py") => Some(SkillLanguage::Python),
        (_, "js" | "mjs") => Some(SkillLanguage::JavaScript),
        _ => None,
    }
}
