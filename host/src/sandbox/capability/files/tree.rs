//! Recorded paths. A path below the team file's directory is recorded relative to it, so that a
//! team can be moved with its files; any other path is absolute. So each file has one recorded
//! path, through whichever grant it is reached. Links are not resolved.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

/// A directory, and how to convert between paths in it and recorded paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tree {
    /// The recorded path of the directory.
    name: String,
    /// The path from it to the team file's directory, if that is below it.
    way: Option<String>,
}

impl Tree {
    /// Creates the value for the directory `host` of a team whose file is in `base`.
    pub(super) fn of(base: &Path, host: &Path) -> Self {
        let (base, host) = (plain(base), plain(host));
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let way = base.strip_prefix(&host).ok().map(text);
        Self {
            name: text(host.strip_prefix(&base).unwrap_or(&host)),
            way: way.filter(|way| !way.is_empty()),
        }
    }

    /// Returns the recorded path of a path in the directory.
    pub(super) fn name_of(&self, inside: &Path) -> String {
        let inside = inside.to_string_lossy();
        match self.way.as_deref().and_then(|way| within(way, &inside)) {
            Some(name) => name.into(),
            None => joined(&self.name, &inside),
        }
    }

    /// Returns the path in the directory of a recorded path; `None` if it is not in the directory.
    pub(super) fn inside<'a>(&self, name: &'a str) -> Option<Cow<'a, str>> {
        match &self.way {
            Some(way) if !name.starts_with('/') => Some(joined(way, name).into()),
            _ => within(&self.name, name).map(Cow::Borrowed),
        }
    }
}

/// Returns the rest of a path below a directory. Both must be absolute, or relative to the same
/// directory.
pub(super) fn within<'a>(directory: &str, path: &'a str) -> Option<&'a str> {
    if directory.is_empty() {
        return (!path.starts_with('/')).then_some(path);
    }
    let rest = path.strip_prefix(directory.trim_end_matches('/'))?;
    if rest.is_empty() {
        Some("")
    } else {
        rest.strip_prefix('/')
    }
}

fn joined(directory: &str, inside: &str) -> String {
    match (directory, inside) {
        ("", inside) => inside.into(),
        (directory, "") => directory.into(),
        (directory, inside) => format!("{}/{inside}", directory.trim_end_matches('/')),
    }
}

/// Resolves the links in a path, as far as the path exists.
pub fn real_path(path: &Path) -> PathBuf {
    let real = |above: &Path| match above.as_os_str().is_empty() {
        true => Path::new(".").canonicalize(),
        false => above.canonicalize(),
    };
    let resolved = path
        .ancestors()
        .find_map(|above| Some((real(above).ok()?, path.strip_prefix(above).ok()?)));
    // Joined by components, so that a missing path does not end in `/`.
    resolved.map_or_else(
        || path.to_owned(),
        |(real, rest)| real.iter().chain(rest).collect(),
    )
}

/// Removes `.` and `..` from a path.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            component => plain.push(component),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the recorded path of a path in a granted directory, and that it is found there and
    /// only in directories above.
    fn check(host: &str, inside: &str, name: &str) {
        let base = Path::new("/srv/team");
        let tree = Tree::of(base, Path::new(host));
        assert_eq!(tree.name_of(Path::new(inside)), name, "{host} {inside}");
        assert_eq!(tree.inside(name).as_deref(), Some(inside), "{host} {name}");
        let lies = Path::new(host).join(inside);
        for host in [
            "/",
            "/srv",
            "/srv/team",
            "/srv/team/out",
            "/srv/team/out/deep",
            "/srv/teams",
            "/else",
        ] {
            let found = Tree::of(base, Path::new(host))
                .inside(name)
                .map(Cow::into_owned);
            let expected = lies
                .strip_prefix(host)
                .ok()
                .map(|rest| rest.to_string_lossy().into_owned());
            assert_eq!(found, expected, "{name} in {host}");
        }
    }

    #[test]
    fn a_file_has_one_name_by_whichever_grant_it_is_reached() {
        check("/srv/team/out", "x", "out/x");
        check("/srv/team", "out/x", "out/x");
        check("/srv", "team/out/x", "out/x");
        check("/", "srv/team/out/x", "out/x");
        check("/srv/team/out/deep", "x", "out/deep/x");
        check("/srv", "teams/x", "/srv/teams/x");
        check("/", "else/x", "/else/x");
        check("/else", "x", "/else/x");
        check("/srv/team/out", "", "out");
    }

    #[test]
    fn what_is_not_there_yet_lies_below_what_is() {
        let here = std::env::current_dir()
            .and_then(|here| here.canonicalize())
            .expect("a directory");
        for path in ["none", "./none", "none/deep"] {
            assert_eq!(real_path(Path::new(path)), here.join(path), "{path}");
        }
    }

    #[test]
    fn ways_back_and_forth_make_no_difference() {
        let (base, host) = (
            Path::new("/srv/./team"),
            Path::new("/srv/team/../team/out/."),
        );
        assert_eq!(
            Tree::of(base, host),
            Tree::of(Path::new("/srv/team"), Path::new("/srv/team/out"))
        );
    }
}
