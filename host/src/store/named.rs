//! Where a team is saved if nobody says where: in a directory with the team's name. Beside these directories lies a link
//! to the one that was used last.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use strata_core::id::hex;

use crate::sha256::sha256;

/// Where the directories lie, relative to where the program is started. MetaGPT saves its team there, too.
const STORAGES: &str = "workspace/storage";
/// The name of the link: MetaGPT's name for the directory of its team.
const LINK: &str = "team";
/// More links than a path has if none of them leads back to itself.
const MAX_LINKS: usize = 16;

/// Returns the directories in which a team with this name may be saved: first the usual one, then the one that it uses
/// if the usual one belongs to another team whose name becomes the same. Their names end with the suffix.
pub fn named_directories(team: &str, suffix: &str) -> (PathBuf, PathBuf) {
    let name = directory_name(team);
    let other = format!("{name}-{}{suffix}", hex(&sha256(team)[..4]));
    let storages = Path::new(STORAGES);
    (storages.join(name + suffix), storages.join(other))
}

/// Returns the name of the directory for a team: its own name, in which all but letters, digits, `.`, `_` and `-` of
/// ASCII are replaced by `_`. Names that mean something else to the file system, or here, are changed.
fn directory_name(team: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let name: String = team
        .chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect();
    match name.as_str() {
        "" | "." | ".." => "_".repeat(name.len().max(1)),
        LINK => format!("{LINK}_"),
        _ => name,
    }
}

/// Lets the link beside a team's directory lead to it. Anything but such a link that has its name stays as it is.
pub fn link_to_last(directory: &Path) -> io::Result<()> {
    let (Some(storages), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Ok(());
    };
    let link = storages.join(LINK);
    match std::fs::read_link(&link) {
        Ok(target) if target == name => return Ok(()),
        Ok(target) if !is_name(&target) => return Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Ok(()),
        _ => {}
    }
    // Put in place as a whole: who follows it meanwhile finds one team or the other.
    let new = storages.join(format!(".{LINK}.{}", std::process::id()));
    let _ = std::fs::remove_file(&new);
    std::os::unix::fs::symlink(name, &new)?;
    std::fs::rename(&new, &link).inspect_err(|_| drop(std::fs::remove_file(&new)))
}

/// Whether a path is a single name.
fn is_name(path: &Path) -> bool {
    let mut components = path.components();
    matches!(
        (components.next(), components.next()),
        (Some(Component::Normal(_)), None)
    )
}

/// Returns where a path leads whose last component, or whose directory in case of a `team.json`, is a symbolic link.
/// What is suggested to do with it then still means the same once the link leads elsewhere.
pub fn follow_link(path: &Path) -> PathBuf {
    // Without a slash at its end, behind which there would be no link any more.
    let mut real: PathBuf = path.components().collect();
    let mut followed = 0;
    while followed < MAX_LINKS {
        let of_file = real.file_name() == Some(OsStr::new(super::directory::TEAM_JSON));
        let (link, file) = match (real.parent(), real.file_name()) {
            (Some(parent), Some(file)) if of_file && !parent.as_os_str().is_empty() => {
                (parent, Some(file))
            }
            _ => (real.as_path(), None),
        };
        let Ok(target) = std::fs::read_link(link) else {
            break;
        };
        let target = link.parent().unwrap_or(Path::new("")).join(target);
        real = file.map_or_else(|| target.clone(), |file| target.join(file));
        followed += 1;
    }
    // What is no link, and what leads nowhere, is named as the operator named it.
    if (1..MAX_LINKS).contains(&followed) {
        real
    } else {
        path.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_s_name_becomes_one_component_of_a_path() {
        let check =
            |team: &str, expected: &str| assert_eq!(directory_name(team), expected, "{team:?}");
        check("snake", "snake");
        check("A.b_c-9", "A.b_c-9");
        check("a snake/game", "a_snake_game");
        check("größe", "gr__e");
        check("", "_");
        check(".", "_");
        check("..", "__");
        check("...", "...");
        check("../x", ".._x");
        check("team", "team_");
        check("teams", "teams");
    }

    #[test]
    fn names_that_become_the_same_have_directories_of_their_own() {
        let ((one, other_one), (two, other_two)) = (
            named_directories("a b", ".x"),
            named_directories("a?b", ".x"),
        );
        assert_eq!(one, Path::new("workspace/storage/a_b.x"));
        assert_eq!(one, two);
        assert_ne!(other_one, other_two);
    }

    #[test]
    fn the_link_leads_to_the_last_directory_and_nothing_else_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["one", "two", "two", "one"] {
            std::fs::create_dir_all(at(name)).unwrap();
            link_to_last(&at(name)).unwrap();
            assert_eq!(std::fs::read_link(at("team")).unwrap(), Path::new(name));
            assert_eq!(follow_link(&at("team")), at(name));
            assert_eq!(
                follow_link(&at("team/team.json")),
                at(name).join("team.json")
            );
            assert_eq!(follow_link(&at("team/")), at(name));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
        std::fs::remove_file(at("team")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", at("team")).unwrap();
        link_to_last(&at("one")).unwrap();
        assert_eq!(
            std::fs::read_link(at("team")).unwrap(),
            Path::new("../elsewhere")
        );
        std::fs::remove_file(at("team")).unwrap();
        std::fs::create_dir(at("team")).unwrap();
        link_to_last(&at("one")).unwrap();
        assert!(at("team").symlink_metadata().unwrap().is_dir());
    }

    #[test]
    fn a_path_that_is_no_link_stays_as_it_is_and_links_in_a_circle_end() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert_eq!(follow_link(Path::new("nowhere")), Path::new("nowhere"));
        assert_eq!(follow_link(Path::new("team.json")), Path::new("team.json"));
        assert_eq!(follow_link(dir.path()), dir.path());
        std::os::unix::fs::symlink("b", at("a")).unwrap();
        std::os::unix::fs::symlink("a", at("b")).unwrap();
        assert_eq!(follow_link(&at("a")), at("a"));
    }
}
