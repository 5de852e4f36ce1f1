//! Putting files in their places, once it is recorded that they belong there: by name in the records, below the
//! directories that some action may write. Doing it again changes nothing. What somebody else changed meanwhile is
//! kept beside.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use strata_core::file::{Content, Placement};
use strata_core::id::Digest;

use super::super::quota;
use super::disk::{Found, Root};
use super::own::Own;
use super::tree::Tree;
use crate::blob::digest_of;
use crate::plugin::{Access, DirGrant};

/// How much of a digest is in the name of what is kept beside.
const ASIDE_DIGITS: usize = 8;
/// The largest file whose bytes are compared. What actions wrote is never larger.
const COMPARED_BYTES: u64 = 1 << 30;
/// How often a place is looked at anew, where somebody else changed it meanwhile: another run that writes there, too.
const LOOKS: u32 = 64;
/// Names on the way to a place: as many as an action may write, and those of the directory that it was granted, which
/// may lie below the one where the place is looked for.
const LEVELS: usize = 4 * quota::LEVELS;

/// A file could not be put in its place.
#[derive(Debug, thiserror::Error)]
#[error("cannot put the file `{path}` in its place: {source}")]
pub struct PlaceError {
    path: String,
    source: io::Error,
}

/// What became of a file that was to be put in its place.
#[derive(Debug, PartialEq, Eq)]
pub enum Placed {
    /// It lies there.
    There,
    /// It lies there, and what somebody else had put there has this name now.
    Aside(String),
    /// It does not lie there: no action may write there any more.
    NotGranted,
    /// It does not lie there: its bytes were not brought along when the team was moved. What lies there is left as it is.
    Missing,
    /// It does not lie there, and never can: the file system takes no such name.
    NoName,
}

/// All directories that some action may write.
#[derive(Debug, Default)]
pub struct Directories {
    base: PathBuf,
    roots: BTreeMap<Tree, Root>,
    own: Own,
}

impl Directories {
    /// The writable ones among these, as a team file in the directory `base` grants them.
    pub fn new<'a>(base: &Path, grants: impl Iterator<Item = &'a DirGrant>) -> Self {
        let writable = grants.filter(|grant| grant.access == Access::Write);
        let roots = writable
            .map(|grant| (Tree::of(base, &grant.host), Root::new(grant.host.clone())))
            .collect();
        Self {
            base: base.into(),
            roots,
            own: Own::default(),
        }
    }

    /// The same without what the host itself saves there.
    pub fn without(self, own: Own) -> Self {
        let root =
            |(tree, root): (Tree, Root)| (tree, Root::without(root.host().into(), own.clone()));
        Self {
            roots: self.roots.into_iter().map(root).collect(),
            base: self.base,
            own,
        }
    }

    /// What the host itself saves.
    pub fn own(&self) -> &Own {
        &self.own
    }

    /// One directory, in which the files are laid out by their names.
    pub fn apart(directory: &Path) -> Self {
        let roots = [(Tree::of(directory, directory), Root::new(directory.into()))].into();
        Self {
            base: directory.into(),
            roots,
            own: Own::default(),
        }
    }

    /// The directory of the team file.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Puts something in its place. `known` says of what else may lie there whether it is kept anyway.
    pub fn place(
        &self,
        placement: &Placement,
        bytes: Option<&[u8]>,
        known: impl Fn(&Digest) -> bool,
    ) -> Result<Placed, PlaceError> {
        let fail = |source| PlaceError {
            path: placement.path.clone(),
            source,
        };
        let roots = self.roots.iter().rev();
        let found = roots.filter_map(|(tree, root)| {
            Some((root, PathBuf::from(&*tree.inside(&placement.path)?)))
        });
        // A name is ours, but the records may come from anywhere: with names that no action may write.
        let named = |inside: &Path| {
            inside
                .components()
                .all(|c| matches!(c, Component::Normal(_)))
        };
        let found =
            found.filter(|(_, inside)| named(inside) && inside.components().nth(LEVELS).is_none());
        let mut found: Vec<_> = found
            .filter(|(_, inside)| !inside.as_os_str().is_empty())
            .collect();
        // One that became a file, or lies below one, is a place like others in the directory that holds it.
        let at = found
            .iter()
            .position(|(root, _)| root.may_be())
            .unwrap_or(0);
        match (at < found.len()).then(|| found.swap_remove(at)) {
            None => Ok(Placed::NotGranted),
            Some((root, inside)) if root.is_kept_from(&inside, &placement.content) => {
                Ok(Placed::NotGranted)
            }
            Some((root, inside)) => match settle(root, &inside, (placement, bytes), known) {
                Err(error) if error.kind() == io::ErrorKind::InvalidFilename => Ok(Placed::NoName),
                settled => settled.map_err(fail),
            },
        }
    }
}

/// Looks at a place and puts things right there, until nobody interferes.
fn settle(
    root: &Root,
    inside: &Path,
    content: (&Placement, Option<&[u8]>),
    known: impl Fn(&Digest) -> bool,
) -> io::Result<Placed> {
    let mut aside = None;
    for _ in 1..LOOKS {
        match settle_as_it_looks(root, inside, content, &known, &mut aside) {
            Err(error) if is_interference(&error) => {}
            settled => return settled,
        }
    }
    settle_as_it_looks(root, inside, content, &known, &mut aside)
}

/// Whether this is what one sees when a place is no longer as it looked.
fn is_interference(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AlreadyExists, DirectoryNotEmpty, InvalidInput, IsADirectory, NotADirectory, NotFound,
    };
    // The last where what looked like a file is something else by the time it is read.
    matches!(
        error.kind(),
        AlreadyExists | DirectoryNotEmpty | IsADirectory | NotADirectory | NotFound | InvalidInput
    )
}

