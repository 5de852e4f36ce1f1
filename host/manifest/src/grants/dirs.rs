//! `allow.dirs`: the directories of the host that a component may use.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use strata_base::text::display_path::{absolute_path, display_path};
use strata_base::text::units::format_size;
use strata_core::record::host_call::Grant;
use strata_services::plugin::{Access, DirGrant, Grants};

use super::{AuthoredGrants, GrantBounds, GrantKind, GrantLine, OutwardFilter};
use crate::authored::slot::read_path;
use crate::schema::kind;
use crate::table::{TomlItem, TomlTable};

/// `allow.dirs`.
pub(super) struct DirsKind;

impl GrantKind for DirsKind {
    fn grant(&self) -> Grant {
        Grant::Dirs
    }

    fn capability(&self) -> &'static str {
        "files"
    }

    fn example(&self) -> &'static str {
        "dirs = [{ host = \"out\", guest = \"/out\", write = true }]"
    }

    fn read(&self, allow: &TomlTable<'_>, authored: &mut AuthoredGrants) {
        authored.grants.dirs = read_grants(allow);
    }

    fn read_bound(&self, allow: &TomlTable<'_>, bounds: &mut GrantBounds) {
        bounds.dirs = read_bounds(allow);
    }

    fn intersect(&self, had: &Grants, bounds: &GrantBounds, left: &mut Grants) {
        let own = bounds.workspace.clone().map(DirBound::unlimited);
        let allowed = had.dirs.iter().filter_map(|grant| {
            let own = intersect_one(grant, own.as_slice());
            let is_own = own.is_some();
            // What the operator says about workspaces holds, too.
            let mut left = intersect_one(grant, &bounds.dirs).or(own)?;
            if is_own {
                // Its files are recorded relative to the workspace, whose links are not resolved.
                left.host.clone_from(&grant.host);
            }
            Some(left)
        });
        left.dirs = allowed.collect();
    }

    fn is_reduced(&self, had: &Grants, left: &Grants) -> bool {
        are_reduced(&had.dirs, &left.dirs)
    }

    fn lines(&self, grants: &Grants) -> Vec<GrantLine> {
        grants.dirs.iter().map(line).collect()
    }

    fn outward_uses(&self, grants: &Grants, filter: &OutwardFilter<'_>) -> Vec<String> {
        let dirs = grants.dirs.iter();
        dirs.filter(|grant| (filter.is_outside)(&grant.host))
            .map(outward_use)
            .collect()
    }
}

/// A directory that an operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DirBound {
    /// The absolute path.
    host: PathBuf,
    /// Whether it may be written to.
    access: Access,
    /// The maximum of `max_size`; `None` for no limit.
    max_bytes: Option<u64>,
}

impl DirBound {
    /// Allows everything in a directory.
    fn unlimited(host: PathBuf) -> Self {
        Self {
            host,
            access: Access::Write,
            max_bytes: None,
        }
    }
}

fn read_grants(allow: &TomlTable<'_>) -> Vec<DirGrant> {
    let guest_paths = RefCell::default();
    let dirs = allow
        .key(Grant::Dirs.key(), "Directories.")
        .tables("`dirs`", |dir| read_grant(dir, &guest_paths));
    dirs.into_iter().flatten().collect()
}

/// Reads a grant of a directory, whose path for the guest must not be in `guest_paths`.
fn read_grant(table: &TomlTable<'_>, guest_paths: &RefCell<BTreeSet<String>>) -> Option<DirGrant> {
    let host = table
        .key("host", "The directory, relative to this file.")
        .required()
        .value(kind::path)
        .and_then(|item| read_host(&item));
    let access = read_access(table);
    let guest = table
        .key("guest", "What the component calls it: `/out`.")
        .required()
        .matching("^/")
        .and_then(|item| {
            let guest = read_guest(&item)?;
            if !guest_paths.borrow_mut().insert(guest.clone()) {
                item.reject(format!("`{guest}` is granted twice"), "remove one of them");
            }
            Some(guest)
        });
    let max_bytes = read_max_bytes(table, access);
    Some(DirGrant {
        host: host?,
        guest: guest?,
        access,
        max_bytes,
    })
}

fn read_bounds(allow: &TomlTable<'_>) -> Vec<DirBound> {
    let dirs = allow
        .key(
            Grant::Dirs.key(),
            "Directories, with everything below them.",
        )
        .tables("`dirs`", read_bound);
    dirs.into_iter().flatten().collect()
}

fn read_bound(table: &TomlTable<'_>) -> Option<DirBound> {
    let host = table
        .key("host", "The directory, relative to this file.")
        .required()
        .value(kind::path)
        .and_then(|item| read_path(&item));
    let access = read_access(table);
    let max_bytes = read_max_bytes(table, access);
    Some(DirBound {
        host: host?.value,
        access,
        max_bytes,
    })
}

fn read_access(table: &TomlTable<'_>) -> Access {
    let write = table
        .key(
            "write",
            "Whether it may be written. It is made if it is missing.",
        )
        .boolean(false);
    if write { Access::Write } else { Access::Read }
}

/// Reads `max_size`: how large a directory may become, in bytes. It is valid for writable
/// directories only.
fn read_max_bytes(table: &TomlTable<'_>, access: Access) -> Option<u64> {
    let item = table
        .key(
            "max_size",
            "How large each role may make it in a step, where it may be written.",
        )
        .value(|| kind::size(0))?;
    if access == Access::Read {
        item.reject(
            "`max_size` is for directories that may be written",
            "add `write = true`, or remove it",
        );
    }
    item.size()
}

