//! The environment that builds Python actions: a private Python with componentize-py, and the
//! packages that an action needs.

use strata_base::files::caches::CacheName;
use strata_base::files::open;
use strata_base::files::sha256::sha256;
use strata_core::record::id::to_hex;

use super::project::{PythonProject, Requirements};
use crate::pypi::{PypiTools, pip_command, run_python, setup_error};
use crate::{BuildError, cache, pypi, with_path};
use std::path::{Path, PathBuf};
use std::process::Command;

const TOOLS: PypiTools = PypiTools {
    cache: CacheName::Python,
    what: "the tools for Python actions",
    progress_message: "setting up the tools for Python actions: componentize-py, 45 MB from PyPI, once",
    packages: include_str!("../../../../guest-sdk/python/toolchain.txt"),
};
/// The version of Python that actions run on. Their packages are chosen for it.
const GUEST_PYTHON: &str = "3.14";

const NO_PACKAGES: &str =
    "packages must be pure python (`py3-none-any` wheels): there are no compilers for others";

/// The tools and packages that an action is built with.
#[derive(Debug)]
pub struct PythonEnvironment {
    dir: PathBuf,
    /// The directory of the packages that the action needs; `None` if it needs none.
    pub packages: Option<PathBuf>,
}

impl PythonEnvironment {
    /// Installs the tools and the packages, unless they are installed.
    pub fn prepare(
        dir: &Path,
        project: &PythonProject,
        fingerprint: &str,
        report: &mut dyn FnMut(&str),
    ) -> Result<Self, BuildError> {
        let tools = TOOLS.ensure_installed(report)?;
        let packages = install_packages(&tools, dir, project, fingerprint, report)?;
        Ok(Self {
            dir: tools,
            packages,
        })
    }

    /// Returns a componentize-py command without arguments. It is not influenced by the caller's
    /// Python.
    pub fn componentize_command(&self) -> Command {
        pypi::python_command(&self.dir.join("venv/bin/componentize-py"))
    }
}

/// Returns whether requirements refer to files, such as `-r more.txt` or `./package`.
fn refers_to_files(requirements: &str) -> bool {
    /// The options of pip that refer to files.
    const OPTIONS: [&str; 8] = [
        "-r",
        "-c",
        "-e",
        "-f",
        "--requirement",
        "--constraint",
        "--editable",
        "--find-links",
    ];
    let lines = requirements
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).any(|line| {
        if line.starts_with('-') {
            OPTIONS.iter().any(|option| line.starts_with(option))
        } else {
            line.contains("file:") || line.contains('/') && !line.contains("://")
        }
    })
}

#[test]
fn requirements_name_files_or_packages() {
    for (line, names) in [
        ("-r more.txt", true),
        ("--constraint=pins.txt", true),
        ("./package", true),
        ("pkg @ file:///srv/pkg", true),
        ("pkg==1.0 \\\n    --hash=sha256:ab/cd", false),
        ("-i https://a.example/simple", false),
        ("pkg @ https://a.example/pkg.whl", false),
        ("pkg # see docs/x", false),
    ] {
        assert_eq!(refers_to_files(line), names, "{line}");
    }
}

/// Installs the packages that the action needs, for the Python it runs on, and returns their
/// directory.
fn install_packages(
    tools: &Path,
    dir: &Path,
    project: &PythonProject,
    fingerprint: &str,
    report: &mut dyn FnMut(&str),
) -> Result<Option<PathBuf>, BuildError> {
    let text = match &project.requirements {
        Requirements::Listed(listed) if listed.is_empty() => return Ok(None),
        Requirements::Listed(listed) => listed.join("\n"),
        Requirements::File(path) => with_path(path, open::read_to_string(path))?,
    };
    // Requirements may refer to files, whose contents the text does not show. In that case the
    // fingerprint of the action is part of the key.
    let beside = if refers_to_files(&text) {
        fingerprint
    } else {
        ""
    };
    let key = to_hex(
        &sha256(format!(
            "{}\n{GUEST_PYTHON}\n{beside}\n{text}",
            dir.display()
        ))[..8],
    );
    let directory = cache::create_once(CacheName::Python, &format!("packages-{key}"), |target| {
        report(&format!("getting the packages that {} needs", project.name));
        let mut install = pip_command(tools);
        install.current_dir(dir).args([
            "install",
            "--quiet",
            "--no-compile",
            "--only-binary",
            ":all:",
        ]);
        install.args([
            "--platform",
            "any",
            "--implementation",
            "py",
            "--python-version",
            GUEST_PYTHON,
        ]);
        install.arg("--target").arg(target.join("packages"));
        match &project.requirements {
            Requirements::File(path) => install.arg("-r").arg(path),
            Requirements::Listed(listed) => install.arg("--").args(listed),
        };
        let got = run_python(&mut install)?;
        if !got.success {
            return Err(setup_error(
                "the packages of the action",
                NO_PACKAGES,
                got.details,
            ));
        }
        Ok(())
    })?;
    Ok(Some(directory.join("packages")))
}
