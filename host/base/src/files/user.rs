//! The directories of the user who runs the host: where they are, and whether only that user can
//! access one.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The user id of root, who can change everything in any case.
const ROOT: u32 = 0;

/// Where the system lists its users.
const USER_LIST: &str = "/etc/passwd";

/// Returns the name of the user who runs the host: the one that the system lists or, if a directory
/// service knows the user, the one in `USER`.
pub fn name() -> Option<String> {
    let list = fs::read_to_string(USER_LIST).unwrap_or_default();
    let id = rustix::process::getuid().as_raw();
    let listed = name_in_list(&list, id).map(str::to_owned);
    listed
        .or_else(|| std::env::var("USER").ok())
        .filter(|name| !name.is_empty())
}

/// Returns the name of the user with this id in a list like that of the system.
fn name_in_list(list: &str, id: u32) -> Option<&str> {
    for line in list.lines() {
        let mut fields = line.split(':');
        let (name, id_field) = (fields.next(), fields.nth(1));
        if id_field.and_then(|field| field.parse().ok()) == Some(id) {
            return name;
        }
    }
    None
}

/// Returns the base directory for data that can be recreated.
pub fn cache_dir() -> Option<PathBuf> {
    xdg_base_dir("XDG_CACHE_HOME", ".cache")
}

/// Returns the base directory for the user's settings.
pub fn config_dir() -> Option<PathBuf> {
    xdg_base_dir("XDG_CONFIG_HOME", ".config")
}

/// Returns the base directory for the user's data.
pub fn data_dir() -> Option<PathBuf> {
    xdg_base_dir("XDG_DATA_HOME", ".local/share")
}

/// Returns the base directory for state that programs keep between runs.
pub fn state_dir() -> Option<PathBuf> {
    xdg_base_dir("XDG_STATE_HOME", ".local/state")
}

/// Returns the private directory of this user among the temporary files. Creates it if it does not
/// exist. Its files are of no use once the process that created them has ended.
pub fn temporary_dir() -> io::Result<PathBuf> {
    let dir = std::env::temp_dir().join(temporary_dir_name());
    match DirBuilder::new().mode(0o700).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(temporary_dir_error(&error));
        }
        _ => {}
    }
    // Another user may have created it first.
    let meta = fs::symlink_metadata(&dir)?;
    if !meta.is_dir() || !is_private(&meta) {
        return Err(io::Error::other(format!(
            "`{}` is not a private directory of this user",
            dir.display()
        )));
    }
    Ok(dir)
}

/// Returns an error that says that the directory for temporary files cannot be used, and what to
/// do.
pub fn temporary_dir_error(error: &io::Error) -> io::Error {
    let dir = std::env::temp_dir();
    io::Error::other(format!(
        "the directory for temporary files `{}` cannot be used: {error}; create it, or set TMPDIR to a directory that \
         exists and that this user can write to",
        dir.display()
    ))
}

/// Returns the name of this user's directory among the temporary files.
pub fn temporary_dir_name() -> String {
    format!("strata-host-{}", rustix::process::geteuid().as_raw())
}

/// Returns the directory that an environment variable names, or the usual one in the home
/// directory. As the XDG specification requires, an empty or relative value is ignored. Returns
/// `None` if there can be no such directory, for example if the home directory is `/dev/null`, as
/// for many service accounts.
fn xdg_base_dir(variable: &str, usual: &str) -> Option<PathBuf> {
    match absolute_path_from_env(variable) {
        Some(chosen) => Some(chosen).filter(|chosen| can_be_directory(chosen)),
        None => Some(home_dir()?.join(usual)),
    }
}

/// Returns the user's home directory. Returns `None` if the value of `HOME` cannot be a directory.
pub fn home_dir() -> Option<PathBuf> {
    absolute_path_from_env("HOME").filter(|home| can_be_directory(home))
}

