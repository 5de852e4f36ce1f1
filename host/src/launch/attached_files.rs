//! The images and files that the operator adds to an idea or a message: read, recognized and limited
//! in size.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use strata_base::files::blob::{Blobs, digest_of};
use strata_base::files::open;
use strata_base::text::media_type::{MisnamedFile, marked_text, media_type, raster_image_type};
use strata_base::text::units::format_bytes;
use strata_core::record::conversation::{Media, MediaSource, Part};
use strata_driver::Journal;
use strata_manifest::did_you_mean_path;
use strata_sandbox::MAX_PARTS;
use strata_services::models::{MAX_MEDIA_BYTES, describe_named_media};

use super::LaunchError;

/// Why a file cannot be added to an idea or a message.
#[derive(Debug, thiserror::Error)]
pub enum AttachedFileError {
    /// It cannot be read.
    #[error("cannot add the file `{}`: {source}{}", path.display(), did_you_mean_path(path))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why reading it failed.
        source: io::Error,
    },
    /// It is empty.
    #[error("cannot add the file `{}`: it is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It is not what its name says.
    #[error("cannot add the file `{}`: {source}", path.display())]
    Misnamed {
        /// The file.
        path: PathBuf,
        /// What its name says.
        source: MisnamedFile,
    },
    /// The files are too large.
    #[error(
        "cannot add the file `{}`: it has {}, and all files together may have {}, which is what one \
         request to a model may contain; make it smaller, or grant its directory with `allow.dirs`",
        path.display(), format_bytes(*size), format_bytes(MAX_MEDIA_BYTES)
    )]
    TooLarge {
        /// The first file that is too much.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// There are too many files.
    #[error("{0} files are too many; a message has at most {MAX_PARTS}")]
    TooMany(usize),
}

/// A file with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Images and files, with their bytes.
#[derive(Debug, Default)]
pub(super) struct AttachedFiles {
    /// One part per file, in order.
    pub(super) parts: Vec<Part>,
    /// Their bytes.
    pub(super) blobs: Blobs,
}

impl AttachedFiles {
    /// Reads files.
    pub(super) fn read(paths: &[PathBuf]) -> Result<Self, AttachedFileError> {
        if paths.len() > MAX_PARTS {
            return Err(AttachedFileError::TooMany(paths.len()));
        }
        let mut files = Self::default();
        let mut bytes_left = MAX_MEDIA_BYTES;
        for path in paths {
            let bytes = read_file(path, bytes_left)?;
            bytes_left -= bytes.len() as u64;
            // Models and actions read texts as UTF-8.
            let bytes = marked_text(&bytes).map_or(bytes, String::into_bytes);
            files.add(path, bytes)?;
        }
        Ok(files)
    }

    /// Takes files that were read already, with their names.
    pub(super) fn from_named(named: Vec<NamedFile>) -> Result<Self, AttachedFileError> {
        if named.len() > MAX_PARTS {
            return Err(AttachedFileError::TooMany(named.len()));
        }
        let mut files = Self::default();
        let mut bytes_left = MAX_MEDIA_BYTES;
        for NamedFile { name, bytes } in named {
            let size = bytes.len() as u64;
            let path = PathBuf::from(name);
            if size == 0 {
                return Err(AttachedFileError::Empty { path });
            }
            if size > bytes_left {
                return Err(AttachedFileError::TooLarge { path, size });
            }
            bytes_left -= size;
            let bytes = marked_text(&bytes).map_or(bytes, String::into_bytes);
            files.add(&path, bytes)?;
        }
        Ok(files)
    }

    fn add(&mut self, path: &Path, bytes: Vec<u8>) -> Result<(), AttachedFileError> {
        let media_type = media_type(path, &bytes).map_err(|source| {
            let path = path.to_owned();
            AttachedFileError::Misnamed { path, source }
        })?;
        // Models accept no other images, and an SVG is text to them.
        let is_image = raster_image_type(&bytes).is_some();
        let (digest, size) = (digest_of(&bytes), bytes.len() as u64);
        let media = Media {
            media_type: media_type.into(),
            name: path
                .file_name()
                .map(OsStr::to_string_lossy)
                .map(|name| name.into_owned()),
            source: MediaSource::Blob {
                digest: digest.clone(),
                size,
            },
        };
        self.parts.push(if is_image {
            Part::Image(media)
        } else {
            Part::File(media)
        });
        self.blobs.insert(digest, bytes.into());
        Ok(())
    }
}

