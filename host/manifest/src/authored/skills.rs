//! Reads `skills` and `[role.skill]`: which directories are skills of a role, and what their scripts may
//! do. A `SKILL.md` that cannot be used is reported at its own line and column.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use strata_base::files::open;
use strata_base::text::display_path::display_path;
use strata_core::record::id::SkillLanguage;
use strata_core::record::turn::HostTool;
use strata_services::plugin::pattern;
use strata_services::skills::files::{MAX_BYTES, SkillFiles};
use strata_services::skills::front_matter::{self, SkillText};
use strata_services::skills::{SKILL_FILE, SKILL_MOUNT, Skill, script_language};

use super::limits::LimitsPatch;
use super::slot::{AuthoredSlot, reject_unexpanded};
use crate::diagnostic::{Diagnostic, SourceText};
use crate::grants::{self, AuthoredGrants};
use crate::schema::kind;
use crate::table::{Located, TomlItem, TomlTable};

/// The maximum number of skills of a role. Each request contains the names and descriptions of all.
const MAX_SKILLS: usize = 200;

/// The skills of a role.
#[derive(Default)]
pub(crate) struct AuthoredSkills {
    /// The span of `skills`, if it names anything.
    pub(crate) span: Option<Range<usize>>,
    /// The skills, by name. Empty if files are not read.
    pub(crate) skills: Vec<Skill>,
    /// The languages of the scripts that the skills contain.
    pub(crate) languages: BTreeSet<SkillLanguage>,
    /// What is unusual about the skills.
    pub(crate) warnings: Vec<String>,
}

/// `[role.skill]`.
#[derive(Default)]
pub(crate) struct AuthoredSkillRules {
    /// The tools whose calls a person approves.
    pub(crate) approve: Vec<Located<String>>,
    /// What scripts may access.
    pub(crate) allow: AuthoredGrants,
}

impl AuthoredSkillRules {
    /// Returns what runs the scripts of the skills that are in this language: the code that a call brings
    /// along, which the driver makes of the script. `span` is that of the key that names the skills, and
    /// `base` the directory of the team file.
    pub(crate) fn interpreter(
        &self,
        language: SkillLanguage,
        span: &Range<usize>,
        base: &Path,
    ) -> AuthoredSlot {
        let script = match language {
            SkillLanguage::Python => "<arguments.code>.py",
            SkillLanguage::JavaScript => "<arguments.code>.js",
        };
        AuthoredSlot {
            span: span.clone(),
            component: Some(Located {
                value: base.join(script),
                span: span.clone(),
            }),
            pin: None,
            skill: None,
            function: None,
            config: Value::Null,
            config_span: None,
            output_schema: None,
            limits: LimitsPatch::default(),
            allow: self.allow.clone(),
        }
    }
}

/// Reads the directories that `skills` names.
pub(super) fn read_skills(item: &TomlItem<'_>) -> AuthoredSkills {
    let patterns: Vec<TomlItem<'_>> = item.elements("a list of strings: `[\"…\"]`").collect();
    let mut read = AuthoredSkills {
        span: (!patterns.is_empty()).then(|| item.key_span.clone()),
        ..AuthoredSkills::default()
    };
    let mut skills_by_name: BTreeMap<String, (PathBuf, Range<usize>)> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for written in patterns {
        for directory in directories(&written) {
            // Two patterns may name the same directory.
            if !seen.insert(directory.clone()) {
                continue;
            }
            let Some(skill) = read_skill(&written, &directory, &mut read) else {
                continue;
            };
            let first =
                skills_by_name.insert(skill.name.clone(), (directory.clone(), written.span()));
            if let Some((other, _)) = first {
                let message = format!(
                    "two skills are named `{}`: `{}` and `{}`",
                    skill.name,
                    display_path(&other),
                    display_path(&directory)
                );
                written.reject(message, "rename one of them, or leave it out");
            }
            read.skills.push(skill);
        }
    }
    if read.skills.len() > MAX_SKILLS {
        let message = format!("the role has {} skills", read.skills.len());
        item.reject(
            message,
            format!("at most {MAX_SKILLS} are possible; name fewer"),
        );
    }
    read.skills.sort_by(|a, b| a.name.cmp(&b.name));
    read
}

