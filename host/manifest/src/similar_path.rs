//! Finds the path that was most likely meant by one that does not exist.

use std::path::{Path, PathBuf};

use strata_base::text::suggest::closest;

use super::SourceText;

/// How many entries of a directory are compared at most.
const MAX_ENTRIES: usize = 1000;

/// Returns an existing path that differs from this one only by similar names of its files and directories, if there is one.
pub fn similar_path(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    let mut parts = path.components().peekable();
    while let Some(part) = parts.next() {
        let next = found.join(part);
        found = if next.exists() {
            next
        } else if parts.peek().is_some() {
            similar_entry(&next, Path::is_dir)?
        } else {
            similar_entry(&next, |_| true)?
        };
    }
    (found != path).then_some(found)
}

/// Returns "; did you mean `x`?" to be appended to a message about a path at which nothing is, or an empty text if something
/// is there, or nothing has a similar path.
pub fn did_you_mean_path(path: &Path) -> String {
    let near = if path.exists() {
        None
    } else {
        similar_path(path)
    };
    near.map_or_else(String::new, |near| {
        format!("; did you mean `{}`?", near.display())
    })
}

/// Returns the path of an entry of the same directory with a similar name, if there is one for which `is_usable` is true.
/// One with the same extension is preferred.
fn similar_entry(path: &Path, is_usable: fn(&Path) -> bool) -> Option<PathBuf> {
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(directory)
        .ok()?
        .take(MAX_ENTRIES)
        .filter_map(Result::ok);
    let names: Vec<String> = entries
        .filter(|entry| is_usable(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let stem = path.file_stem()?.to_str()?;
    let names: Vec<&Path> = names.iter().map(Path::new).collect();
    let alike: Vec<&Path> = names
        .iter()
        .copied()
        .filter(|other| other.extension() == path.extension())
        .collect();
    let others: Vec<&Path> = names
        .into_iter()
        .filter(|other| may_be_meant(path, other))
        .collect();
    let near = most_similar(stem, &alike).or_else(|| most_similar(stem, &others))?;
    Some(path.with_file_name(near))
}

/// Whether a file may be meant by the name of another one. A team file is not meant by the name of a script, even if both
/// have the same stem.
fn may_be_meant(path: &Path, other: &Path) -> bool {
    let extension = |path: &Path| path.extension()?.to_str().map(str::to_owned);
    let (Some(written), Some(other)) = (extension(path), extension(other)) else {
        return true;
    };
    let is_team = |extension: &str| extension == "toml";
    is_team(&written) == is_team(&other) || closest(&written, [other.as_str()]).is_some()
}

impl SourceText {
    /// Returns a path as it would be written in the text: relative, if it lies below the base
    /// directory.
    pub(super) fn relative_to_base(&self, path: &Path) -> String {
        path.strip_prefix(&self.base)
            .unwrap_or(path)
            .display()
            .to_string()
    }
}

/// Returns the name whose stem (the name without its extension) is most similar to `stem`.
fn most_similar<'a>(stem: &str, names: &[&'a Path]) -> Option<&'a Path> {
    let of = |name: &'a Path| name.file_stem().and_then(|stem| stem.to_str());
    let near = closest(stem, names.iter().filter_map(|name| of(name)))?;
    names.iter().copied().find(|name| of(name) == Some(near))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_similar_name_is_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("respond")).unwrap();
        for name in ["probe.wasm", "team.toml", "other.toml", "respond/team.toml"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(
                similar_path(&dir.path().join(name)),
                expected.map(|near| dir.path().join(near)),
                "{name}"
            );
        };
        check("respnd", Some("respond"));
        check("prob.wasm", Some("probe.wasm"));
        check("taem.toml", Some("team.toml"));
        check("probe.wsm", Some("probe.wasm"));
        check("team.tml", Some("team.toml"));
        check("nothing", None);
        check("nothing.toml", None);
        // These are team files, and those are none.
        check("team.py", None);
        check("probe.toml", None);
        check("probe.js", Some("probe.wasm"));
        check("prob", Some("probe.wasm"));
        check("missing/probe.wasm", None);
        check("respnd/team.toml", Some("respond/team.toml"));
        check("respnd/taem.toml", Some("respond/team.toml"));
        check("respnd/nothing.toml", None);
        // It is a file.
        check("prob.wasm/team.toml", None);
        let hint = |name: &str| did_you_mean_path(&dir.path().join(name));
        assert!(hint("respnd").ends_with("/respond`?"));
        assert_eq!(hint("respond"), "");
        assert_eq!(hint("nothing"), "");
    }
}