/// Saves those of `files` whose bytes the run lacks, as it does after it was read from a `team.json`
/// alone. Returns the names of the images and files whose bytes are still missing.
pub(super) fn restore_media(
    journal: &mut Journal,
    files: &[PathBuf],
) -> Result<Vec<String>, LaunchError> {
    let mut files = AttachedFiles::read(files)?;
    let messages = journal.env().messages.iter();
    let parts = messages.flat_map(|message| message.parts.clone());
    let (mut restored, mut missing) = (Blobs::new(), BTreeSet::new());
    for part in parts {
        let (Part::Image(media) | Part::File(media)) = part else {
            continue;
        };
        let MediaSource::Blob { digest, .. } = &media.source else {
            continue;
        };
        if restored.contains_key(digest) {
            continue;
        }
        if let Some(bytes) = files.blobs.remove(digest) {
            restored.insert(digest.clone(), bytes);
        } else if journal.store_ref().blob(digest)?.is_none() {
            missing.insert(describe_named_media(&media));
        }
    }
    journal.stage_blobs(restored);
    Ok(missing.into_iter().collect())
}

/// Returns the bytes of a file of at most `limit` bytes.
fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, AttachedFileError> {
    let unreadable = |source| AttachedFileError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = open::regular(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut bytes = Vec::new();
    if size <= limit {
        // The file may grow while it is read.
        let read = file.take(limit + 1).read_to_end(&mut bytes);
        read.map_err(unreadable)?;
    }
    let size = size.max(bytes.len() as u64);
    let path = path.to_owned();
    if size > limit {
        return Err(AttachedFileError::TooLarge { path, size });
    }
    if bytes.is_empty() {
        return Err(AttachedFileError::Empty { path });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    #[test]
    fn files_become_parts_and_equal_ones_are_stored_once() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        fs::write(path("a.png"), b"\x89PNG\r\n\x1a\n").unwrap();
        fs::write(path("b.png"), b"\x89PNG\r\n\x1a\n").unwrap();
        fs::write(path("c.svg"), "<svg/>").unwrap();
        let files = AttachedFiles::read(&[path("a.png"), path("b.png"), path("c.svg")]).unwrap();
        let [Part::Image(a), Part::Image(b), Part::File(c)] = &files.parts[..] else {
            panic!("{:?}", files.parts);
        };
        assert_eq!(a.source, b.source);
        assert_eq!(
            (a.name.as_deref(), &*c.media_type),
            (Some("a.png"), "image/svg+xml")
        );
        assert_eq!(files.blobs.len(), 2);
    }

    #[test]
    fn a_text_with_a_byte_order_mark_is_stored_as_utf_8() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.csv");
        fs::write(&path, b"\xff\xfea\0;\0\xf6\0").unwrap();
        let files = AttachedFiles::read(&[path]).unwrap();
        let [Part::File(media)] = &files.parts[..] else {
            panic!("{:?}", files.parts);
        };
        assert_eq!(media.media_type, "text/csv");
        let stored: Vec<&[u8]> = files.blobs.values().map(|bytes| &bytes[..]).collect();
        assert_eq!(stored, ["a;\u{f6}".as_bytes()]);
    }

    #[test]
    fn a_file_that_cannot_be_added_is_named_with_the_reason() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let check = |paths: &[PathBuf], named: &str, reason: &str| {
            let error = AttachedFiles::read(paths).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains(reason), "{error}");
        };
        fs::write(path("empty.txt"), "").unwrap();
        fs::write(path("page.png"), "<html>").unwrap();
        let large = |name: &str, bytes: u64| {
            File::create(path(name)).unwrap().set_len(bytes).unwrap();
            path(name)
        };
        check(&[path("none.png")], "none.png", "No such file");
        check(&[home.path().to_owned()], "", "it is no regular file");
        check(&[path("empty.txt")], "empty.txt", "it is empty");
        check(&[path("page.png")], "page.png", "`image/png`");
        check(&[large("big", 100 << 20)], "big", "it has 100 MiB");
        let halves = [large("one", 40 << 20), large("two", 40 << 20)];
        check(&halves, "two", "it has 40 MiB");
        check(&vec![path("x"); MAX_PARTS + 1], "", "65 files");
    }
}
