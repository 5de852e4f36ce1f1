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
use super::tree::Tree;
use crate::blob::digest_of;
use crate::plugin::{Access, DirGrant};

/// How much of a digest is in the name of what is kept beside.
const ASIDE_DIGITS: usize = 8;
/// The largest file whose bytes are compared. What actions wrote is never larger.
const COMPARED_BYTES: u64 = 1 << 30;
/// How often a place is looked at anew, where somebody else changed it meanwhile: another run that writes there, too.
const LOOKS: u32 = 64;
/// The longest name that file systems take.
const NAME_BYTES: usize = 255;
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
}

/// All directories that some action may write.
#[derive(Debug, Default)]
pub struct Directories {
    base: PathBuf,
    roots: BTreeMap<Tree, Root>,
}

impl Directories {
    /// The writable ones among these, as a team file in the directory `base` grants them.
    pub fn new<'a>(base: &Path, grants: impl Iterator<Item = &'a DirGrant>) -> Self {
        let writable = grants.filter(|grant| grant.access == Access::Write);
        let roots = writable.map(|grant| (Tree::of(base, &grant.host), Root::new(grant.host.clone()))).collect();
        Self { base: base.into(), roots }
    }

    /// One directory, in which the files are laid out by their names.
    pub fn apart(directory: &Path) -> Self {
        let roots = [(Tree::of(directory, directory), Root::new(directory.into()))].into();
        Self { base: directory.into(), roots }
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
        let fail = |source| PlaceError { path: placement.path.clone(), source };
        let roots = self.roots.iter().rev();
        let found = roots.filter_map(|(tree, root)| Some((root, PathBuf::from(&*tree.inside(&placement.path)?))));
        // A name is ours, but the records may come from anywhere: with names that no action may write.
        let named = |inside: &Path| inside.components().all(|c| matches!(c, Component::Normal(_)));
        let mut found = found.filter(|(_, inside)| named(inside) && inside.components().nth(LEVELS).is_none());
        match found.find(|(_, inside)| !inside.as_os_str().is_empty()) {
            None => Ok(Placed::NotGranted),
            Some((root, inside)) => settle(root, &inside, (placement, bytes), known).map_err(fail),
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
    use io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), AlreadyExists | DirectoryNotEmpty | IsADirectory | NotADirectory | NotFound)
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
        (Found::Directory, _) if placement.expected == Content::Directory && is_cleared(root, inside)? => {}
        // It may hold what others put there: whatever it is, it is not ours to remove.
        (Found::Directory, _) => *aside = Some(set_aside(root, inside, None)?),
        (_, Content::Absent) if !ours => return Ok(Placed::Aside(name(inside))),
        // Renamed over, so that something always lies there.
        (Found::File { .. }, Content::File { .. }) if !ours => *aside = Some(keep(root, inside, there.as_ref())?),
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
    let Some((above, found)) = root.blocked(inside)? else { return Ok(()) };
    let there = read(root, above, found)?;
    if there.as_ref().and_then(Content::digest).is_some_and(&known) {
        return root.remove(above);
    }
    *aside = Some(set_aside(root, above, there.as_ref())?);
    Ok(())
}

/// Removes a directory, unless something is in it.
fn clear(root: &Root, inside: &Path) -> io::Result<Placed> {
    Ok(if is_cleared(root, inside)? { Placed::There } else { Placed::Aside(name(inside)) })
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
            content.map(|content| Content::File { digest: digest_of(&content), bytes })
        }
        Found::Other => None,
    })
}

/// Gives what lies at a place a name under which it is in nobody's way.
fn set_aside(root: &Root, inside: &Path, content: Option<&Content>) -> io::Result<String> {
    let aside = keep(root, inside, content)?;
    if root.look(inside)? != Found::Absent {
        root.remove(inside)?;
    }
    Ok(aside)
}

