//! Reads and checks a team file (`team.toml`), and turns it into a [`Definition`]: the team and its
//! plugins. Nothing is run here, and no component is opened.
//!
//! There are three stages, each in its own module: `authored` reads every key with its type,
//! default and position; `check` resolves names and checks targets, modes and conditions; the
//! result is a `Definition`. All problems of a file are reported at once.

mod advice;
mod authored;
mod beside;
mod check;
mod condition;
pub mod diagnostic;
mod doubt;
mod http;
mod json;
mod llm;
mod names;
pub mod operator;
mod outward;
pub mod overrides;
mod place;
pub mod policy;
pub mod schema;
mod skill;
mod table;
pub(crate) mod units;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use strata_core::id::{Part, Slot};
use strata_core::money::Usd;
use strata_core::team::React::Choose;
use strata_core::team::{Team, Thinker};
use toml::de::DeTable;

pub(crate) use self::beside::beside;
use self::diagnostic::{Beside, Problems};
pub use self::diagnostic::{Diagnostic, Diagnostics, Paint, Source};
pub use self::doubt::{doubts, unheard};
pub(crate) use self::names::team_name;
use self::operator::Cut;
pub use self::outward::{OutwardUse, files_named_in, is_confined, named_files, outward_uses};
pub use self::overrides::{OverrideError, Overrides};
use self::place::{Given, Place};
use self::schema::places::places;
use self::table::Table;
use crate::build::script;
use crate::open;
use crate::plugin::Plugin;
use crate::services::external::External;
use crate::services::llm::config::{Config, Provider};
use crate::services::variables::Variables;
use crate::tidy::tidy;
use crate::trust::signature::Keys;

/// The largest team file that is read. Team files are written by hand, so a larger file is most
/// likely something else.
const MAX_FILE_BYTES: usize = 4 << 20;

/// A team with everything that is needed to run it.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The text that the team was read from.
    pub source: Arc<Source>,
    /// The team.
    pub team: Team,
    /// The idea, that is, the task that the team is given, if the file contains one.
    pub idea: Option<String>,
    /// The plugins by their slot. Each action has one, and so does each role whose `think` is a
    /// component.
    pub plugins: BTreeMap<Slot, Plugin>,
    /// The team's language model.
    pub llm: Option<Config>,
    /// Where messages go that are addressed to names outside of the team.
    pub external: Option<External>,
    /// The keys with which components must be signed. Empty if any component may be loaded.
    pub trust: Keys,
    /// How the run is persisted.
    pub run: RunConfig,
    /// Where the environment variables that the file names are looked up.
    pub(crate) variables: Variables,
    /// Whether the file sets `investment`, even if it is zero, which means no limit.
    pub(crate) says_budget: bool,
    places: BTreeMap<Slot, Place>,
    modes: Vec<Range<usize>>,
    /// The span of `[env.external]`.
    beyond: Option<Range<usize>>,
    given: BTreeMap<Slot, Given>,
    /// The files that are read together with the team file: schemas and scripted model replies.
    /// Components are not among them.
    files: BTreeSet<PathBuf>,
    /// What the operators' policies reduced or removed.
    cuts: Vec<Cut>,
    /// The lowest budget that those policies allow, and the name of the policy that sets it.
    most: Option<(Usd, String)>,
}

/// How a run is persisted. The other keys of `[run]` are in the team's policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunConfig {
    /// What saved work survives.
    pub durability: Durability,
    /// How many checkpoints are kept; `None` keeps all of them.
    pub checkpoints_kept: Option<u32>,
}

/// What saved work survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Saved work survives a loss of power.
    #[default]
    Full,
    /// Saved work survives the end of the process, even if it is killed, but not a loss of power.
    Process,
}

