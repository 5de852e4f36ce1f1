//! The default location of a team's storage: a directory with the team's name. Beside these
//! directories lies a link to the one that was used last.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use strata_core::record::id::to_hex;

use strata_base::files::sha256::sha256;

/// The parent of these directories, relative to the current directory. MetaGPT saves its team
/// there, too.
const STORAGE_PARENT: &str = "workspace/storage";
/// The name of the link. It is MetaGPT's name for the directory of its team.
const LINK: &str = "team";
/// The maximum number of links that are followed, since links can form a cycle.
const MAX_LINKS: usize = 16;

/// Returns the directories in which a team with this name may be saved: first the usual one, then the one that it uses
/// if the usual one belongs to another team whose name becomes the same. Their names end with the suffix.
pub fn default_directories(team: &str, suffix: &str) -> (PathBuf, PathBuf) {
    let name = directory_name(team);
    let other = format!("{name}-{}{suffix}", to_hex(&sha256(team)[..4]));
    let storages = Path::new(STORAGE_PARENT);
    (storages.join(name + suffix), storages.join(other))
}

/// Returns the name of the directory for a team: the team's name with everything but ASCII letters,
/// digits, `.`, `_` and `-` replaced by `_`. Names that have a special meaning, for the file system
/// or for us, are changed.
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

/// Makes the link beside a team's directory point to it. Anything of that name that is not such a
/// link is left alone.
pub fn update_latest_link(directory: &Path) -> io::Result<()> {
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
    // The link is replaced atomically: concurrent readers find either the old or the new target.
    let new = storages.join(format!(".{LINK}.{}", std::process::id()));
    let _ = std::fs::remove_file(&new);
    std::os::unix::fs::symlink(name, &new)?;
    std::fs::rename(&new, &link).inspect_err(|_| {
        let _ = std::fs::remove_file(&new);
    })
}

/// Whether a path is a single name.
fn is_name(path: &Path) -> bool {
    let mut components = path.components();
    matches!(
        (components.next(), components.next()),
        (Some(Component::Normal(_)), None)
    )
}

/// Returns where a path leads if its last component, or the directory of a `team.json`, is a
/// symbolic link. A command that is suggested with the result keeps its meaning when the link is
/// changed.
pub fn resolve_link(path: &Path) -> PathBuf {
    // Collecting the components removes a slash at the end, with which `read_link` would not see
    // the link.
    let mut real: PathBuf = path.components().collect();
    let mut followed = 0;
    while followed < MAX_LINKS {
        let of_file = real.file_name() == Some(OsStr::new(crate::TEAM_JSON));
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
    // A path that is no link, or that leads nowhere, is returned unchanged.
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
            default_directories("a b", ".x"),
            default_directories("a?b", ".x"),
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
            update_latest_link(&at(name)).unwrap();
            assert_eq!(std::fs::read_link(at("team")).unwrap(), Path::new(name));
            assert_eq!(resolve_link(&at("team")), at(name));
            assert_eq!(
                resolve_link(&at("team/team.json")),
                at(name).join("team.json")
            );
            assert_eq!(resolve_link(&at("team/")), at(name));
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
        std::fs::remove_file(at("team")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", at("team")).unwrap();
        update_latest_link(&at("one")).unwrap();
        assert_eq!(
            std::fs::read_link(at("team")).unwrap(),
            Path::new("../elsewhere")
        );
        std::fs::remove_file(at("team")).unwrap();
        std::fs::create_dir(at("team")).unwrap();
        update_latest_link(&at("one")).unwrap();
        assert!(at("team").symlink_metadata().unwrap().is_dir());
    }

    #[test]
    fn a_path_that_is_no_link_stays_as_it_is_and_links_in_a_circle_end() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert_eq!(resolve_link(Path::new("nowhere")), Path::new("nowhere"));
        assert_eq!(resolve_link(Path::new("team.json")), Path::new("team.json"));
        assert_eq!(resolve_link(dir.path()), dir.path());
        std::os::unix::fs::symlink("b", at("a")).unwrap();
        std::os::unix::fs::symlink("a", at("b")).unwrap();
        assert_eq!(resolve_link(&at("a")), at("a"));
    }
}
