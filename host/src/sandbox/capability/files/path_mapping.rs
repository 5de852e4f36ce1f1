//! Recorded paths. A path below the team file's directory is recorded relative to it, so that a
//! team can be moved with its files; any other path is absolute. So each file has one recorded
//! path, through whichever grant it is reached. Links are not resolved.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

/// A directory, and how to convert between paths in it and recorded paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PathMapping {
    /// The recorded path of the directory.
    recorded_path: String,
    /// The path from it to the team file's directory, if that is below it.
    path_to_base: Option<String>,
}

impl PathMapping {
    /// Creates the value for the directory `host` of a team whose file is in `base`.
    pub(super) fn new(base: &Path, host: &Path) -> Self {
        let (base, host) = (normalize(base), normalize(host));
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let way = base.strip_prefix(&host).ok().map(text);
        Self {
            recorded_path: text(host.strip_prefix(&base).unwrap_or(&host)),
            path_to_base: way.filter(|way| !way.is_empty()),
        }
    }

    /// Returns the recorded path of a path in the directory.
    pub(super) fn recorded_path_of(&self, inside: &Path) -> String {
        let inside = inside.to_string_lossy();
        match self
            .path_to_base
            .as_deref()
            .and_then(|way| strip_directory(way, &inside))
        {
            Some(name) => name.into(),
            None => join(&self.recorded_path, &inside),
        }
    }

    /// Returns the path in the directory of a recorded path; `None` if it is not in the directory.
    pub(super) fn relative_path<'a>(&self, name: &'a str) -> Option<Cow<'a, str>> {
        match &self.path_to_base {
            Some(way) if !name.starts_with('/') => Some(join(way, name).into()),
            _ => strip_directory(&self.recorded_path, name).map(Cow::Borrowed),
        }
    }
}

/// Returns the rest of a path below a directory. Both must be absolute, or relative to the same
/// directory.
pub(super) fn strip_directory<'a>(directory: &str, path: &'a str) -> Option<&'a str> {
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

fn join(directory: &str, inside: &str) -> String {
    match (directory, inside) {
        ("", inside) => inside.into(),
        (directory, "") => directory.into(),
        (directory, inside) => format!("{}/{inside}", directory.trim_end_matches('/')),
    }
}

/// Resolves the links in a path, as far as the path exists.
pub fn resolve_links(path: &Path) -> PathBuf {
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
fn normalize(path: &Path) -> PathBuf {
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
        let tree = PathMapping::new(base, Path::new(host));
        assert_eq!(
            tree.recorded_path_of(Path::new(inside)),
            name,
            "{host} {inside}"
        );
        assert_eq!(
            tree.relative_path(name).as_deref(),
            Some(inside),
            "{host} {name}"
        );
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
            let found = PathMapping::new(base, Path::new(host))
                .relative_path(name)
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
            assert_eq!(resolve_links(Path::new(path)), here.join(path), "{path}");
        }
    }

    #[test]
    fn ways_back_and_forth_make_no_difference() {
        let (base, host) = (
            Path::new("/srv/./team"),
            Path::new("/srv/team/../team/out/."),
        );
        assert_eq!(
            PathMapping::new(base, host),
            PathMapping::new(Path::new("/srv/team"), Path::new("/srv/team/out"))
        );
    }
}
