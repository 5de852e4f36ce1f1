//! The files that a run reads, over which nothing may be written, and the directories that its actions are granted.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::is_saved_in;
use super::saved::saved_definition;
use crate::build::sources;
use crate::manifest::Definition;
use crate::open;
use crate::plugin::Access;
use crate::sandbox::real_path;
use crate::tidy::tidy;
use crate::trust::lock::Lock;
use crate::trust::signature::signature_of;

/// How many links to a file that is not there are followed, as many as the kernel follows.
const MAX_LINKS: usize = 40;
/// How many entries of the granted directories are compared with a file that has a second name somewhere.
const MAX_ENTRIES: usize = 100_000;

/// What is known of a team whose inputs must not be written over.
#[derive(Clone, Debug, Default)]
pub struct Inputs<'a> {
    /// Its team file, where one is given.
    pub team: Option<&'a Path>,
    /// Where it is saved, or will be.
    pub storage: Option<&'a Path>,
    /// What is put in place of its components: `ROLE.ACTION=FILE` each.
    pub components: &'a [String],
    /// Policies that bind it.
    pub policies: Vec<PathBuf>,
}

/// A file that a command is about to write.
#[derive(Clone, Copy, Debug)]
pub struct OutputFile<'a> {
    /// Its path.
    pub path: &'a Path,
    /// How such a file begins. One that begins like this may be written again where it lies among the sources of an
    /// action, or in a directory that an action is granted.
    pub beginning: &'a [u8],
    /// When it is written.
    pub time: WriteTime,
}

/// When a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteTime {
    /// While actions run. They could read it, or write into it themselves, if they were granted its directory.
    DuringRun,
    /// While no action runs.
    AfterRun,
}

/// Why a file must not be written. Displayed as what a sentence says of it that begins with the option naming it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// It is an input of the run.
    Input(&'static str),
    /// It is there, in a directory that an action is granted.
    InGranted(GrantedTo),
    /// It would be written while an action can read or change it.
    Exposed(GrantedTo),
}

/// A directory that an action is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedTo {
    /// `ROLE.ACTION`.
    pub action: String,
    /// The directory.
    pub dir: PathBuf,
    /// What the action may do there.
    pub access: Access,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(what) => {
                write!(
                    f,
                    "{what}, which would be written over; give it another name"
                )
            }
            Self::InGranted(GrantedTo { action, dir, .. }) => write!(
                f,
                "a file in `{}`, a directory that `{action}` is granted, which would be written over; give it another \
                 name",
                tidy(dir)
            ),
            Self::Exposed(GrantedTo {
                action,
                dir,
                access,
            }) => {
                let may = match access {
                    Access::Read => "read",
                    Access::Write => "read and change",
                };
                write!(
                    f,
                    "a file in `{}`, a directory that `{action}` is granted, so that it could {may} what is written there \
                     during the run; name a file outside of it",
                    tidy(dir)
                )
            }
        }
    }
}

/// What the team files say that belongs to a run.
#[derive(Default)]
struct Named {
    /// The team files themselves.
    teams: Vec<PathBuf>,
    /// All other files, and the directories of source.
    others: BTreeSet<PathBuf>,
    /// The directories that actions are granted.
    granted: Vec<GrantedTo>,
}

impl Inputs<'_> {
    /// Returns why a file must not be written, if it is an input of the run or exposed to its actions.
    pub fn find(&self, output: &OutputFile<'_>) -> Option<Conflict> {
        let file = output.path;
        if self
            .storage
            .is_some_and(|storage| is_saved_in(file, storage))
        {
            return Some(Conflict::Input("a file in which the team is saved"));
        }
        let Named {
            teams,
            mut others,
            granted,
        } = self.named();
        let signatures: Vec<PathBuf> = others.iter().map(|file| signature_of(file)).collect();
        others.extend(signatures);
        const PART: Conflict = Conflict::Input("a file that the team is made from");
        // A lock or a signature that is not there yet would be read from now on.
        if others.iter().any(|other| is_called_alike(other, file)) {
            return Some(PART);
        }
        // Whatever else is not there is not written over.
        if let Some(place) = place(file) {
            if teams.iter().any(|team| self::place(team) == Some(place)) {
                return Some(Conflict::Input("the team file"));
            }
            let is_source = |dir: &Path| {
                let files = sources::of(dir).unwrap_or_default();
                files
                    .iter()
                    .any(|source| self::place(source) == Some(place))
                    && !begins(file, output.beginning)
            };
            let is_other = |other: &PathBuf| {
                if other.is_dir() {
                    is_source(other)
                } else {
                    self::place(other) == Some(place)
                }
            };
            if others.iter().any(is_other) {
                return Some(PART);
            }
        }
        self.find_granted(output, granted)
    }

    /// The same for the directories that actions are granted. What lies in the storage directory is hidden from them.
    fn find_granted(&self, output: &OutputFile<'_>, granted: Vec<GrantedTo>) -> Option<Conflict> {
        let there = fs::metadata(output.path).ok();
        // Nothing is kept in a device or a pipe.
        if there.as_ref().is_some_and(|meta| !meta.is_file()) {
            return None;
        }
        let real = followed(output.path);
        let storage = self.storage.map(real_path);
        if storage.is_some_and(|storage| real.starts_with(storage)) {
            return None;
        }
        // Whoever may change it counts first.
        let (writable, readable): (Vec<_>, Vec<_>) = granted
            .into_iter()
            .partition(|granted| granted.access == Access::Write);
        let found = writable
            .into_iter()
            .chain(readable)
            .find(|granted| lies_in(&real, there.as_ref(), &granted.dir))?;
        match output.time {
            WriteTime::DuringRun => Some(Conflict::Exposed(found)),
            WriteTime::AfterRun => (there.is_some() && !begins(output.path, output.beginning))
                .then_some(Conflict::InGranted(found)),
        }
    }

    fn named(&self) -> Named {
        let mut named = Named {
            others: self.policies.iter().cloned().collect(),
            ..Named::default()
        };
        let mut given = self.components.to_vec();
        if let Some(team) = self.team {
            let definition = Definition::read_alone(team).ok();
            named.add(Definition::named_files(team), definition.as_ref());
            named.teams.push(team.to_owned());
        }
        if let Some(saved) = self
            .storage
            .and_then(|storage| saved_definition(storage).ok())
        {
            let (text, name, base) = (&saved.text, &saved.name, &saved.base);
            let definition = Definition::parse_alone(text, name, base).ok();
            named.add(
                Definition::files_named_in(text, name, base),
                definition.as_ref(),
            );
            given.extend(saved.components.iter().cloned());
            named.teams.push(saved.file());
        }
        let given = given.iter().filter_map(|given| given.split_once('='));
        named.others.extend(given.map(|(_, file)| file.into()));
        named
    }
}

