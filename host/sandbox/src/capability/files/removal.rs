//! Removes everything in a directory, however deeply it is nested. Guests can nest directories by
//! renaming, deeper than a recursive function has stack and than a process can have open files.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use cap_std::fs::Dir;

use super::disk::open_subdirectory;

/// Removes everything in a directory. Directories two levels below are moved up by one, so no
/// deeper level is visited. Nobody else may use the directory meanwhile.
pub(super) fn remove_contents(top: &Dir) -> io::Result<()> {
    let mut lifted = 0;
    loop {
        let mut found = false;
        for entry in top.entries()? {
            found = true;
            let entry = entry?;
            let name = entry.file_name();
            if entry.file_type()?.is_dir() {
                lift(&open_subdirectory(top, &name)?, top, &mut lifted)?;
                top.remove_dir(&name)?;
            } else {
                top.remove_file(&name)?;
            }
        }
        // Directories that were moved up meanwhile may be missing from the entries.
        if !found {
            return Ok(());
        }
    }
}

/// Removes the files in a directory, and moves its directories up to `top`.
fn lift(dir: &Dir, top: &Dir, lifted: &mut u64) -> io::Result<()> {
    for entry in dir.entries()? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            move_up(dir, &entry.file_name(), top, lifted)?
        } else {
            dir.remove_file(entry.file_name())?
        }
    }
    Ok(())
}

fn move_up(dir: &Dir, name: &OsStr, top: &Dir, lifted: &mut u64) -> io::Result<()> {
    loop {
        *lifted += 1;
        match dir.rename(Path::new(name), top, format!(".lifted-{lifted}")) {
            // The name is left from an earlier removal that was killed.
            Err(error) if is_name_taken(&error) => {}
            brought => return brought,
        }
    }
}

fn is_name_taken(error: &io::Error) -> bool {
    use io::ErrorKind as E;
    matches!(
        error.kind(),
        E::AlreadyExists | E::DirectoryNotEmpty | E::NotADirectory
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn a_tree_is_removed_however_deep_and_wide_it_is() {
        let home = tempfile::tempdir().unwrap();
        let top = Dir::open_ambient_dir(home.path(), ambient_authority()).unwrap();
        // Deeper than the maximum length of a path.
        let mut dir = top.try_clone().unwrap();
        for _ in 0..5_000 {
            dir.create_dir("d").unwrap();
            dir = open_subdirectory(&dir, OsStr::new("d")).unwrap();
        }
        dir.write("file", "").unwrap();
        // Leftovers of an earlier removal.
        fs::create_dir_all(home.path().join(".lifted-1/full")).unwrap();
        fs::write(home.path().join(".lifted-2"), "").unwrap();
        fs::create_dir_all(home.path().join("wide")).unwrap();
        for i in 0..500 {
            fs::create_dir_all(home.path().join(format!("wide/{i}/{i}"))).unwrap();
            fs::write(home.path().join(format!("wide/{i}/file")), "").unwrap();
        }
        std::os::unix::fs::symlink("/etc", home.path().join("wide/etc")).unwrap();
        // With a small stack.
        let thread = std::thread::Builder::new().stack_size(128 << 10);
        thread
            .spawn(move || remove_contents(&top))
            .unwrap()
            .join()
            .unwrap()
            .unwrap();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
        assert!(Path::new("/etc").exists());
    }
}
