//! How this program was installed, and where the files are that were installed with it: components that
//! were built before, their compiled code, and example teams. A program that was built from source has
//! none.
//!
//! They are found from the path of the program, so that each installed version has its own, wherever it
//! lies. They are as trustworthy as the program: whoever can replace them can replace it, too.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The directory with the files of all versions, relative to the directory of the program or, if it is
/// in a directory such as `bin`, beside that.
const SHARED_DIRECTORY: &str = "share/strata-host";
/// Where a wheel that was unpacked by hand has this directory, beside that of the program: installers put it there.
const WHEEL_DATA: &str = "data";
/// The file that contains the name of the package. It is written last.
const PACKAGE_FILE: &str = "package";

/// What the program was installed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Package {
    /// A wheel, by pip, pipx or uv.
    Wheel,
    /// A package for node, by npm.
    Npm,
    /// The archive of a release.
    Archive,
    /// A container image.
    Image,
}

impl Package {
    const ALL: [Self; 4] = [Self::Wheel, Self::Npm, Self::Archive, Self::Image];

    /// Returns its name in the package file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wheel => "wheel",
            Self::Npm => "npm",
            Self::Archive => "archive",
            Self::Image => "image",
        }
    }

    /// Returns the package with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|package| package.name() == name)
    }

    /// Returns how to install the package again, which replaces what is damaged.
    pub fn how_to_reinstall(self) -> &'static str {
        match self {
            Self::Wheel => {
                "install the wheel again: `pip install --force-reinstall strata-host`, or `uv tool install --reinstall strata-host`"
            }
            Self::Npm => "install the package again: `npm install --force strata-host`",
            Self::Archive => "unpack the archive again, with all its files",
            Self::Image => "pull the image again",
        }
    }
}

/// What is installed with a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installation {
    /// Nothing: the program was built from source, or copied without the other files.
    ProgramOnly,
    /// The files of a package.
    Packaged {
        /// The package.
        package: Package,
        /// The directory with its files.
        files: PathBuf,
    },
    /// Files of other versions only.
    OtherVersions {
        /// The directory with the files of all versions.
        directory: PathBuf,
        /// The versions, sorted.
        versions: Vec<String>,
    },
}

/// Returns how the running program was installed.
pub fn installation() -> &'static Installation {
    static FOUND: OnceLock<Installation> = OnceLock::new();
    FOUND.get_or_init(|| match std::env::current_exe() {
        Ok(program) => Installation::of(&program),
        Err(_) => Installation::ProgramOnly,
    })
}

impl Installation {
    /// Returns what is installed with the program at this path.
    pub fn of(program: &Path) -> Self {
        let program = program
            .canonicalize()
            .unwrap_or_else(|_| program.to_owned());
        let Some(directory) = program.parent() else {
            return Self::ProgramOnly;
        };
        let mut others = Self::ProgramOnly;
        let beside = directory.parent().map(Path::to_owned);
        let unpacked = beside.as_ref().map(|beside| beside.join(WHEEL_DATA));
        for above in [Some(directory.to_owned()), beside, unpacked]
            .into_iter()
            .flatten()
        {
            let shared = above.join(SHARED_DIRECTORY);
            let files = shared.join(VERSION);
            if let Ok(name) = fs::read_to_string(files.join(PACKAGE_FILE))
                && let Some(package) = Package::by_name(name.trim())
            {
                return Self::Packaged { package, files };
            }
            let versions = list_versions(&shared);
            if !versions.is_empty() && others == Self::ProgramOnly {
                others = Self::OtherVersions {
                    directory: shared,
                    versions,
                };
            }
        }
        others
    }

    /// Returns the directory with the installed files, if there is one.
    pub fn files(&self) -> Option<&Path> {
        match self {
            Self::Packaged { files, .. } => Some(files),
            Self::ProgramOnly | Self::OtherVersions { .. } => None,
        }
    }
}

/// Returns the versions whose files are in the directory. It may contain other things, such as the
/// user's shelf.
fn list_versions(shared: &Path) -> Vec<String> {
    let entries = fs::read_dir(shared).into_iter().flatten().flatten();
    let mut versions: Vec<String> = entries
        .filter(|entry| entry.path().join(PACKAGE_FILE).is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    versions.sort();
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(root: &Path, version: &str, package: &str) {
        let files = root.join(SHARED_DIRECTORY).join(version);
        fs::create_dir_all(&files).expect("a directory");
        fs::write(files.join(PACKAGE_FILE), package).expect("a file");
    }

    #[test]
    fn files_are_found_beside_the_program_or_beside_its_directory() {
        for program in ["bin/strata-host", "strata-host"] {
            let root = tempfile::tempdir().expect("a directory");
            let root = root.path().canonicalize().expect("it exists");
            let program = root.join(program);
            fs::create_dir_all(program.parent().expect("it has one")).expect("a directory");
            fs::write(&program, "").expect("a file");
            assert_eq!(Installation::of(&program), Installation::ProgramOnly);
            install(&root, VERSION, "wheel\n");
            let expected = Installation::Packaged {
                package: Package::Wheel,
                files: root.join(SHARED_DIRECTORY).join(VERSION),
            };
            assert_eq!(Installation::of(&program), expected);
            let link = root.join("link");
            std::os::unix::fs::symlink(&program, &link).expect("a link");
            assert_eq!(Installation::of(&link), expected);
        }
    }

    #[test]
    fn files_are_found_in_a_wheel_that_was_unpacked_by_hand() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path().canonicalize().expect("it exists");
        let program = root.join("strata_host.data/scripts/strata-host");
        fs::create_dir_all(program.parent().expect("it has one")).expect("a directory");
        fs::write(&program, "").expect("a file");
        let data = root.join("strata_host.data/data");
        install(&data, VERSION, "wheel\n");
        let files = data.join(SHARED_DIRECTORY).join(VERSION);
        assert_eq!(Installation::of(&program).files(), Some(&*files));
    }

    #[test]
    fn files_of_other_versions_and_incomplete_ones_are_not_used() {
        let root = tempfile::tempdir().expect("a directory");
        let root = root.path().canonicalize().expect("it exists");
        let program = root.join("strata-host");
        fs::write(&program, "").expect("a file");
        fs::create_dir_all(root.join(SHARED_DIRECTORY).join(VERSION)).expect("a directory");
        fs::create_dir_all(root.join(SHARED_DIRECTORY).join("skills")).expect("a directory");
        assert_eq!(Installation::of(&program), Installation::ProgramOnly);
        install(&root, "9.9.9", "npm");
        let expected = Installation::OtherVersions {
            directory: root.join(SHARED_DIRECTORY),
            versions: vec!["9.9.9".into()],
        };
        assert_eq!(Installation::of(&program), expected);
        install(&root, VERSION, "unknown");
        assert_eq!(Installation::of(&program).files(), None);
    }
}
