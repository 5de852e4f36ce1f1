//! Decides whether a command may write a file: inputs of the run must not be overwritten, and
//! actions must not be able to change the file through a directory that they are granted.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use strata_base::files::open;
use strata_base::text::component_replacement::ComponentReplacement;
use strata_base::text::display_path::display_path;
use strata_manifest::trust::lock::ComponentLock;
use strata_manifest::trust::signature::signature_path;
use strata_manifest::{Definition, referenced_files, referenced_files_in_text};
use strata_sandbox::resolve_links;
use strata_services::plugin::Access;
use strata_services::plugin::builtin::is_builtin;
use strata_storage::StorageLocation;

use super::saved::read_saved_definition;

/// The maximum number of symbolic links that are followed to a missing file. The kernel has the
/// same limit.
const MAX_LINKS: usize = 40;
/// The maximum number of entries of a granted directory that are compared with a file that has
/// several hard links.
const MAX_ENTRIES: usize = 100_000;

/// A team whose input files must not be overwritten.
#[derive(Clone, Debug, Default)]
pub struct TeamInputs<'a> {
    /// The team file, if one is given.
    pub team: Option<&'a Path>,
    /// Where it is saved or will be saved.
    pub storage: Option<&'a StorageLocation>,
    /// The components that replace the ones in its file.
    pub components: &'a [ComponentReplacement],
    /// The images and files that belong to its idea.
    pub files: &'a [PathBuf],
    /// The policy files that bind it.
    pub policies: Vec<PathBuf>,
}

/// A file that a command is about to write.
#[derive(Clone, Copy, Debug)]
pub struct OutputFile<'a> {
    /// Its path.
    pub path: &'a Path,
    /// The beginning of all files of this kind. An existing file that begins like this may be
    /// overwritten if it is among the sources of an action, or in a directory that an action is
    /// granted.
    pub beginning: &'a [u8],
    /// When it is written.
    pub time: WriteTime,
}

/// When a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteTime {
    /// While actions run. They could change it if they were granted write access to its directory.
    DuringRun,
    /// While no action runs.
    AfterRun,
}

/// The reason why a file must not be written. The displayed text completes a sentence that begins
/// with the name of the option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OutputConflict {
    /// It is an input of the run.
    Input(&'static str),
    /// It exists, in a directory that an action is granted.
    InGranted(ActionDirectory),
    /// It would be written while an action can change it.
    Exposed(ActionDirectory),
}

/// A directory that an action is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionDirectory {
    /// `ROLE.ACTION`.
    pub action: String,
    /// The directory.
    pub dir: PathBuf,
    /// What the action may do there.
    pub access: Access,
}

impl fmt::Display for OutputConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(what) => {
                write!(
                    f,
                    "{what}, which would be written over; give it another name"
                )
            }
            Self::InGranted(ActionDirectory { action, dir, .. }) => write!(
                f,
                "a file in `{}`, a directory that `{action}` is granted, which would be written over; give it another \
                 name",
                display_path(dir)
            ),
            Self::Exposed(ActionDirectory { action, dir, .. }) => write!(
                f,
                "a file in `{}`, a directory that `{action}` may write to, so that it could change what is written \
                 there during the run; name a file outside of it",
                display_path(dir)
            ),
        }
    }
}

/// The files that the team files of a run name.
#[derive(Default)]
struct NamedFiles {
    /// The team files themselves.
    teams: Vec<PathBuf>,
    /// All other files, and the source directories of components.
    others: BTreeSet<PathBuf>,
    /// The replacements, which name further files. They are not listed in `others`, because a text
    /// may name as many as it has bytes.
    replacements: Vec<ComponentReplacement>,
    /// The directories that actions are granted.
    granted: Vec<ActionDirectory>,
}

