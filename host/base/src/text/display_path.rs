//! Formats paths for people.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Returns a path without `.`, and without `..` after a directory. A `..` after a symbolic link is
/// kept, because it leads elsewhere.
pub fn display_path(path: &Path) -> String {
    let mut tidy = PathBuf::new();
    for part in path.components() {
        let is_way_back = part == Component::ParentDir
            && matches!(tidy.components().next_back(), Some(Component::Normal(_)))
            && fs::symlink_metadata(&tidy).is_ok_and(|meta| meta.is_dir());
        if is_way_back {
            tidy.pop();
        } else if part != Component::CurDir {
            tidy.push(part);
        }
    }
    let is_here = tidy.as_os_str().is_empty();
    if is_here {
        ".".into()
    } else {
        tidy.display().to_string()
    }
}

/// Returns a path relative to the current directory if it is below it.
pub fn relative_path(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let path = PathBuf::from(display_path(path));
    path.strip_prefix(&here)
        .unwrap_or(&path)
        .display()
        .to_string()
}

/// Returns the absolute form of a path. A path that has none is returned as it is.
pub fn absolute_path(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shown_as_short_as_it_leads_to_the_same_place() {
        let home = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(home.path().join("a/b")).expect("a directory");
        std::os::unix::fs::symlink("a/b", home.path().join("link")).expect("a link");
        let check = |path: &str, expected: &str| {
            let shown = display_path(&home.path().join(path));
            assert_eq!(
                shown,
                home.path().join(expected).display().to_string(),
                "{path}"
            );
        };
        check("a/../a/./b", "a/b");
        check("a/b/../../x.wasm", "x.wasm");
        check("link/../x.wasm", "link/../x.wasm");
        check("absent/../x.wasm", "absent/../x.wasm");
        assert_eq!(display_path(Path::new("./../x")), "../x");
        assert_eq!(display_path(Path::new("./")), ".");
    }
}