/// Reads the path of a directory on the host. It need not exist yet: an earlier action may create
/// it.
fn read_host(item: &TomlItem<'_>) -> Option<PathBuf> {
    let host = read_path(item)?.value;
    if item.checks_files() && host.exists() && !host.is_dir() {
        let message = format!("`{}` is not a directory", display_path(&host));
        item.reject(message, "grant the directory that holds it");
    }
    Some(host)
}

fn read_guest(item: &TomlItem<'_>) -> Option<String> {
    let guest = item.text()?.value;
    let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    let rest = guest.strip_prefix('/');
    if !rest.is_some_and(|rest| rest.is_empty() || rest.split('/').all(plain)) {
        item.reject(
            format!("`{guest}` cannot be a guest's directory"),
            "it begins with `/` and is written without `.`, `..` or a `/` at the end: `/out`",
        );
        return None;
    }
    Some(guest)
}

/// Returns the allowed part of a grant, with links in its path resolved: a link must not lead out
/// of what is allowed.
fn intersect_one(grant: &DirGrant, bounds: &[DirBound]) -> Option<DirGrant> {
    let host = resolve_links(&grant.host)?;
    let holding = bounds
        .iter()
        .filter(|bound| resolve_links(&bound.host).is_some_and(|dir| host.starts_with(dir)));
    // If several bounds match, the one that allows most is used, since each of them alone would be
    // sufficient.
    let bound = holding.max_by_key(|bound| {
        (
            bound.access == Access::Write,
            bound.max_bytes.unwrap_or(u64::MAX),
        )
    })?;
    let access = if bound.access == Access::Write {
        grant.access
    } else {
        Access::Read
    };
    let max_bytes = grant
        .max_bytes
        .into_iter()
        .chain(bound.max_bytes)
        .min()
        .filter(|_| access == Access::Write);
    Some(DirGrant {
        host,
        guest: grant.guest.clone(),
        access,
        max_bytes,
    })
}

/// Resolves the links of a path, which need not exist yet. Returns `None` if they cannot be
/// resolved.
fn resolve_links(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(real) => Some(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // A dangling link could lead anywhere once its target is created.
            if path.is_symlink() {
                return None;
            }
            let (name, above) = (path.file_name()?, path.parent()?);
            let above = if above.as_os_str().is_empty() {
                Path::new(".")
            } else {
                above
            };
            Some(resolve_links(above)?.join(name))
        }
        Err(_) => None,
    }
}

/// Returns whether less is granted than before. Paths are not compared: a directory that is granted
/// as before may have another path.
fn are_reduced(had: &[DirGrant], left: &[DirGrant]) -> bool {
    had.len() != left.len()
        || had
            .iter()
            .zip(left)
            .any(|(a, b)| a.access != b.access || a.max_bytes != b.max_bytes)
}

fn line(grant: &DirGrant) -> GrantLine {
    let most = grant
        .max_bytes
        .map(|bytes| format!(", up to {}", format_size(bytes)))
        .unwrap_or_default();
    GrantLine {
        verb: match grant.access {
            Access::Read => "read",
            Access::Write => "write",
        },
        object: format!("{} = {}{most}", grant.guest, display_path(&grant.host)),
    }
}

fn outward_use(grant: &DirGrant) -> String {
    let verb = match grant.access {
        Access::Read => "read",
        Access::Write => "read and write",
    };
    let dir = absolute_path(&grant.host);
    format!("{verb} the directory `{}`", display_path(&dir))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_directory_is_allowed_where_it_really_is() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        fs::create_dir_all(home.join("in/deep")).unwrap();
        fs::create_dir_all(home.join("other")).unwrap();
        symlink(home.join("other"), home.join("in/link")).unwrap();
        symlink(home.join("nowhere"), home.join("in/dangling")).unwrap();
        let bound = |access, max_bytes| DirBound {
            host: home.join("in"),
            access,
            max_bytes,
        };
        let check = |host: &str, bound: DirBound, expected: Option<(&str, Access, Option<u64>)>| {
            let grant = DirGrant {
                host: home.join(host),
                guest: "/x".into(),
                access: Access::Write,
                max_bytes: Some(10),
            };
            let left = intersect_one(&grant, &[bound]);
            let expected = expected.map(|(host, access, max_bytes)| DirGrant {
                host: home.join(host),
                guest: "/x".into(),
                access,
                max_bytes,
            });
            assert_eq!(left, expected, "{host}");
        };
        let write = || bound(Access::Write, Some(5));
        check("in", write(), Some(("in", Access::Write, Some(5))));
        check(
            "in/deep",
            bound(Access::Write, None),
            Some(("in/deep", Access::Write, Some(10))),
        );
        check(
            "in/deep/new/er",
            bound(Access::Read, None),
            Some(("in/deep/new/er", Access::Read, None)),
        );
        check(
            "other/../in/deep",
            write(),
            Some(("in/deep", Access::Write, Some(5))),
        );
        check("in/../other", write(), None);
        check("in/link", write(), None);
        check("in/link/new", write(), None);
        check("in/dangling", write(), None);
        check("in/new/../../other", write(), None);
        check("inner", write(), None);
        // A relative path leads to where this process works.
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(
            resolve_links(Path::new("no-such/deep")),
            Some(here.join("no-such/deep"))
        );
    }
}
