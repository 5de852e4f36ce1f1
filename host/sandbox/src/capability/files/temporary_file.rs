//! Temporary files, which are written and then renamed to their final name. Several runs may write
//! the same file at once. What a killed run has left is removed by the next run that writes the
//! file.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cap_std::fs::{Dir, MetadataExt as _, OpenOptions};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};

use strata_base::files::blob::digest_of;
use strata_base::files::user;

/// How many processes may write the same file at once.
const MAX_WRITERS: u32 = 1024;
/// The suffix of the names of temporary files. Leftover files with such a name are removed, so
/// nobody else may use it.
const SUFFIX: &str = ".strata-host-partial";
/// How many digits of a digest are in a name: enough to rule out collisions.
const DIGEST_DIGITS: usize = 32;

/// A new temporary file. No other run writes or removes it while it is open.
pub(super) struct TemporaryFile {
    pub(super) name: String,
    pub(super) file: File,
}

impl TemporaryFile {
    /// Creates a temporary file in the directory of the file with this name.
    pub(super) fn create(dir: &Dir, name: &Path) -> io::Result<Self> {
        let stem = stem_of(name);
        for n in 0..MAX_WRITERS {
            let name = if n == 0 {
                format!("{stem}{SUFFIX}")
            } else {
                format!("{stem}-{n}{SUFFIX}")
            };
            if let Some(file) = try_create(dir, &name)? {
                return Ok(Self { name, file });
            }
        }
        Err(io::Error::other("too many processes write it at once"))
    }
}

/// Returns whether a name is that of a temporary file.
pub(super) fn is_temporary_name(name: &str) -> bool {
    let Some(stem) = name
        .strip_suffix(SUFFIX)
        .and_then(|stem| stem.strip_prefix('.'))
    else {
        return false;
    };
    let (digits, n) = stem.split_once('-').unwrap_or((stem, "0"));
    digits.len() == DIGEST_DIGITS
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && n.parse::<u32>().is_ok()
}

/// Returns the common start of the names of all temporary files for a file. Its length does not
/// depend on the name of the file.
fn stem_of(name: &Path) -> String {
    format!(
        ".{}",
        &digest_of(name.as_os_str().as_encoded_bytes()).0[..DIGEST_DIGITS]
    )
}

/// Creates a file. Returns `None` if another writer uses this name.
fn try_create(dir: &Dir, name: &str) -> io::Result<Option<File>> {
    loop {
        match dir.open_with(name, OpenOptions::new().write(true).create_new(true)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match open_leftover(dir, name) {
                    // The lock is held until the file is removed, so that nobody else can take it
                    // over.
                    Some(_locked) => dir.remove_file(name)?,
                    None => return Ok(None),
                }
            }
            file => {
                let file = file?.into_std();
                flock(&file, FlockOperation::LockExclusive)?;
                // Another run may have removed the file as a leftover before it was locked.
                if is_same_file(dir, name, &file) {
                    return Ok(Some(file));
                }
            }
        }
    }
}

/// Opens and locks a file whose writer is gone. Returns `None` if it may still be in use: it is
/// being written, was renamed meanwhile, or belongs to somebody else.
fn open_leftover(dir: &Dir, name: &str) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(dir, name, flags, Mode::empty()).ok()?);
    if !user::is_owned_by_user(&file.metadata().ok()?) {
        return None;
    }
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    is_same_file(dir, name, &file).then_some(file)
}

/// Returns whether the name still refers to this file.
fn is_same_file(dir: &Dir, name: &str, file: &File) -> bool {
    let (Ok(named), Ok(own)) = (dir.symlink_metadata(name), file.metadata()) else {
        return false;
    };
    named.is_file() && (named.dev(), named.ino()) == (own.dev(), own.ino())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::disk::HostDirectory;
    use super::*;

    #[test]
    fn of_several_writers_each_leaves_its_file_whole_or_another_one_does() {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().join("place");
        std::thread::scope(|threads| {
            for n in 1..=4_u8 {
                let home = home.path();
                threads.spawn(move || {
                    let root = HostDirectory::new(home.into());
                    (0..50).for_each(|_| {
                        root.write(Path::new("place"), &vec![n; usize::from(n) * 50_000])
                            .unwrap()
                    });
                });
            }
            for _ in 0..2_000 {
                let Ok(content) = fs::read(&place) else {
                    continue;
                };
                let first = content[0];
                assert_eq!(content, vec![first; usize::from(first) * 50_000]);
            }
        });
        assert_eq!(
            fs::read_dir(home.path()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn what_a_killed_writer_left_is_taken_away_and_what_is_no_file_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let left = home
            .path()
            .join(format!("{}{SUFFIX}", stem_of(Path::new("place"))));
        let put = |content: &[u8]| {
            HostDirectory::new(home.path().into())
                .write(Path::new("place"), content)
                .unwrap()
        };
        fs::write(&left, "half").unwrap();
        put(b"whole");
        assert!(!left.exists());
        std::os::unix::fs::symlink("place", &left).unwrap();
        put(b"again");
        assert_eq!(fs::read(home.path().join("place")).unwrap(), b"again");
        assert!(left.is_symlink());
    }
    #[test]
    fn a_file_that_is_called_much_like_a_partial_one_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let stem = stem_of(Path::new("place"));
        let names = [
            format!(".{:08x}.partial", crc32fast::hash(b"place")),
            format!("{stem}.partial"),
            format!("{stem}-x{SUFFIX}"),
            format!("{}{SUFFIX}", &stem[..9]),
        ];
        names
            .iter()
            .for_each(|name| fs::write(home.path().join(name), "the only copy").unwrap());
        HostDirectory::new(home.path().into())
            .write(Path::new("place"), b"text")
            .unwrap();
        for name in names {
            assert_eq!(
                fs::read_to_string(home.path().join(&name)).unwrap(),
                "the only copy",
                "{name}"
            );
        }
    }
}