impl Definition {
    /// Reads a team file.
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        Self::of(read_source(path, "team")?, Beside::Looked)
    }

    /// Reads a team file that is only inspected, not run: the files that it names need not exist.
    pub fn read_alone(path: &Path) -> Result<Self, Diagnostics> {
        Self::of(read_source(path, "team")?, Beside::Left)
    }

    /// Parses the text of a team file. `name` is used in diagnostics; relative paths are relative
    /// to `base`.
    pub fn parse(text: &str, name: &str, base: &Path) -> Result<Self, Diagnostics> {
        Self::of(
            Source::new(text.to_owned(), name.to_owned(), base.to_owned()),
            Beside::Looked,
        )
    }

    /// Parses the text of a team file that is only inspected, not run: the files that it names need
    /// not exist.
    pub fn parse_alone(text: &str, name: &str, base: &Path) -> Result<Self, Diagnostics> {
        Self::of(
            Source::new(text.to_owned(), name.to_owned(), base.to_owned()),
            Beside::Left,
        )
    }

    /// Returns the text of a team file, whether or not it describes a valid team. Returns `None` if
    /// the file cannot be read.
    pub fn text(path: &Path) -> Option<String> {
        read_source(path, "team").ok().map(|source| source.text)
    }

    /// Returns whether the behaviour of an action depends on `file`, as far as the team file shows:
    /// `file` is the schema of its output, or it holds the replies of the model that the action may
    /// call.
    pub fn depends_on(&self, slot: Slot, file: &Path) -> bool {
        let schema = self
            .places
            .get(&slot)
            .and_then(|place| place.output_schema.as_deref());
        let asks = self
            .plugins
            .get(&slot)
            .is_some_and(|plugin| plugin.grants.llm.is_some());
        let replies = self
            .llm
            .as_ref()
            .filter(|_| asks)
            .and_then(|llm| match &llm.provider {
                Provider::Scripted { replies } | Provider::Recorded { replies } => {
                    Some(replies.as_path())
                }
                Provider::OpenAi(_) => None,
            });
        schema == Some(file) || replies == Some(file)
    }

    fn of(source: Source, beside: Beside) -> Result<Self, Diagnostics> {
        let source = Arc::new(source);
        let problems = Problems::with(Arc::clone(&source), beside);
        let document = document(&source)?;
        let authored = authored::read(Table::root(document.get_ref(), &problems));
        let mut checked = check::check(&authored, &problems);
        let files = outward::files_beside(&problems, &checked.plugins);
        problems.finish()?;
        let default = authored.llm.as_ref().and_then(|llm| llm.model.clone());
        for grant in checked
            .plugins
            .values_mut()
            .filter_map(|plugin| plugin.grants.llm.as_mut())
        {
            grant.default.clone_from(&default);
        }
        Ok(Self {
            source,
            team: checked.team,
            idea: authored.idea,
            plugins: checked.plugins,
            llm: authored.llm,
            beyond: authored
                .env
                .external
                .as_ref()
                .map(|external| external.span.clone()),
            external: authored.env.external.map(|external| external.value),
            trust: authored.trust,
            run: authored.run.config,
            variables: Variables::default(),
            says_budget: authored.says_budget,
            places: checked.places,
            modes: checked.modes,
            given: BTreeMap::new(),
            files,
            cuts: Vec::new(),
            most: None,
        })
    }

    /// Fails if something is missing without which the team cannot run: a component, or the model
    /// that chooses a role's next action.
    ///
    /// Call this after `apply`, which may replace components, and after the team has been compared
    /// with a saved one, because a difference between the two tells the user more than a missing
    /// file does.
    pub fn check_ready(&self) -> Result<(), Diagnostics> {
        let missing = self.plugins.iter().filter_map(|(slot, plugin)| {
            let named = self.places.get(slot).and_then(|place| place.skill.as_ref());
            if let Some(chosen) = named.filter(|_| !self.given.contains_key(slot)) {
                return Some(self.at_component(*slot, skill::problem(&chosen.wanted)?));
            }
            if script::is_newest(&plugin.component) {
                return None;
            }
            let error = std::fs::metadata(&plugin.component).err()?;
            let path = tidy(&plugin.component);
            let (what, hint) = match script::is_script(&plugin.component) {
                true => (
                    "script",
                    "give a script that is there; paths are relative to the team file",
                ),
                false => (
                    "component",
                    "give a component, a directory with the source of one, or a script",
                ),
            };
            let near = beside(&plugin.component).map(|near| self.source.shown(&near));
            let hint =
                near.map_or_else(|| hint.to_owned(), |near| format!("did you mean `{near}`?"));
            let message = format!("cannot find the {what} `{path}`: {error}");
            let problem = self.at(*slot, message, |place| place.component.clone());
            Some(Diagnostics::from(problem.hint(hint)))
        });
        let undecided = self.team.role_ids().filter_map(|id| {
            let Choose { thinker, .. } = self.team.role(id).react else {
                return None;
            };
            let asks = thinker == Thinker::Model && self.llm.is_none();
            let span = self.modes.get(id.index()).filter(|_| asks)?;
            let message = "nothing chooses the role's next action";
            let hint = "add `think = { component = \"…\" }`, or an `[llm]` for the team";
            let problem = Diagnostic::at(&self.source, span.clone(), message);
            Some(Diagnostics::from(problem.hint(hint)))
        });
        let all = missing.chain(undecided).reduce(Diagnostics::and);
        all.map_or(Ok(()), Err)
    }

    /// Returns a problem with a component, located where the component is named.
    pub fn at_component(&self, slot: Slot, message: impl Into<String>) -> Diagnostics {
        self.at(slot, message.into(), |place| place.component.clone())
            .into()
    }

    /// Returns the refusal of a component that must not be used, located where the component is
    /// named, with a hint.
    pub fn refused(&self, slot: Slot, message: String, hint: String) -> Diagnostics {
        self.at(slot, message, |place| place.component.clone())
            .hint(hint)
            .into()
    }

    /// Returns the name and version (`NAME@VERSION`) of the skill in a slot, if the slot names one.
    pub fn skill(&self, slot: Slot) -> Option<&str> {
        let place = self.places.get(&slot).filter(|_| !self.is_given(slot))?;
        place.skill.as_ref()?.found.as_deref()
    }

    /// Returns whether the command line replaced the component of a slot.
    pub fn is_given(&self, slot: Slot) -> bool {
        self.given.contains_key(&slot)
    }

    /// Returns a problem with a component's pinned digest, located where the digest is written.
    pub fn at_pin(&self, slot: Slot, message: impl Into<String>) -> Diagnostics {
        let pin = |place: &Place| place.pin.clone().unwrap_or(place.component.clone());
        self.at(slot, message.into(), pin).into()
    }

    /// Returns a problem with a component's configuration, located where the configuration is
    /// written.
    pub fn at_config(
        &self,
        slot: Slot,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Diagnostics {
        let config = |place: &Place| place.config.clone().unwrap_or(place.entry.clone());
        self.at(slot, message.into(), config).hint_if(hint).into()
    }

    /// Returns a problem with the function that is called in a component, located where the
    /// function is named.
    pub fn at_function(
        &self,
        slot: Slot,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Diagnostics {
        let function = |place: &Place| place.function.clone().unwrap_or(place.component.clone());
        self.at(slot, message.into(), function).hint_if(hint).into()
    }

    /// Returns a problem with a grant that a component needs and does not have, with the line that
    /// would grant it.
    pub fn at_allow(&self, slot: Slot, message: impl Into<String>, line: &str) -> Diagnostics {
        let allow = |place: &Place| place.allow.clone().unwrap_or(place.entry.clone());
        let table = match slot.part {
            Part::Think => "`allow` of `think`",
            Part::Action(_) => "`[role.action.allow]`",
        };
        self.at(slot, message.into(), allow)
            .hint(format!("add to {table}: `{line}`"))
            .into()
    }

    /// Returns a problem with a secret, located at the first place that names it. Returns `None` if
    /// the team file does not name it.
    pub fn at_secret(&self, name: &str, message: &str) -> Option<Diagnostics> {
        let named = self
            .places
            .values()
            .flat_map(|place| &place.secrets)
            .filter(|secret| secret.value == name);
        let problem = |secret: &table::At<String>| {
            let problem = Diagnostic::at(&self.source, secret.span.clone(), message);
            Diagnostics::from(problem.hint(format!(
                "set it where the host is started: `export {name}=…`"
            )))
        };
        named.map(problem).next()
    }

    /// Returns a problem with the model's API key, located where its variable is named.
    pub(crate) fn at_api_key(&self, variable: &str, message: String) -> Diagnostics {
        let hint = format!(
            "set it where the host is started: `export {variable}=…`, or name another variable"
        );
        let problem = match llm::place_of_key(&self.source) {
            Some(span) => Diagnostic::at(&self.source, span, message),
            None => Diagnostic::new(message),
        };
        problem.hint(hint).into()
    }

    /// Returns where a component is written, in a form for people: `team.toml:17`.
    pub fn place(&self, slot: Slot) -> String {
        match self.places.get(&slot) {
            Some(place) => self.source.place(&place.entry),
            None => self.source.name.clone(),
        }
    }

    /// Returns where `[env.external]` is written, if it is: `team.toml:17`.
    pub fn place_of_external(&self) -> Option<String> {
        self.beyond.as_ref().map(|span| self.source.place(span))
    }

    fn at(&self, slot: Slot, message: String, span: impl Fn(&Place) -> Range<usize>) -> Diagnostic {
        match (self.given.get(&slot), self.places.get(&slot)) {
            (Some(given), _) => given.problem(message),
            (None, Some(place)) => Diagnostic::at(&self.source, span(place), message),
            (None, None) => Diagnostic::new(message),
        }
    }
}

/// Returns the path of the `team.toml` in a directory, if there is one.
pub(crate) fn team_in(dir: &Path) -> Option<String> {
    let team = dir.join("team.toml");
    team.is_file().then(|| team.display().to_string())
}

/// Reads a team file or a policy file. `kind` is the word for it in messages.
fn read_source(path: &Path, kind: &str) -> Result<Source, Diagnostics> {
    let name = path.display().to_string();
    let fail = |reason: String| {
        let message = format!("cannot read the {kind} file `{name}`: {reason}");
        Diagnostics::from(Diagnostic::new(message))
    };
    let meta = std::fs::metadata(path).map_err(|e| match beside(path) {
        Some(near) if e.kind() == ErrorKind::NotFound => {
            fail(format!("there is none; did you mean `{}`?", near.display()))
        }
        _ => fail(e.to_string()),
    })?;
    if !meta.is_file() {
        let inside = team_in(path).filter(|_| kind == "team");
        return Err(fail(match inside {
            Some(team) => format!("it is a directory; did you mean `{team}`?"),
            None => "it is not a file".into(),
        }));
    }
    if meta.len() > MAX_FILE_BYTES as u64 {
        return Err(fail(format!("it has more than {MAX_FILE_BYTES} bytes")));
    }
    let bytes = open::read(path).map_err(|e| fail(e.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + good.iter().filter(|byte| **byte == b'\n').count();
        fail(format!("it is not UTF-8 in line {line}"))
    })?;
    let file = std::path::absolute(path).map_err(|e| fail(e.to_string()))?;
    let base = file.parent().unwrap_or(Path::new("/")).to_owned();
    Ok(Source::new(text, name, base))
}

/// Returns the hint for a duplicate key: often a `[table]` should have been one of several
/// `[[table]]`s.
fn twice(text: &str, key: &Range<usize>) -> String {
    let begin = text
        .get(..key.start)
        .and_then(|before| before.rfind('\n'))
        .map_or(0, |end| end + 1);
    let line = text
        .get(begin..)
        .and_then(|rest| rest.lines().next())
        .unwrap_or_default()
        .trim_start();
    let head = line
        .strip_prefix('[')
        .and_then(|line| line.split(']').next())
        .unwrap_or_default();
    match head.strip_prefix('[') {
        // This table is one of a list, but the first table of this name is not.
        Some(name) => {
            format!("write `[[{name}]]` in place of the `[{name}]` before it: there are several")
        }
        None if places().is_list(head) => {
            format!("write `[[{head}]]` for both: there can be several")
        }
        None => "remove one of the two".into(),
    }
}

/// Parses a text as TOML.
fn document(source: &Arc<Source>) -> Result<toml::Spanned<DeTable<'_>>, Diagnostics> {
    let (document, errors) = DeTable::parse_recoverable(&source.text);
    // Errors after the first one are mostly consequences of it.
    match errors.first() {
        None => Ok(document),
        Some(error) => {
            let message = format!("not valid TOML: {}", error.message());
            let span = error.span().unwrap_or(0..0);
            let hint = (error.message() == "duplicate key").then(|| twice(&source.text, &span));
            Err(Diagnostic::at(source, span, message).hint_if(hint).into())
        }
    }
}
