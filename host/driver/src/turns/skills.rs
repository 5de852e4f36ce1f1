//! The tools with which a model uses the skills of its role.
//!
//! Whatever is read of a skill is compared with the digest that it had at the first turn of the
//! activation: a model never sees parts of two versions.

use std::sync::Arc;

use serde_json::{Value, json};
use strata_base::files::blob::{Blobs, digest_of};
use strata_base::text::media_type::raster_image_type;
use strata_base::text::units::format_bytes;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::Stepper;
use strata_core::record::conversation::{Media, MediaSource, Part};
use strata_core::record::fault::{Fault, FaultKind};
use strata_core::record::id::{Digest, SkillLanguage};
use strata_core::record::json::Json;
use strata_core::record::message::Draft;
use strata_core::record::turn::{HostTool, SkillDigest};
use strata_core::record::work::Work;
use strata_services::plugin::{Access, DirGrant, Plugin};
use strata_services::skills::files::{PathProblem, SkillFiles};
use strata_services::skills::front_matter;
use strata_services::skills::{SKILL_FILE, SKILL_MOUNT, Skill, script_language};
use strata_services::tools::ToolRole;

use super::outcome::cut;
use super::skill_program::program;

/// How much of a skill one call returns, in bytes.
pub(super) const MAX_RESULT_BYTES: u64 = 64 << 10;
/// How many files of a skill are listed with its text.
const MAX_LISTED_FILES: usize = 200;
/// The largest image of a skill that a model is given, in bytes. Others are described.
const MAX_IMAGE_BYTES: usize = 5 << 20;

/// What a call of a tool for skills returns.
pub(super) struct SkillResult {
    pub(super) output: Draft,
    /// The bytes of images in the output.
    pub(super) blobs: Blobs,
    /// The skill whose text the model is given.
    pub(super) loaded: Option<SkillDigest>,
}

/// A call that uses a skill.
pub(in super::super) struct SkillCall {
    settings: Arc<ToolRole>,
    arguments: Value,
    /// The digest that the skill had when the activation began.
    expected: Option<Digest>,
    /// Whether the model was given the text of the skill before.
    is_loaded: bool,
}

impl SkillCall {
    /// Returns a call of an attempt. `name` is the argument that names the skill.
    pub(super) fn new(
        settings: Arc<ToolRole>,
        call: &Invocation,
        stepper: &Stepper,
        tool: HostTool,
    ) -> Self {
        let arguments = call.arguments.clone().unwrap_or_else(Json::null).value();
        let name = match tool {
            HostTool::LoadSkill => &arguments["name"],
            _ => &arguments["skill"],
        };
        let name = name.as_str().unwrap_or_default();
        let activation = stepper.env().activation(call.key().activation());
        let turn = match call.work {
            Work::ToolCall { turn, .. } => turn,
            _ => 0,
        };
        Self {
            expected: activation.and_then(|open| open.skill_digest(name)).cloned(),
            is_loaded: activation.is_some_and(|open| open.has_loaded_skill(name, turn)),
            settings,
            arguments,
        }
    }

    fn text(&self, argument: &str) -> &str {
        self.arguments[argument].as_str().unwrap_or_default()
    }

    /// Returns a skill of the role.
    fn skill(&self, name: &str) -> Result<&Skill, Fault> {
        let skill = self.settings.skills.iter().find(|skill| skill.name == name);
        skill.ok_or_else(|| Fault::new(FaultKind::Error, format!("there is no skill `{name}`")))
    }

    /// Returns the files of a skill. Fails if they are not those with which the activation began.
    fn files(&self, skill: &Skill) -> Result<SkillFiles, Fault> {
        let files = read_files(skill)?;
        let digest = files.digest();
        if skill.pin.as_ref().is_some_and(|pin| *pin != digest) {
            let message = format!("the skill `{}` is not the one that is locked", skill.name);
            return Err(Fault::new(FaultKind::Denied, message));
        }
        if self.expected.as_ref() != Some(&digest) {
            let message = format!(
                "the skill `{}` has changed since this work began; its new version is used the next time",
                skill.name
            );
            return Err(Fault::new(FaultKind::Error, message));
        }
        Ok(files)
    }

    /// Returns the text of a skill and the list of its files.
    pub(super) fn load(&self) -> Result<SkillResult, Fault> {
        let skill = self.skill(self.text("name"))?;
        if self.is_loaded {
            let line = format!(
                "The skill `{}` is loaded already; its text is above.",
                skill.name
            );
            return Ok(SkillResult::of_text(line));
        }
        let files = self.files(skill)?;
        let text = file_text(&files, SKILL_FILE)?;
        let read = front_matter::parse(text).map_err(|error| {
            let place = format!("{SKILL_FILE}:{}:{}", error.line, error.column);
            Fault::new(FaultKind::Error, format!("{place}: {}", error.message))
        })?;
        let list = file_list(&files);
        let left = MAX_RESULT_BYTES.saturating_sub(list.len() as u64);
        let mut result = SkillResult::of_text(cut(read.body, left) + &list);
        result.loaded = Some(SkillDigest {
            skill: skill.name.clone(),
            digest: files.digest(),
        });
        Ok(result)
    }