impl TeamInputs<'_> {
    /// Returns why a file must not be written, if it is an input of the run or exposed to its
    /// actions.
    pub fn find(&self, output: &OutputFile<'_>) -> Option<OutputConflict> {
        let file = output.path;
        if self
            .storage
            .is_some_and(|storage| storage.is_storage_file(file))
        {
            return Some(OutputConflict::Input("a file in which the team is saved"));
        }
        let named = self.named_files();
        const PART: OutputConflict = OutputConflict::Input("a file that the team is made from");
        // A lock file or a signature that does not exist yet would be read from then on, so these
        // are compared by name.
        if named.any_other(&|other| has_same_name_and_parent(other, file)) {
            return Some(PART);
        }
        // No other file that does not exist yet can be an input.
        if let Some(place) = file_id(file) {
            if named.teams.iter().any(|team| file_id(team) == Some(place)) {
                return Some(OutputConflict::Input("the team file"));
            }
            let is_source = |dir: &Path| {
                let files = strata_build::source_files(dir);
                files.iter().any(|source| file_id(source) == Some(place))
                    && !begins_with(file, output.beginning)
            };
            let is_other = |other: &Path| {
                if other.is_dir() {
                    is_source(other)
                } else {
                    file_id(other) == Some(place)
                }
            };
            if named.any_other(&is_other) {
                return Some(PART);
            }
        }
        self.find_granted(output, named.granted)
    }

    /// Returns why a file must not be written because of a granted directory. Files in the storage
    /// directory are hidden from actions, so they never conflict.
    fn find_granted(
        &self,
        output: &OutputFile<'_>,
        granted: Vec<ActionDirectory>,
    ) -> Option<OutputConflict> {
        let there = fs::metadata(output.path).ok();
        // A device or a pipe has no contents that could be overwritten or read later.
        if there.as_ref().is_some_and(|meta| !meta.is_file()) {
            return None;
        }
        let real = resolve_output_path(output.path);
        let storage = self.storage.map(StorageLocation::local_paths);
        let mut hidden = storage.iter().flatten();
        if hidden.any(|path| real.starts_with(resolve_links(path))) {
            return None;
        }
        // A directory with write access takes precedence in the message.
        let (writable, readable): (Vec<_>, Vec<_>) = granted
            .into_iter()
            .partition(|granted| granted.access == Access::Write);
        let found = writable
            .into_iter()
            .chain(readable)
            .find(|granted| is_in_directory(&real, there.as_ref(), &granted.dir))?;
        match (output.time, found.access) {
            (WriteTime::DuringRun, Access::Write) => Some(OutputConflict::Exposed(found)),
            // Reading what is written there does no harm; the operator granted it.
            _ => (there.is_some() && !begins_with(output.path, output.beginning))
                .then_some(OutputConflict::InGranted(found)),
        }
    }

    fn named_files(&self) -> NamedFiles {
        let mut named = NamedFiles {
            others: self.policies.iter().chain(self.files).cloned().collect(),
            ..NamedFiles::default()
        };
        named.replacements.extend_from_slice(self.components);
        if let Some(team) = self.team {
            let definition = Definition::read_without_files(team).ok();
            named.add(referenced_files(team), definition.as_ref());
            named.teams.push(team.to_owned());
        }
        if let Some(saved) = self
            .storage
            .and_then(|storage| read_saved_definition(storage).ok())
        {
            let (text, name, base) = (&saved.text, &saved.name, &saved.base);
            let definition = Definition::parse_without_files(text, name, base).ok();
            named.add(
                referenced_files_in_text(text, name, base),
                definition.as_ref(),
            );
            named.replacements.extend_from_slice(&saved.components);
            named.teams.push(saved.file());
        }
        named
    }
}

impl NamedFiles {
    /// Returns whether a condition holds for any file but the team files, or for its signature.
    fn any_other(&self, condition: &dyn Fn(&Path) -> bool) -> bool {
        let replacing = self
            .replacements
            .iter()
            .flat_map(ComponentReplacement::possible_files);
        self.others
            .iter()
            .map(PathBuf::as_path)
            .chain(replacing)
            .any(|file| condition(file) || condition(&signature_path(file)))
    }

    fn add(&mut self, files: BTreeSet<PathBuf>, definition: Option<&Definition>) {
        self.others.extend(with_implicit_files(files, definition));
        let plugins = definition.iter().flat_map(|read| {
            read.plugins
                .iter()
                .map(move |(slot, plugin)| (read.team.slot_name(*slot), &plugin.grants.dirs))
        });
        for (action, dirs) in plugins {
            self.granted
                .extend(dirs.iter().map(|grant| ActionDirectory {
                    action: action.clone(),
                    dir: grant.host.clone(),
                    access: grant.access,
                }));
        }
    }
}

