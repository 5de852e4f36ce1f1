//! Opening files whose paths come from others, such as a team file. Opening never blocks, whereas
//! opening a named pipe would wait for the process at its other end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// The error message for anything that is not a regular file.
const NOT_A_REGULAR_FILE: &str = "it is no regular file";

/// Opens a regular file for reading.
pub fn regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other(NOT_A_REGULAR_FILE));
    }
    // The path may have been replaced after the first check.
    let file = nonblocking(File::options().read(true)).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other(NOT_A_REGULAR_FILE))
    }
}

/// Returns the bytes of a regular file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the bytes of a regular file of at most `limit` bytes, or its length as the inner error if it
/// is longer. The length is compared before anything is read.
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Result<Vec<u8>, u64>> {
    read_file_bounded(&regular(path)?, limit)
}

/// Returns the bytes of an open file from its current position, or its length as the inner error if it
/// is longer than `limit` bytes. The length is compared before anything is read.
pub fn read_file_bounded(file: &File, limit: u64) -> io::Result<Result<Vec<u8>, u64>> {
    let length = file.metadata()?.len();
    if length > limit {
        return Ok(Err(length));
    }
    // The file may grow while it is read.
    let mut bytes = Vec::with_capacity(usize::try_from(length).map_err(io::Error::other)?);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(if bytes.len() as u64 > limit {
        Err(bytes.len() as u64)
    } else {
        Ok(bytes)
    })
}

/// Returns the text of a regular file. Fails if it is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    regular(path)?.read_to_string(&mut text)?;
    Ok(text)
}

/// Opens a path for appending: a regular file, which is created if it does not exist, a device, or
/// a named pipe that has a reader.
pub fn to_append(path: &Path) -> io::Result<File> {
    open_output(path, File::options().append(true).create(true))
}

/// Opens a path for writing like `to_append`, but truncates a regular file.
pub fn to_replace(path: &Path) -> io::Result<File> {
    open_output(
        path,
        File::options().write(true).create(true).truncate(true),
    )
}

fn open_output(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match fs::metadata(path).map(|meta| meta.file_type()) {
        Ok(kind) if !(kind.is_file() || kind.is_fifo() || kind.is_char_device()) => {
            return Err(io::Error::other(NOT_A_REGULAR_FILE));
        }
        _ => {}
    }
    let file = nonblocking(options)
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(errno) if errno == Errno::NXIO.raw_os_error() => {
                io::Error::other("it is a pipe that nobody reads; start its reader first")
            }
            _ => error,
        })?;
    // From here on, writes block until the reader of a pipe has taken the data.
    let flags = rustix::fs::fcntl_getfl(&file)?;
    rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

fn nonblocking(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(OFlags::NONBLOCK.bits() as i32)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn make_pipe(dir: &Path) -> std::path::PathBuf {
        let path = dir.join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        path
    }

    #[test]
    fn a_pipe_is_not_read_and_not_waited_for() {
        let home = tempfile::tempdir().unwrap();
        for path in [make_pipe(home.path()), home.path().to_owned()] {
            assert_eq!(read(&path).unwrap_err().to_string(), NOT_A_REGULAR_FILE);
            assert_eq!(
                read_to_string(&path).unwrap_err().to_string(),
                NOT_A_REGULAR_FILE
            );
        }
        assert_eq!(
            read(&home.path().join("none")).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        fs::write(home.path().join("file"), "text").unwrap();
        assert_eq!(read_to_string(&home.path().join("file")).unwrap(), "text");
    }

    #[test]
    fn a_file_that_is_too_long_is_not_read() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("file");
        fs::write(&file, "text").unwrap();
        assert_eq!(read_bounded(&file, 4).unwrap(), Ok(b"text".to_vec()));
        assert_eq!(read_bounded(&file, 3).unwrap(), Err(4));
        // It takes no space on the disk, and would not fit into memory.
        let sparse = home.path().join("sparse");
        File::create(&sparse).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(read_bounded(&sparse, 1 << 20).unwrap(), Err(1 << 40));
    }

    #[test]
    fn a_pipe_is_written_to_if_somebody_reads_it() {
        let home = tempfile::tempdir().unwrap();
        let path = make_pipe(home.path());
        for open in [to_append, to_replace] {
            let error = open(&path).unwrap_err().to_string();
            assert!(error.contains("a pipe that nobody reads"), "{error}");
            assert_eq!(
                open(home.path()).unwrap_err().to_string(),
                NOT_A_REGULAR_FILE
            );
            let mut reader = nonblocking(File::options().read(true)).open(&path).unwrap();
            open(&path).unwrap().write_all(b"line").unwrap();
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text, "line");
            open(Path::new("/dev/null"))
                .unwrap()
                .write_all(b"line")
                .unwrap();
        }
        let file = home.path().join("file");
        to_append(&file).unwrap().write_all(b"one").unwrap();
        to_append(&file).unwrap().write_all(b"two").unwrap();
        assert_eq!(read_to_string(&file).unwrap(), "onetwo");
        to_replace(&file).unwrap().write_all(b"new").unwrap();
        assert_eq!(read_to_string(&file).unwrap(), "new");
    }
}