    /// Returns a file of a skill.
    pub(super) fn read_file(&self) -> Result<SkillResult, Fault> {
        let skill = self.skill(self.text("skill"))?;
        let path = self.text("path");
        let files = self.files(skill)?;
        let bytes = file_bytes(&files, path)?;
        match str::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => {
                Ok(SkillResult::of_text(cut(text.to_owned(), MAX_RESULT_BYTES)))
            }
            _ => Ok(SkillResult::of_bytes(path, bytes)),
        }
    }

    /// Returns the fault of a call for which there is no interpreter: no skill had a script in this
    /// language when the host loaded the team.
    pub(in super::super) fn without_interpreter(&self, language: SkillLanguage) -> Fault {
        match self.script(language, &Plugin::new("")) {
            Err(fault) => fault,
            Ok(_) => {
                let message = "no skill had such a script when the run was started or resumed";
                Fault::new(FaultKind::Error, message)
            }
        }
    }

    /// Returns the plugin and the arguments with which the interpreter of a language runs a script.
    pub(in super::super) fn script(
        &self,
        language: SkillLanguage,
        plugin: &Plugin,
    ) -> Result<(Plugin, Json), Fault> {
        let skill = self.skill(self.text("skill"))?;
        let path = self.text("script");
        let files = self.files(skill)?;
        let source = file_bytes(&files, path)?;
        let denied = |message: String| Err(Fault::new(FaultKind::Error, message));
        match script_language(path) {
            Some(found) if found == language => {}
            Some(_) => {
                return denied(format!(
                    "`{path}` is in another language than the call was made for; call it again"
                ));
            }
            None => {
                return denied(format!(
                    "`{path}` cannot be run, only read: scripts are `scripts/*.py` and `scripts/*.js`"
                ));
            }
        }
        let Ok(source) = str::from_utf8(source) else {
            return denied(format!("`{path}` is no text"));
        };
        let mut plugin = plugin.clone();
        plugin.grants.dirs.push(DirGrant {
            host: skill
                .directory
                .canonicalize()
                .unwrap_or_else(|_| skill.directory.clone()),
            guest: SKILL_MOUNT.to_owned(),
            access: Access::Read,
            max_bytes: None,
        });
        let arguments: Vec<&str> = self.arguments["arguments"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let code = program(
            language,
            path.trim_start_matches("./"),
            source,
            &arguments,
            self.text("stdin"),
        );
        Ok((plugin, Json::from(json!({ "code": code }))))
    }
}

impl SkillResult {
    fn of_text(content: String) -> Self {
        Self {
            output: Draft {
                content,
                ..Draft::default()
            },
            blobs: Blobs::new(),
            loaded: None,
        }
    }

    /// Returns what a model is given of a file that is no text.
    fn of_bytes(path: &str, bytes: &[u8]) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default();
        let size = format_bytes(bytes.len() as u64);
        let Some(media_type) = raster_image_type(bytes).filter(|_| bytes.len() <= MAX_IMAGE_BYTES)
        else {
            return Self::of_text(format!("[{name}, {size}, not a text]"));
        };
        let digest = digest_of(bytes);
        let image = Media {
            media_type: media_type.to_owned(),
            name: Some(name.to_owned()),
            source: MediaSource::Blob {
                digest: digest.clone(),
                size: bytes.len() as u64,
            },
        };
        let mut result = Self::of_text(String::new());
        result.output.parts.push(Part::Image(image));
        result.blobs.insert(digest, Arc::from(bytes));
        result
    }
}

fn read_files(skill: &Skill) -> Result<SkillFiles, Fault> {
    SkillFiles::read(&skill.directory).map_err(|error| {
        Fault::new(
            FaultKind::Error,
            format!("the skill `{}`: {error}", skill.name),
        )
    })
}

fn file_bytes<'a>(files: &'a SkillFiles, path: &str) -> Result<&'a [u8], Fault> {
    files.get(path).map_err(|problem| match problem {
        PathProblem::LeadsOut => Fault::new(
            FaultKind::Denied,
            format!("`{path}` leads out of the skill"),
        ),
        PathProblem::Missing => {
            Fault::new(FaultKind::Error, format!("the skill has no file `{path}`"))
        }
    })
}

fn file_text<'a>(files: &'a SkillFiles, path: &str) -> Result<&'a str, Fault> {
    str::from_utf8(file_bytes(files, path)?)
        .map_err(|_| Fault::new(FaultKind::Error, format!("`{path}` is no text")))
}

/// Returns the list of the files of a skill, for the end of its text.
fn file_list(files: &SkillFiles) -> String {
    let others = || files.paths().filter(|(path, _)| *path != SKILL_FILE);
    let count = others().count();
    if count == 0 {
        return String::new();
    }
    let mut list = "\n\nFiles of this skill:".to_owned();
    for (path, bytes) in others().take(MAX_LISTED_FILES) {
        list.push_str(&format!("\n- {path} ({})", format_bytes(bytes as u64)));
    }
    if count > MAX_LISTED_FILES {
        list.push_str(&format!("\n[and {} more]", count - MAX_LISTED_FILES));
    }
    list
}

/// Returns the digests of the skills of a role. A skill that cannot be read has none, and each use of it
/// fails.
pub(super) fn digests(settings: &ToolRole) -> Vec<SkillDigest> {
    let mut digests = Vec::new();
    for skill in &settings.skills {
        if let Ok(files) = SkillFiles::read(&skill.directory) {
            digests.push(SkillDigest {
                skill: skill.name.clone(),
                digest: files.digest(),
            });
        }
    }
    digests
}