/// Returns the directories that a pattern names. Reports a pattern that names none.
fn directories(written: &TomlItem<'_>) -> Vec<PathBuf> {
    let Some(path) = pattern_path(written) else {
        return Vec::new();
    };
    let last = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let parent = path.parent().unwrap_or(Path::new("/")).to_owned();
    if parent.to_string_lossy().contains('*') {
        written.reject(
            "only the last part of a path can contain `*`",
            "write `skills/*`",
        );
        return Vec::new();
    }
    if !written.checks_files() {
        written.add_file(if last.contains('*') { &parent } else { &path });
        return Vec::new();
    }
    if !last.contains('*') {
        return vec![path];
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(&parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_skill = entry.path().join(SKILL_FILE).is_file();
        if is_skill && pattern::matches_any(std::slice::from_ref(&last), &name) {
            found.push(entry.path());
        }
    }
    found.sort();
    if found.is_empty() {
        let message = format!(
            "no directory in `{}` has a `{SKILL_FILE}` and fits this",
            display_path(&parent)
        );
        written.reject(
            message,
            "a skill is a directory with a `SKILL.md`; paths are relative to the team file",
        );
    }
    found
}

/// Reads a path in which `*` stands for any characters, and makes it absolute.
fn pattern_path(written: &TomlItem<'_>) -> Option<PathBuf> {
    let text = written.text()?.value;
    if text.is_empty() || text.contains('\0') {
        written.reject(
            "this is not a path",
            "write the path of a skill, such as `skills/pdf`",
        );
        return None;
    }
    if reject_unexpanded(written, &text.replace('*', "x")) {
        return None;
    }
    Some(written.base_dir().join(text))
}

/// Reads a skill, and reports what is wrong with it.
fn read_skill(
    written: &TomlItem<'_>,
    directory: &Path,
    read: &mut AuthoredSkills,
) -> Option<Skill> {
    let file = directory.join(SKILL_FILE);
    let display_name = display_path(&file);
    let unreadable = |why: String| {
        written.reject(
            format!("cannot read the skill `{}`: {why}", display_path(directory)),
            "a skill is a directory with a `SKILL.md`; paths are relative to the team file",
        );
    };
    let text = match open::read_bounded(&file, MAX_BYTES) {
        Ok(Ok(bytes)) => String::from_utf8(bytes).map_err(|error| error.utf8_error().to_string()),
        Ok(Err(size)) => Err(format!("`{SKILL_FILE}` has {size} bytes")),
        Err(error) => Err(format!("`{SKILL_FILE}`: {error}")),
    };
    let text = text.map_err(unreadable).ok()?;
    let files = SkillFiles::read(directory)
        .map_err(|error| unreadable(error.to_string()))
        .ok()?;
    for (path, _) in files.paths() {
        written.add_file(&directory.join(path));
        read.languages.extend(script_language(path));
    }
    let SkillText {
        name,
        description,
        warnings,
        ..
    } = match front_matter::parse(&text) {
        Ok(parsed) => parsed,
        Err(error) => {
            let source = Arc::new(SourceText::new(
                text,
                display_name.clone(),
                directory.to_owned(),
            ));
            let at = offset(&source.text, error.line, error.column);
            let problem = Diagnostic::at(&source, at..at + 1, error.message);
            written.add_problem(problem.hint(
                "a `SKILL.md` begins with a line `---`, `name: …`, `description: …` and another `---`",
            ));
            return None;
        }
    };
    read.warnings.extend(
        warnings
            .into_iter()
            .map(|warning| format!("the skill `{display_name}`: {warning}")),
    );
    let own = directory
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let name = usable_name(name, &own, &display_name, &mut read.warnings);
    Some(Skill {
        name,
        description,
        directory: directory.to_owned(),
        pin: None,
    })
}

/// Returns the name by which a skill is known, with a warning if it is not what the format demands.
fn usable_name(
    name: Option<String>,
    own: &str,
    display_name: &str,
    warnings: &mut Vec<String>,
) -> String {
    let Some(name) = name else {
        warnings.push(format!(
            "the skill `{display_name}` has no `name`; it is known by that of its directory"
        ));
        return own.to_owned();
    };
    if !front_matter::is_valid_name(&name) {
        warnings.push(format!(
            "the name of the skill `{display_name}` is not 1 to 64 characters of `a-z`, `0-9` and `-`; it is known by that of its \
             directory"
        ));
        return own.to_owned();
    }
    if name != own {
        warnings.push(format!(
            "the skill `{display_name}` has the name `{name}`, which is not that of its directory"
        ));
    }
    name
}

/// Returns the position in bytes of a line and a column, both starting at 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1))
        .map(str::len)
        .sum();
    let rest = text.get(start..).unwrap_or_default();
    let inside = rest.char_indices().nth(column.saturating_sub(1));
    (start + inside.map_or(0, |(at, _)| at)).min(text.len().saturating_sub(1))
}

/// Reads `[role.skill]`.
pub(super) fn read_skill_rules(table: &TomlTable<'_>) -> AuthoredSkillRules {
    table.define_as("skill-rules");
    let names = HostTool::OF_SKILLS.map(HostTool::name);
    let approve = table
        .key(
            "approve",
            "The tools for skills whose calls a person approves.",
        )
        .value(|| json!({ "type": "array", "items": { "enum": names }, "uniqueItems": true }));
    let approve = approve.map(|item| {
        let mut written = item.unique_strings();
        written.retain(|name| {
            let is_known = names.contains(&name.value.as_str());
            if !is_known {
                item.reject(
                    format!("there is no tool `{}` for skills", name.value),
                    format!("there are `{}`", names.join("`, `")),
                );
            }
            is_known
        });
        written
    });
    let allow = table
        .key(
            "allow",
            "What the scripts of skills may touch. Nothing else is allowed.",
        )
        .table("`allow`", grants::read_grants)
        .unwrap_or_default();
    if let Some(grant) = allow
        .grants
        .dirs
        .iter()
        .find(|grant| grant.guest == SKILL_MOUNT)
    {
        let message = format!(
            "`{}` is where scripts see the files of their skill",
            grant.guest
        );
        let problem = table
            .problems
            .at(allow.span.as_ref().unwrap_or(&table.span), message);
        table
            .problems
            .add(problem.hint("choose another path for the directory"));
    }
    AuthoredSkillRules {
        approve: approve.unwrap_or_default(),
        allow,
    }
}

/// The schema of `skills`.
pub(super) fn skills_schema() -> Value {
    kind::unique_texts()
}