/// The same. A file may stay in its place, too: what is renamed over it then leaves no moment without one.
fn keep(root: &Root, inside: &Path, content: Option<&Content>) -> io::Result<String> {
    let digest = content.and_then(Content::digest);
    let mark = digest.map_or("other", |digest| &digest.0[..ASIDE_DIGITS]);
    let name = name(inside);
    let names = (1..).map(|n| {
        let end = if n == 1 { format!(".kept-{mark}") } else { format!(".kept-{mark}-{n}") };
        format!("{}{end}", &name[..name.floor_char_boundary(NAME_BYTES - end.len())])
    });
    for aside in names {
        let beside = inside.with_file_name(&aside);
        match root.look(&beside)? {
            Found::Absent if digest.is_none() => return root.rename(inside, &aside).map(|()| aside),
            Found::Absent => match root.link(inside, &aside) {
                Err(error) if is_interference(&error) => return Err(error),
                // Not every file system has links.
                Err(_) => return root.rename(inside, &aside).map(|()| aside),
                Ok(()) => return Ok(aside),
            },
            // Another run has kept it.
            found @ Found::File { .. } if digest.is_some() && read(root, &beside, found)?.as_ref() == content => {
                return Ok(aside);
            }
            _ => {}
        }
    }
    unreachable!("some number is free")
}

