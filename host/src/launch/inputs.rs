//! The files that a run reads, over which nothing may be written.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::saved::saved_definition;
use super::{is_saved_in, made_from};
use crate::build::sources;
use crate::manifest::Definition;
use crate::open;
use crate::trust::lock::Lock;
use crate::trust::signature::signature_of;

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

impl Inputs<'_> {
    /// What a file is to the team, if it is an input that would be written over. `beginning` is how a file begins that
    /// may be written again, where it lies among the sources of an action.
    pub fn find(&self, file: &Path, beginning: &[u8]) -> Option<&'static str> {
        if self
            .storage
            .is_some_and(|storage| is_saved_in(file, storage))
        {
            return Some("a file in which the team is saved");
        }
        let (teams, mut others) = self.files();
        let signatures: Vec<PathBuf> = others.iter().map(|file| signature_of(file)).collect();
        others.extend(signatures);
        // A lock or a signature that is not there yet would be read from now on.
        if others.iter().any(|other| is_called_alike(other, file)) {
            return Some("a file that the team is made from");
        }
        // Whatever else is not there is not written over.
        let place = place(file)?;
        if teams.iter().any(|team| self::place(team) == Some(place)) {
            return Some("the team file");
        }
        let is_source = |dir: &Path| {
            let files = sources::of(dir).unwrap_or_default();
            files
                .iter()
                .any(|source| self::place(source) == Some(place))
                && !begins(file, beginning)
        };
        let is_other = |other: &PathBuf| {
            if other.is_dir() {
                is_source(other)
            } else {
                self::place(other) == Some(place)
            }
        };
        others
            .iter()
            .any(is_other)
            .then_some("a file that the team is made from")
    }

    /// The team files, and all other files and directories that the team reads.
    fn files(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut teams, mut others) = (Vec::new(), self.policies.clone());
        if let Some(team) = self.team {
            others.extend(made_from(team));
            teams.push(team.to_owned());
        }
        let mut given = self.components.to_vec();
        if let Some(saved) = self
            .storage
            .and_then(|storage| saved_definition(storage).ok())
        {
            others.extend(Definition::files_named_in(
                &saved.text,
                &saved.name,
                &saved.base,
            ));
            let definition = Definition::parse_alone(&saved.text, &saved.name, &saved.base).ok();
            others.extend(
                definition
                    .iter()
                    .flat_map(|read| &read.plugins)
                    .map(|(_, plugin)| plugin.component.clone()),
            );
            others.push(Lock::new(&saved.base).path().to_owned());
            given.extend(saved.components.iter().cloned());
            teams.push(saved.file());
        }
        others.extend(
            given
                .iter()
                .filter_map(|given| Some(PathBuf::from(given.split_once('=')?.1))),
        );
        (teams, others)
    }
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
