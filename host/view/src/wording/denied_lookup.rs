//! What is said about a path that an action looked for and may not see.

use std::path::{Path, PathBuf};

/// Returns what an action did, without its name, and the grant that would let it see the path.
pub fn describe_denied_lookup(path: &str) -> String {
    let what = format!("looked for `{path}`, which is not granted");
    match granted_directory(path) {
        Some((host, guest)) => {
            format!("{what}; add to its `allow`: dirs = [{{ host = {host:?}, guest = {guest:?} }}]")
        }
        None => format!("{what}; keep its files in a directory, and add that to `allow.dirs`"),
    }
}

/// Returns the directory that would have to be granted: its name, and its path for the guest. A path
/// whose name has an extension is taken for that of a file. Returns `None` if there is no directory
/// below the root.
fn granted_directory(path: &str) -> Option<(String, String)> {
    // Without a separator at its end.
    let path: PathBuf = Path::new("/").join(path).components().collect();
    let directory = match path.extension() {
        Some(_) => path.parent()?,
        None => path.as_path(),
    };
    let name = directory.file_name()?.to_string_lossy().into_owned();
    Some((name, directory.to_string_lossy().into_owned()))
}

#[test]
fn the_grant_is_that_of_the_directory_with_the_file() {
    let check = |path: &str, expected: &str| {
        let text = describe_denied_lookup(path);
        assert!(text.starts_with(&format!("looked for `{path}`, which is not granted")));
        assert!(text.ends_with(expected), "{text}");
    };
    let data = r#"; add to its `allow`: dirs = [{ host = "data", guest = "/data" }]"#;
    check("/data", data);
    check("/data/", data);
    check("/data/all.csv", data);
    check("data/all.csv", data);
    check("/a/b", r#"dirs = [{ host = "b", guest = "/a/b" }]"#);
    check(
        "all.csv",
        "; keep its files in a directory, and add that to `allow.dirs`",
    );
    check("/", "`allow.dirs`");
}