/// The same, once. `aside` is what was given another name, now or before.
fn settle_as_it_looks(
    root: &Root,
    inside: &Path,
    (placement, bytes): (&Placement, Option<&[u8]>),
    known: impl Fn(&Digest) -> bool,
    aside: &mut Option<String>,
) -> io::Result<Placed> {
    let found = root.look(inside)?;
    let (there, content) = (read(root, inside, found)?, &placement.content);
    if there.as_ref() == Some(content) {
        return Ok(placed(aside));
    }
    if matches!(content, Content::File { .. }) && bytes.is_none() {
        return Ok(Placed::Missing);
    }
    let ours = there.as_ref() == Some(&placement.expected)
        || matches!(&there, Some(Content::Absent))
        || there.as_ref().and_then(Content::digest).is_some_and(&known);
    if *content != Content::Absent {
        clear_above(root, inside, known, aside)?;
    }
    match (found, content) {
        (Found::Directory, Content::Absent) => return clear(root, inside),
        (Found::Directory, _)
            if placement.expected == Content::Directory && is_cleared(root, inside)? => {}
        // It may hold what others put there: whatever it is, it is not ours to remove.
        (Found::Directory, _) => *aside = Some(set_aside(root, inside, None)?),
        (_, Content::Absent) if !ours => return Ok(Placed::Aside(name(inside))),
        // Renamed over, so that something always lies there.
        (Found::File { .. }, Content::File { .. }) if !ours => {
            *aside = Some(keep(root, inside, there.as_ref())?)
        }
        _ if !ours => *aside = Some(set_aside(root, inside, there.as_ref())?),
        (Found::File { .. }, Content::Absent | Content::Directory) => root.remove(inside)?,
        _ => {}
    }
    match content {
        Content::Absent => {}
        Content::Directory => root.make(inside)?,
        Content::File { .. } => root.put(inside, bytes.ok_or(io::ErrorKind::NotFound)?)?,
    }
    Ok(placed(aside))
}

fn placed(aside: &Option<String>) -> Placed {
    aside.clone().map_or(Placed::There, Placed::Aside)
}

/// Makes way where something else than a directory lies above a place. It is given another name, unless it is kept
/// anyway. Two roles that disagree about a path are told so when the step ends; until then each is obeyed.
fn clear_above(
    root: &Root,
    inside: &Path,
    known: impl Fn(&Digest) -> bool,
    aside: &mut Option<String>,
) -> io::Result<()> {
    let Some((above, found)) = root.blocked(inside)? else {
        return Ok(());
    };
    let there = read(root, above, found)?;
    if there.as_ref().and_then(Content::digest).is_some_and(&known) {
        return root.remove(above);
    }
    *aside = Some(set_aside(root, above, there.as_ref())?);
    Ok(())
}

/// Removes a directory, unless something is in it.
fn clear(root: &Root, inside: &Path) -> io::Result<Placed> {
    Ok(if is_cleared(root, inside)? {
        Placed::There
    } else {
        Placed::Aside(name(inside))
    })
}

/// The same; whether it is gone.
fn is_cleared(root: &Root, inside: &Path) -> io::Result<bool> {
    match root.remove(inside) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// What lies at a place; none where that is nothing that an action could have put there.
fn read(root: &Root, inside: &Path, found: Found) -> io::Result<Option<Content>> {
    Ok(match found {
        Found::Absent => Some(Content::Absent),
        Found::Directory => Some(Content::Directory),
        Found::File { bytes, .. } => {
            let content = root.read(inside, COMPARED_BYTES)?;
            content.map(|content| Content::File {
                digest: digest_of(&content),
                bytes,
            })
        }
        Found::Other => None,
    })
}

/// Gives what lies at a place a name under which it is in nobody's way.
fn set_aside(root: &Root, inside: &Path, content: Option<&Content>) -> io::Result<String> {
    for aside in asides(inside, content) {
        match root.rename(inside, &aside) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            renamed => return renamed.map(|()| aside),
        }
    }
    unreachable!("some number is free")
}

/// The same for a file that stays in its place, too: what is renamed over it leaves no moment without one.
fn keep(root: &Root, inside: &Path, content: Option<&Content>) -> io::Result<String> {
    for aside in asides(inside, content) {
        let beside = inside.with_file_name(&aside);
        match root.look(&beside)? {
            Found::Absent => match root.link(inside, &aside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if is_interference(&error) => return Err(error),
                // Not every file system has links.
                Err(_) => return set_aside(root, inside, content),
                Ok(()) => return Ok(aside),
            },
            // Another run has kept it.
            found @ Found::File { .. } if read(root, &beside, found)?.as_ref() == content => {
                return Ok(aside);
            }
            _ => {}
        }
    }
    unreachable!("some number is free")
}

/// The names under which what lies at a place may be kept beside it.
fn asides(inside: &Path, content: Option<&Content>) -> impl Iterator<Item = String> {
    let mark = content
        .and_then(Content::digest)
        .map_or("other", |digest| &digest.0[..ASIDE_DIGITS])
        .to_owned();
    let name = name(inside);
    (1..).map(move |n| {
        let end = if n == 1 {
            format!(".kept-{mark}")
        } else {
            format!(".kept-{mark}-{n}")
        };
        format!(
            "{}{end}",
            &name[..name.floor_char_boundary(quota::NAME_BYTES - end.len())]
        )
    })
}

fn name(inside: &Path) -> String {
    inside
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Whether what lies at a path can be seen from one of these directories.
pub(crate) fn is_seen_from(base: &Path, grants: &[DirGrant], path: &str) -> bool {
    grants
        .iter()
        .any(|grant| Tree::of(base, &grant.host).inside(path).is_some())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests;
