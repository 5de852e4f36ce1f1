//! Names in the records. A file below the team file's directory is called by its way from there, so that a team can be
//! moved with its files; any other by its whole path: one file has one name, whichever grant it is reached by. Links are
//! not looked into.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

/// A directory, and how names in the records lie in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tree {
    /// Its own name.
    name: String,
    /// The way from it to the team file's directory, where that lies in it.
    way: Option<String>,
}

impl Tree {
    /// The directory `host` of a team whose file lies in `base`.
    pub(super) fn of(base: &Path, host: &Path) -> Self {
        let (base, host) = (plain(base), plain(host));
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let way = base.strip_prefix(&host).ok().map(text);
        Self {
            name: text(host.strip_prefix(&base).unwrap_or(&host)),
            way: way.filter(|way| !way.is_empty()),
        }
    }

    /// The name of a place in it.
    pub(super) fn name_of(&self, inside: &Path) -> String {
        let inside = inside.to_string_lossy();
        match self.way.as_deref().and_then(|way| within(way, &inside)) {
            Some(name) => name.into(),
            None => joined(&self.name, &inside),
        }
    }

    /// The way from it to what has a name; none where that does not lie in it.
    pub(super) fn inside<'a>(&self, name: &'a str) -> Option<Cow<'a, str>> {
        match &self.way {
            Some(way) if !name.starts_with('/') => Some(joined(way, name).into()),
            _ => within(&self.name, name).map(Cow::Borrowed),
        }
    }
}

/// What is left of a path below a directory, both of them whole or both from the same place.
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

/// A path without links, as far as it is there.
pub fn real_path(path: &Path) -> PathBuf {
    let real = |above: &Path| match above.as_os_str().is_empty() {
        true => Path::new(".").canonicalize(),
        false => above.canonicalize(),
    };
    let there = path
        .ancestors()
        .find_map(|above| Some((real(above).ok()?, path.strip_prefix(above).ok()?)));
    // By components: what is not there ends in no `/`.
    there.map_or_else(
        || path.to_owned(),
        |(real, rest)| real.iter().chain(rest).collect(),
    )
}

/// A path without `.` and `..`.
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

    /// What a file is called by way of a grant; and that it is found there, and in every directory above it only.
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
