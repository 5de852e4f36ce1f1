//! Replacing a file as a whole: whoever reads it meanwhile finds the old one or the new one. Files of storage
//! directories are replaced by `store`, files of guests by `sandbox`, and what other tools write by `build`.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Who may read a new file, and what it survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// Only this user may read it. The old file or the new one is there after a loss of power.
    Private,
    /// Whoever the user's mask lets may read it. The old file or the new one is there after a loss of power.
    Shared,
    /// Only this user may read it. After a loss of power it may be there in part or not at all, so it has to contain a
    /// checksum.
    Cached,
}

/// Replaces a file, or creates it, with what `fill` writes. The new file has another name in the same directory until it
/// is complete. If this fails, the old file is unchanged and the new one is removed.
pub fn replace(
    path: &Path,
    replacement: Replacement,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let directory = path
        .parent()
        .filter(|above| !above.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut new = match replacement {
        Replacement::Private | Replacement::Cached => tempfile::NamedTempFile::new_in(directory)?,
        // Less the user's mask.
        Replacement::Shared => tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)?,
    };
    fill(new.as_file_mut())?;
    if replacement != Replacement::Cached {
        new.as_file().sync_all()?;
    }
    new.persist(path).map_err(|error| error.error)?;
    match replacement {
        Replacement::Cached => Ok(()),
        Replacement::Private | Replacement::Shared => sync_directory(directory),
    }
}

/// Makes the names in a directory survive a loss of power.
pub fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_or_not_at_all() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("file");
        fs::write(home.path().join("plain"), "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let by_mask = mode(&home.path().join("plain"));
        for (replacement, expected) in [
            (Replacement::Private, 0o600),
            (Replacement::Shared, by_mask),
            (Replacement::Cached, 0o600),
        ] {
            let text = format!("{replacement:?}");
            replace(&path, replacement, |file| file.write_all(text.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(mode(&path), expected, "{text}");
            let failed = replace(&path, replacement, |file| {
                file.write_all(b"half")?;
                Err(io::Error::other("no more"))
            });
            assert_eq!(failed.unwrap_err().to_string(), "no more");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }
}