impl Named {
    fn add(&mut self, files: BTreeSet<PathBuf>, definition: Option<&Definition>) {
        self.others.extend(all_parts(files, definition));
        let plugins = definition.iter().flat_map(|read| {
            let action = |slot| read.team.slot_name(slot);
            read.plugins
                .iter()
                .map(move |(slot, plugin)| (action(*slot), &plugin.grants.dirs))
        });
        for (action, dirs) in plugins {
            self.granted.extend(dirs.iter().map(|grant| GrantedTo {
                action: action.clone(),
                dir: grant.host.clone(),
                access: grant.access,
            }));
        }
    }
}

/// Returns the files and directories of source that a team is made from, as far as its file can be read.
pub fn made_from(team: &Path) -> Vec<PathBuf> {
    let definition = Definition::read_alone(team).ok();
    all_parts(Definition::named_files(team), definition.as_ref())
        .into_iter()
        .collect()
}

/// Adds to the files that a team file names those that belong to it without being named: skills lie on the shelf, the
/// lock beside the team file.
fn all_parts(mut files: BTreeSet<PathBuf>, definition: Option<&Definition>) -> BTreeSet<PathBuf> {
    if let Some(definition) = definition {
        let components = definition.plugins.values().map(|plugin| &plugin.component);
        files.extend(components.cloned());
        files.insert(Lock::new(&definition.source.base).path().to_owned());
    }
    files
}

/// Returns whether a file lies in a directory, or will, by whatever name. `real` is its path without links, `there` says
/// what it is if it exists.
fn lies_in(real: &Path, there: Option<&Metadata>, dir: &Path) -> bool {
    let granted = place(dir);
    // A directory that is not there yet is created by the run.
    let is_below = real.starts_with(real_path(dir))
        || (granted.is_some()
            && real
                .ancestors()
                .skip(1)
                .any(|above| place(above) == granted));
    is_below || there.is_some_and(|meta| meta.nlink() > 1 && has_node(dir, meta))
}

/// Returns whether one of the names of a file is in a directory or below it.
fn has_node(dir: &Path, file: &Metadata) -> bool {
    let mut open = vec![dir.to_owned()];
    let mut seen = 0;
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return false;
            }
            // Of a link, not of what it leads to.
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => open.push(entry.path()),
                Ok(meta) if (meta.dev(), meta.ino()) == (file.dev(), file.ino()) => return true,
                _ => {}
            }
        }
    }
    false
}

/// Returns the path of a file without links, also where the last of them leads to a file that is not there: writing
/// would create that one.
fn followed(file: &Path) -> PathBuf {
    let mut path = file.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => break,
        }
    }
    real_path(&path)
}

/// Returns whether both paths are of the same name in the same directory.
fn is_called_alike(one: &Path, other: &Path) -> bool {
    let above = |path: &Path| {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        place(above.unwrap_or(Path::new(".")))
    };
    one.file_name() == other.file_name() && above(one).is_some() && above(one) == above(other)
}

/// Where a file lies on the disk, whatever it is called.
fn place(file: &Path) -> Option<(u64, u64)> {
    let meta = fs::metadata(file).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Whether a file begins like this, or is empty.
fn begins(file: &Path, beginning: &[u8]) -> bool {
    use std::io::Read;
    let mut found = Vec::new();
    let read = open::regular(file)
        .and_then(|file| file.take(beginning.len() as u64).read_to_end(&mut found));
    read.is_ok() && (found.is_empty() || found == beginning)
}