fn name(inside: &Path) -> String {
    inside.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether what lies at a path can be seen from one of these directories.
pub(crate) fn is_seen_from(base: &Path, grants: &[DirGrant], path: &str) -> bool {
    grants.iter().any(|grant| Tree::of(base, &grant.host).inside(path).is_some())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Puts something into a directory that an action may write.
    fn put(home: &Path, path: &str, expected: Content, text: Option<&str>) -> Placed {
        let bytes = text.map(str::as_bytes);
        let content = match bytes {
            Some(bytes) => Content::File { digest: digest_of(bytes), bytes: bytes.len() as u64 },
            None => Content::Directory,
        };
        let grant = DirGrant { host: home.into(), guest: "/out".into(), access: Access::Write, max_bytes: None };
        let placement = Placement { path: home.join(path).to_string_lossy().into_owned(), expected, content };
        let directories = Directories::new(Path::new("/team"), [&grant].into_iter());
        directories.place(&placement, bytes, |_| false).unwrap()
    }

    #[test]
    fn a_file_whose_bytes_are_not_there_is_left_out_and_what_lies_there_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let grant = DirGrant { host: home.path().into(), guest: "/out".into(), access: Access::Write, max_bytes: None };
        let directories = Directories::new(Path::new("/team"), [&grant].into_iter());
        let content = Content::File { digest: digest_of(b"text"), bytes: 4 };
        let path = home.path().join("a/f");
        let path = path.to_str().unwrap();
        let placement = Placement { path: path.into(), expected: Content::Absent, content };
        let place = || directories.place(&placement, None, |_| false).unwrap();
        fs::write(home.path().join("a"), "mine").unwrap();
        assert_eq!(place(), Placed::Missing);
        assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "mine");
        fs::remove_file(home.path().join("a")).unwrap();
        fs::create_dir(home.path().join("a")).unwrap();
        fs::write(path, "other").unwrap();
        assert_eq!(place(), Placed::Missing);
        assert_eq!(fs::read_to_string(path).unwrap(), "other");
        fs::write(path, "text").unwrap();
        assert_eq!(place(), Placed::There);
    }

    #[test]
    fn what_lies_deeper_than_any_action_may_write_is_not_put_there_whatever_the_records_say() {
        let home = tempfile::tempdir().unwrap();
        let deep = |levels: usize| format!("{}x", "d/".repeat(levels - 1));
        assert_eq!(put(home.path(), &deep(LEVELS), Content::Absent, Some("text")), Placed::There);
        assert_eq!(fs::read_to_string(home.path().join(deep(LEVELS))).unwrap(), "text");
        assert_eq!(put(home.path(), &deep(LEVELS + 1), Content::Absent, Some("text")), Placed::NotGranted);
    }

    #[test]
    fn what_is_in_the_way_of_a_directory_is_kept_beside_it() {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir(home.path().join("a")).unwrap();
        fs::write(home.path().join("a/b"), "mine").unwrap();
        let Placed::Aside(aside) = put(home.path(), "a/b/c/d", Content::Absent, Some("text")) else {
            panic!("nothing was set aside");
        };
        assert_eq!(fs::read_to_string(home.path().join("a").join(aside)).unwrap(), "mine");
        assert_eq!(fs::read_to_string(home.path().join("a/b/c/d")).unwrap(), "text");
    }

    #[test]
    fn runs_that_write_the_same_files_at_once_fail_neither_and_lose_nothing_of_others() {
        let home = tempfile::tempdir().unwrap();
        let texts = ["one", "two", "three", "four"];
        std::thread::scope(|scope| {
            for text in texts {
                scope.spawn(|| {
                    for round in 0..50 {
                        put(home.path(), &format!("file-{round}"), Content::Absent, Some(text));
                        let nested = if text.len() == 3 { "path" } else { "path/below" };
                        put(home.path(), nested, Content::Absent, Some(text));
                    }
                });
            }
        });
        for round in 0..50 {
            let named = |name: &str| fs::read_to_string(home.path().join(name)).ok();
            let kept = |text: &&str| named(&format!("file-{round}.kept-{}", &digest_of(text.as_bytes()).0[..8]));
            let mut there: Vec<String> = texts.iter().filter_map(kept).chain(named(&format!("file-{round}"))).collect();
            there.sort();
            there.dedup();
            assert!(!there.is_empty() && there.iter().all(|text| texts.contains(&text.as_str())), "{there:?}");
        }
        let names: Vec<_> = fs::read_dir(home.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| !name.to_string_lossy().contains("partial")), "{names:?}");
    }

    #[test]
    fn what_is_kept_is_kept_once() {
        let home = tempfile::tempdir().unwrap();
        for _ in 0..3 {
            fs::write(home.path().join("file"), "mine").unwrap();
            let Placed::Aside(aside) = put(home.path(), "file", Content::Absent, Some("text")) else {
                panic!("nothing was kept");
            };
            assert_eq!(fs::read_to_string(home.path().join(aside)).unwrap(), "mine");
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_takes_the_place_of_a_directory_that_was_left_empty() {
        let home = tempfile::tempdir().unwrap();
        let (ours, full) = (home.path().join("ours"), home.path().join("full"));
        fs::create_dir(&ours).unwrap();
        assert_eq!(put(home.path(), "ours", Content::Directory, Some("text")), Placed::There);
        assert_eq!(fs::read_to_string(&ours).unwrap(), "text");
        // What somebody else put into it is kept.
        fs::create_dir(&full).unwrap();
        fs::write(full.join("file"), "mine").unwrap();
        assert_eq!(put(home.path(), "full", Content::Directory, Some("text")), Placed::Aside("full.kept-other".into()));
        assert_eq!(fs::read_to_string(home.path().join("full.kept-other/file")).unwrap(), "mine");
    }

    #[test]
    fn what_is_set_aside_has_a_name_that_file_systems_take() {
        for long in ["n".repeat(250), "ö".repeat(127)] {
            let home = tempfile::tempdir().unwrap();
            for end in [".kept-other", ".kept-other-2"] {
                fs::create_dir_all(home.path().join(&long)).unwrap();
                let Placed::Aside(aside) = put(home.path(), &long, Content::Absent, Some("text")) else {
                    panic!("nothing was set aside");
                };
                assert!(aside.starts_with(&long[..200]) && aside.ends_with(end) && aside.len() <= 255, "{aside}");
                assert!(home.path().join(aside).is_dir());
                fs::remove_file(home.path().join(&long)).unwrap();
            }
        }
    }
}
