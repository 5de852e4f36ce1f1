//! Recorded paths. A path below the team file's directory is recorded relative to it, so that a
//! team can be moved with its files; any other path is absolute. So each file has one recorded
//! path, through whichever grant it is reached. A mapping does not resolve symbolic links; callers use
//! `resolve_links` first.

use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};

/// A directory, and how to convert between paths in it and recorded paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PathMapping {
    /// The recorded path of the directory.
    recorded_path: String,
    /// The path from it to the team file's directory. `None` if that directory is the same or not below
    /// it.
    path_to_base: Option<String>,
}

impl PathMapping {
    /// Creates the mapping of `directory` for a team whose file is in `base`.
    pub(super) fn new(base: &Path, directory: &Path) -> Self {
        let (base, directory) = (normalize_lexically(base), normalize_lexically(directory));
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let path_to_base = base.strip_prefix(&directory).ok().map(text);
        Self {
            recorded_path: text(directory.strip_prefix(&base).unwrap_or(&directory)),
            path_to_base: path_to_base.filter(|path| !path.is_empty()),
        }
    }

    /// Returns the recorded path of a path in the directory.
    pub(super) fn recorded_path_of(&self, inside: &Path) -> String {
        let inside = inside.to_string_lossy();
        match self
            .path_to_base
            .as_deref()
            .and_then(|path_to_base| strip_directory(path_to_base, &inside))
        {
            Some(below_base) => below_base.into(),
            None => join(&self.recorded_path, &inside),
        }
    }

    /// Returns the path, relative to the directory, of what has this recorded path. Returns `None` if
    /// it is not in the directory.
    pub(super) fn path_inside<'a>(&self, recorded: &'a str) -> Option<Cow<'a, str>> {
        match &self.path_to_base {
            Some(path_to_base) if !recorded.starts_with('/') => {
                Some(join(path_to_base, recorded).into())
            }
            _ => strip_directory(&self.recorded_path, recorded).map(Cow::Borrowed),
        }
    }
}

/// Returns the rest of a path below a directory, which is empty if both are the same. Both must be
/// absolute, or relative to the same directory.
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
    let real = |ancestor: &Path| {
        if ancestor.as_os_str().is_empty() {
            Path::new(".").canonicalize()
        } else {
            ancestor.canonicalize()
        }
    };
    let resolved = path
        .ancestors()
        .find_map(|ancestor| Some((real(ancestor).ok()?, path.strip_prefix(ancestor).ok()?)));
    // Joined by components, because `join` with an empty rest would add a `/`.
    resolved.map_or_else(
        || path.to_owned(),
        |(real, rest)| real.iter().chain(rest).collect(),
    )
}

/// Removes `.` and `..` from a path, without looking at what is there.
fn normalize_lexically(path: &Path) -> PathBuf {
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
        let mapping = PathMapping::new(base, Path::new(host));
        assert_eq!(
            mapping.recorded_path_of(Path::new(inside)),
            name,
            "{host} {inside}"
        );
        assert_eq!(
            mapping.path_inside(name).as_deref(),
            Some(inside),
            "{host} {name}"
        );
        let absolute = Path::new(host).join(inside);
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
                .path_inside(name)
                .map(Cow::into_owned);
            let expected = absolute
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
    fn resolving_links_keeps_components_that_do_not_exist() {
        let here = std::env::current_dir()
            .and_then(|here| here.canonicalize())
            .expect("a directory");
        for path in ["none", "./none", "none/deep"] {
            assert_eq!(resolve_links(Path::new(path)), here.join(path), "{path}");
        }
    }

    #[test]
    fn dot_components_make_no_difference() {
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