/// Returns the files and directories of source that a team is made from, as far as its file can be
/// read.
pub fn source_files(team: &Path) -> Vec<PathBuf> {
    let definition = Definition::read_without_files(team).ok();
    with_implicit_files(referenced_files(team), definition.as_ref())
        .into_iter()
        .collect()
}

/// Adds the files that belong to a team without being named in its file: the components of skills,
/// which are in the shelf directory, and the lock file beside the team file.
fn with_implicit_files(
    mut files: BTreeSet<PathBuf>,
    definition: Option<&Definition>,
) -> BTreeSet<PathBuf> {
    if let Some(definition) = definition {
        let components = definition.plugins.values().map(|plugin| &plugin.component);
        files.extend(components.filter(|path| !is_builtin(path)).cloned());
        files.insert(
            ComponentLock::new(&definition.source.base)
                .path()
                .to_owned(),
        );
    }
    files
}

/// Returns whether a file is or will be in a directory, under any of its names. `real` is its path
/// without symbolic links, and `there` its metadata if it exists.
fn is_in_directory(real: &Path, there: Option<&Metadata>, dir: &Path) -> bool {
    let granted = file_id(dir);
    // A directory that does not exist yet is created by the run.
    let is_below = real.starts_with(resolve_links(dir))
        || (granted.is_some()
            && real
                .ancestors()
                .skip(1)
                .any(|above| file_id(above) == granted));
    is_below || there.is_some_and(|meta| meta.nlink() > 1 && contains_inode(dir, meta))
}

/// Returns whether one of the names of a file is in a directory or below it.
fn contains_inode(dir: &Path, file: &Metadata) -> bool {
    let mut open = vec![dir.to_owned()];
    let mut seen = 0;
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return false;
            }
            // For a symbolic link, this is the metadata of the link itself.
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => open.push(entry.path()),
                Ok(meta) if (meta.dev(), meta.ino()) == (file.dev(), file.ino()) => return true,
                _ => {}
            }
        }
    }
    false
}

/// Returns the path of a file without symbolic links. The last link may lead to a missing file,
/// which writing would create.
fn resolve_output_path(file: &Path) -> PathBuf {
    let mut path = file.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => break,
        }
    }
    resolve_links(&path)
}

/// Returns whether both paths have the same file name and the same parent directory.
fn has_same_name_and_parent(one: &Path, other: &Path) -> bool {
    let above = |path: &Path| {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        file_id(above.unwrap_or(Path::new(".")))
    };
    one.file_name() == other.file_name() && above(one).is_some() && above(one) == above(other)
}

/// Returns the device and inode numbers of a file, which identify it whatever its path is.
fn file_id(file: &Path) -> Option<(u64, u64)> {
    let meta = fs::metadata(file).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Returns whether a file begins with these bytes or is empty.
fn begins_with(file: &Path, beginning: &[u8]) -> bool {
    use std::io::Read;
    let mut found = Vec::new();
    let read = open::regular(file)
        .and_then(|file| file.take(beginning.len() as u64).read_to_end(&mut found));
    read.is_ok() && (found.is_empty() || found == beginning)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_that_a_replacement_may_name_is_an_input() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["p.wasm", "x=p.wasm", "other.wasm"] {
            fs::write(path(name), "component").unwrap();
        }
        // This one could name as many files as it has bytes.
        let long = ComponentReplacement::from("=".repeat(300_000));
        let components = [
            long,
            ComponentReplacement::from(format!("A.p={}", path("x=p.wasm").display())),
            ComponentReplacement::new("A.q", path("p.wasm")),
        ];
        let inputs = TeamInputs {
            components: &components,
            ..TeamInputs::default()
        };
        let check = |name: &str, is_input: bool| {
            let found = inputs.find(&OutputFile {
                path: &path(name),
                beginning: b"{",
                time: WriteTime::AfterRun,
            });
            let input = OutputConflict::Input("a file that the team is made from");
            assert_eq!(found, is_input.then_some(input), "{name}");
        };
        check("p.wasm", true);
        check("x=p.wasm", true);
        check("other.wasm", false);
        // A signature that does not exist yet would be read.
        let signature = signature_path(Path::new("p.wasm"));
        check(&signature.to_string_lossy(), true);
    }
}
