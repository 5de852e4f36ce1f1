//! Directories of the user who runs the host: where they are, and whether one is the user's alone.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Who may do everything anyway.
const ROOT: u32 = 0;

/// Below it lies what can be made again.
pub(crate) fn cache() -> Option<PathBuf> {
    base("XDG_CACHE_HOME", ".cache")
}

/// Below it lies what the user sets.
pub(crate) fn config() -> Option<PathBuf> {
    base("XDG_CONFIG_HOME", ".config")
}

/// Below it lies what the user keeps.
pub(crate) fn data() -> Option<PathBuf> {
    base("XDG_DATA_HOME", ".local/share")
}

/// Below it lies what programs remember between two runs.
pub(crate) fn state() -> Option<PathBuf> {
    base("XDG_STATE_HOME", ".local/state")
}

/// Below it lies what is gone with the process that made it: among the temporary files, where nobody else can enter.
pub(crate) fn temporary() -> io::Result<PathBuf> {
    let place = std::env::temp_dir().join(temporary_name());
    match DirBuilder::new().mode(0o700).create(&place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(without_temporary(&error));
        }
        _ => {}
    }
    // Somebody else may have been there first.
    let meta = fs::symlink_metadata(&place)?;
    if !meta.is_dir() || !is_private(&meta) {
        return Err(io::Error::other(format!(
            "`{}` is not a private directory of this user",
            place.display()
        )));
    }
    Ok(place)
}

/// Says of an error that it is about the place of temporary files, and what to do.
pub(crate) fn without_temporary(error: &io::Error) -> io::Error {
    let place = std::env::temp_dir();
    io::Error::other(format!(
        "the directory for temporary files `{}` cannot be used: {error}; create it, or set TMPDIR to a directory that \
         exists and that this user can write to",
        place.display()
    ))
}

/// What that directory is called.
pub(crate) fn temporary_name() -> String {
    format!("strata-host-{}", rustix::process::geteuid().as_raw())
}

/// What a variable says, or the usual place. One that is empty or relative is as good as none, as the XDG specification
/// has it. Where no directory can be, as in the `/dev/null` that is the home of many service accounts, there is none.
fn base(variable: &str, usual: &str) -> Option<PathBuf> {
    match absolute(variable) {
        Some(chosen) => Some(chosen).filter(|chosen| can_be_directory(chosen)),
        None => Some(home()?.join(usual)),
    }
}

/// The user's home directory, unless what `HOME` says cannot be one.
pub(crate) fn home() -> Option<PathBuf> {
    absolute("HOME").filter(|home| can_be_directory(home))
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

fn can_be_directory(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(meta) => meta.is_dir(),
        Err(error) => error.kind() != io::ErrorKind::NotADirectory,
    }
}

/// Returns whether an error says that nothing is in a place: also where something on the way to it is no directory.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Why a directory cannot be used for what nobody else may change.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    /// It cannot be made or looked at.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is somebody else's, too.
    #[error("{0}, or set XDG_CACHE_HOME or XDG_STATE_HOME to a directory of your own")]
    Shared(&'static str),
}

/// Makes a directory that only the user can enter. One that is there has to be such a directory.
pub(crate) fn make_private(dir: &Path) -> Result<(), Unusable> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // A link is as good as what it leads to, but for one that somebody else put there.
    let link = fs::symlink_metadata(dir)?;
    let meta = fs::metadata(dir)?;
    if link.is_symlink() && !is_own(&link) && link.uid() != ROOT {
        return Err(Unusable::Shared(
            "it is a link that another user made; remove it",
        ));
    }
    if !is_own(&meta) {
        return Err(Unusable::Shared(
            "it belongs to another user; run as that one",
        ));
    }
    if !is_private(&meta) {
        return Err(Unusable::Shared(
            "others than you can enter it; `chmod 700` it",
        ));
    }
    Ok(())
}

/// Whether something is the user's and nobody else's.
pub(crate) fn is_private(meta: &Metadata) -> bool {
    is_own(meta) && meta.mode() & 0o077 == 0
}

/// Whether something is the user's.
pub(crate) fn is_own(meta: &Metadata) -> bool {
    meta.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::*;

    /// Some other user.
    const OTHER: u32 = 4321;

    fn refusal(dir: &Path) -> Option<String> {
        make_private(dir).err().map(|error| error.to_string())
    }

    fn is_refused(dir: &Path, why: &str) {
        let refusal = refusal(dir).expect(why);
        assert!(
            refusal.contains(why) && refusal.contains("set XDG_CACHE_HOME"),
            "{refusal}"
        );
    }

    #[test]
    fn a_directory_is_private_when_it_is_made_and_used_only_if_it_is() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("a/b");
        assert_eq!(refusal(&dir), None);
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        assert_eq!(refusal(&dir), None);
        for open in [0o755, 0o770, 0o702] {
            fs::set_permissions(&dir, Permissions::from_mode(open)).unwrap();
            is_refused(&dir, "`chmod 700`");
        }
        fs::set_permissions(&dir, Permissions::from_mode(0o500)).unwrap();
        assert_eq!(refusal(&dir), None);
        fs::write(home.path().join("file"), "").unwrap();
        assert!(matches!(
            make_private(&home.path().join("file")),
            Err(Unusable::Io(_))
        ));
    }

    #[test]
    fn a_link_is_as_good_as_what_it_leads_to() {
        let home = tempfile::tempdir().unwrap();
        let (dir, link) = (home.path().join("dir"), home.path().join("link"));
        make_private(&dir).unwrap();
        symlink(&dir, &link).unwrap();
        assert_eq!(refusal(&link), None);
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        is_refused(&link, "`chmod 700`");
    }

    #[test]
    fn what_belongs_to_another_user_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let (dir, link) = (home.path().join("dir"), home.path().join("link"));
        make_private(&dir).unwrap();
        symlink(&dir, &link).unwrap();
        // Only root can give things away.
        if lchown(&link, Some(OTHER), None).is_err() {
            return;
        }
        is_refused(&link, "another user made");
        chown(&dir, Some(OTHER), None).unwrap();
        is_refused(&dir, "belongs to another user");
    }
}