fn absolute_path_from_env(variable: &str) -> Option<PathBuf> {
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

/// Returns whether an error means that nothing exists at a path, also if one of its parents is not
/// a directory.
pub fn is_not_found(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The reason why a directory cannot hold files that nobody else may change.
#[derive(Debug, thiserror::Error)]
pub enum UnusableDirectory {
    /// It cannot be created or examined.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Other users can access it.
    #[error("{0}, or set XDG_CACHE_HOME or XDG_STATE_HOME to a directory of your own")]
    NotPrivate(&'static str),
}

/// Creates a directory that only this user can access. An existing directory must already be like
/// that.
pub fn create_private_dir(dir: &Path) -> Result<(), UnusableDirectory> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    // A symbolic link is treated like its target, unless another user than root created the link.
    let link = fs::symlink_metadata(dir)?;
    let meta = fs::metadata(dir)?;
    if link.is_symlink() && !is_owned_by_user(&link) && link.uid() != ROOT {
        return Err(UnusableDirectory::NotPrivate(
            "it is a link that another user made; remove it",
        ));
    }
    if !is_owned_by_user(&meta) {
        return Err(UnusableDirectory::NotPrivate(
            "it belongs to another user; run as that one",
        ));
    }
    if !is_private(&meta) {
        return Err(UnusableDirectory::NotPrivate(
            "others than you can enter it; `chmod 700` it",
        ));
    }
    Ok(())
}

/// Returns whether a file belongs to this user and nobody else can access it.
pub fn is_private(meta: &Metadata) -> bool {
    is_owned_by_user(meta) && meta.mode() & 0o077 == 0
}

/// Returns whether a file belongs to this user.
pub fn is_owned_by_user(meta: &Metadata) -> bool {
    meta.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    use super::*;

    /// The id of another user.
    const OTHER: u32 = 4321;

    fn refusal(dir: &Path) -> Option<String> {
        create_private_dir(dir).err().map(|error| error.to_string())
    }

    fn assert_refused(dir: &Path, why: &str) {
        let refusal = refusal(dir).expect(why);
        assert!(
            refusal.contains(why) && refusal.contains("set XDG_CACHE_HOME"),
            "{refusal}"
        );
    }

    #[test]
    fn a_user_has_the_name_that_the_system_lists() {
        let list = "root:x:0:0:::\n# note\n\nkim:x:1000:0:::\n";
        assert_eq!(name_in_list(list, 0), Some("root"));
        assert_eq!(name_in_list(list, 1000), Some("kim"));
        assert_eq!(name_in_list(list, 1), None);
        assert_eq!(name_in_list("", 0), None);
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
            assert_refused(&dir, "`chmod 700`");
        }
        fs::set_permissions(&dir, Permissions::from_mode(0o500)).unwrap();
        assert_eq!(refusal(&dir), None);
        fs::write(home.path().join("file"), "").unwrap();
        assert!(matches!(
            create_private_dir(&home.path().join("file")),
            Err(UnusableDirectory::Io(_))
        ));
    }

    #[test]
    fn a_link_is_as_good_as_what_it_leads_to() {
        let home = tempfile::tempdir().unwrap();
        let (dir, link) = (home.path().join("dir"), home.path().join("link"));
        create_private_dir(&dir).unwrap();
        symlink(&dir, &link).unwrap();
        assert_eq!(refusal(&link), None);
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        assert_refused(&link, "`chmod 700`");
    }

    #[test]
    fn what_belongs_to_another_user_is_not_used() {
        let home = tempfile::tempdir().unwrap();
        let (dir, link) = (home.path().join("dir"), home.path().join("link"));
        create_private_dir(&dir).unwrap();
        symlink(&dir, &link).unwrap();
        // Only root can change the owner of a file.
        if lchown(&link, Some(OTHER), None).is_err() {
            return;
        }
        assert_refused(&link, "another user made");
        chown(&dir, Some(OTHER), None).unwrap();
        assert_refused(&dir, "belongs to another user");
    }
}
