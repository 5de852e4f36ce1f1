//! `strata.lock`: the digests of the components that are beside a team file or named there. It is
//! written by `lock`, kept under version control, and compared with what is loaded.
//!
//! Each directory has one, which all its teams share and which is valid on every machine on which
//! the directory is checked out. Therefore it does not contain the paths of skills, which differ
//! between machines.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use strata_base::advice::Advice;
use strata_base::files::open;
use strata_base::files::replace::{Replacement, replace};
use strata_core::record::id::Digest;
use strata_services::mcp::ToolDigests;
use strata_services::plugin::builtin::is_builtin;
use strata_services::plugin::script;

/// The name of the lock file.
pub const LOCK_FILE: &str = "strata.lock";
/// The version of the format.
const FORMAT_VERSION: u32 = 1;
/// The maximum size of a lock file in bytes, enough for ten thousand components.
const MAX_BYTES: u64 = 4 << 20;

/// A lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComponentLock {
    path: PathBuf,
    components: BTreeMap<LockedName, LockedComponent>,
    /// The tools of MCP servers, by server.
    servers: BTreeMap<String, ToolDigests>,
}

/// The name of a component in a lock file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockedName {
    /// Its path relative to the directory, or the name of a built-in component.
    File(String),
    /// The name of a skill with its version: `NAME@VERSION`. Each machine has its own shelf.
    Skill(String),
}

/// The entry of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedComponent {
    /// The SHA-256 of its bytes. For a script, that of its text and of the sources of its
    /// interpreter.
    pub sha256: Digest,
    /// Its size in bytes. For a script, without the interpreter.
    pub size: u64,
}

/// The error for a component that differs from the locked one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockMismatch {
    /// Its bytes differ.
    #[error(
        "the component `{component}` has the sha256 `{}` ({} bytes), locked is `{}` ({} bytes)",
        found.sha256, found.size, locked.sha256, locked.size
    )]
    Changed {
        /// Its name in the lock.
        component: String,
        /// What was found.
        found: LockedComponent,
        /// What was locked.
        locked: LockedComponent,
    },
    /// The lock file does not contain it.
    #[error("the component `{component}` (sha256 `{}`) is not in `{}`", found.sha256, lock.display())]
    Unlocked {
        /// Its name in the lock file.
        component: String,
        /// What was found.
        found: LockedComponent,
        /// The lock file.
        lock: PathBuf,
    },
}

/// The error for a lock file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// It is not a lock file.
    #[error("cannot read the lock `{}`: {why}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// An I/O error.
    #[error("cannot {what} the lock `{}`: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was attempted.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl LockError {
    /// Returns what the user can do about it, if a command of the program helps.
    pub fn advice(&self) -> Option<Advice> {
        match self {
            Self::Invalid { .. } => Some(Advice::RewriteLock),
            Self::Io { .. } => None,
        }
    }
}

/// The contents of a lock file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LockFile {
    version: u32,
    #[serde(default, rename = "component")]
    components: Vec<LockFileEntry>,
    #[serde(default, rename = "mcp")]
    tools: Vec<LockedToolEntry>,
}

/// A tool of an MCP server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LockedToolEntry {
    server: String,
    tool: String,
    /// The digests of its fields.
    fields: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LockFileEntry {
    source: Option<String>,
    skill: Option<String>,
    #[serde(deserialize_with = "deserialize_digest")]
    sha256: Digest,
    size: u64,
}

impl ComponentLock {
    /// Reads the lock file in a directory. Returns `None` if there is none.
    pub fn read_in(base: &Path) -> Result<Option<Self>, LockError> {
        let path = base.join(LOCK_FILE);
        let mut text = String::new();
        let read =
            open::regular(&path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
        match read {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(LockError::Io {
                    path,
                    what: "read",
                    source,
                });
            }
        }
        match parse(&text) {
            Ok((components, servers)) => Ok(Some(Self {
                path,
                components,
                servers,
            })),
            Err(why) => Err(LockError::Invalid { path, why }),
        }
    }

    /// Returns an empty lock for a directory. Writes nothing.
    pub fn new(base: &Path) -> Self {
        Self {
            path: base.join(LOCK_FILE),
            components: BTreeMap::new(),
            servers: BTreeMap::new(),
        }
    }

    /// Returns the path of the lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the locked component with this name.
    pub fn get(&self, name: &LockedName) -> Option<&LockedComponent> {
        self.components.get(name)
    }

    /// Fails unless a component is the locked one.
    pub fn check(&self, name: &LockedName, found: LockedComponent) -> Result<(), LockMismatch> {
        let component = name.to_string();
        match self.components.get(name) {
            Some(locked) if *locked == found => Ok(()),
            Some(locked) => Err(LockMismatch::Changed {
                component,
                found,
                locked: locked.clone(),
            }),
            None => Err(LockMismatch::Unlocked {
                component,
                found,
                lock: self.path.clone(),
            }),
        }
    }

    /// Locks a component. Returns its previous entry.
    pub fn set(&mut self, name: LockedName, found: LockedComponent) -> Option<LockedComponent> {
        self.components.insert(name, found)
    }

    /// Returns the tools of an MCP server that were locked.
    pub fn server_tools(&self, server: &str) -> Option<&ToolDigests> {
        self.servers.get(server)
    }

    /// Locks the tools of an MCP server.
    pub fn set_server_tools(&mut self, server: String, tools: ToolDigests) {
        self.servers.insert(server, tools);
    }

    /// Removes components whose files do not exist any more. Skills are kept, because they may be
    /// on the shelf of another machine.
    pub fn remove_missing(&mut self) {
        let base = self.base().to_owned();
        self.components.retain(|name, _| match name {
            LockedName::File(file) => {
                let path = Path::new(file);
                script::is_passed_script(path) || is_builtin(path) || base.join(file).exists()
            }
            LockedName::Skill(_) => true,
        });
    }

    /// Atomically replaces the file.
    pub fn write(&self) -> Result<(), LockError> {
        let written = replace(&self.path, Replacement::Shared, |new| {
            new.write_all(self.to_text().as_bytes())
        });
        written.map_err(|source| LockError::Io {
            path: self.path.clone(),
            what: "write",
            source,
        })
    }

    /// Returns the text of the file.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "# The components of the teams in this folder. Others are refused.\n\
             # Written by `strata-host lock`.\nversion = {FORMAT_VERSION}\n"
        );
        for (name, LockedComponent { sha256, size }) in &self.components {
            let (key, LockedName::File(name) | LockedName::Skill(name)) = (name.key(), name);
            let name = toml::Value::from(name.as_str());
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n[[component]]\n{key} = {name}\nsha256 = \"{sha256}\"\nsize = {size}\n"
            );
        }
        for (server, tools) in &self.servers {
            let server = toml::Value::from(server.as_str());
            for (tool, fields) in tools {
                let tool = toml::Value::from(tool.as_str());
                let _ = write!(
                    text,
                    "\n[[mcp]]\nserver = {server}\ntool = {tool}\n[mcp.fields]\n"
                );
                for (field, digest) in fields {
                    let _ = writeln!(text, "{field} = \"{digest}\"");
                }
            }
        }
        text
    }

    fn base(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

impl LockedName {
    /// Returns the name of a component in the lock file of a directory: that of the skill, if it
    /// was named as one, or its path.
    pub fn for_component(file: &Path, skill: Option<&str>, base: &Path) -> Self {
        let file = || {
            file.strip_prefix(base)
                .unwrap_or(file)
                .to_string_lossy()
                .into_owned()
        };
        skill.map_or_else(|| Self::File(file()), |skill| Self::Skill(skill.to_owned()))
    }

    /// Returns the name of a component that was submitted with a team, by its path in the bundle.
    pub fn of_submitted(path: &str) -> Self {
        Self::File(format!("../{path}"))
    }

    /// Returns the key of the name in the file.
    fn key(&self) -> &'static str {
        match self {
            Self::File(_) => "source",
            Self::Skill(_) => "skill",
        }
    }
}

impl fmt::Display for LockedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::File(name) | Self::Skill(name)) = self;
        f.write_str(name)
    }
}

/// What a lock file says of components and of the tools of servers.
type LockContent = (
    BTreeMap<LockedName, LockedComponent>,
    BTreeMap<String, ToolDigests>,
);

fn parse(text: &str) -> Result<LockContent, String> {
    let written: LockFile =
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    if written.version != FORMAT_VERSION {
        return Err(format!(
            "its version is `{}`, this program reads `{FORMAT_VERSION}`",
            written.version
        ));
    }
    let mut components = BTreeMap::new();
    for LockFileEntry {
        source,
        skill,
        sha256,
        size,
    } in written.components
    {
        let name = match (source, skill) {
            (Some(file), None) => LockedName::File(file),
            (None, Some(skill)) => LockedName::Skill(skill),
            _ => return Err("a component has either a `source` or a `skill`".into()),
        };
        if components
            .insert(name.clone(), LockedComponent { sha256, size })
            .is_some()
        {
            return Err(format!("`{name}` is there twice"));
        }
    }
    let mut servers: BTreeMap<String, ToolDigests> = BTreeMap::new();
    for LockedToolEntry {
        server,
        tool,
        fields,
    } in written.tools
    {
        servers.entry(server).or_default().insert(tool, fields);
    }
    Ok((components, servers))
}

fn deserialize_digest<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
    let text = String::deserialize(from)?;
    if text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        Ok(Digest(text))
    } else {
        Err(serde::de::Error::custom(format!(
            "`{text}` is not a SHA-256"
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use strata_base::golden::golden;

    use super::*;

    fn locked(digit: &str, size: u64) -> LockedComponent {
        LockedComponent {
            sha256: Digest(digit.repeat(64)),
            size,
        }
    }

    #[test]
    fn what_is_written_is_read_again_and_looks_as_it_should() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(ComponentLock::read_in(home.path()).unwrap(), None);
        let mut lock = ComponentLock::new(home.path());
        let file =
            |file: &str| LockedName::for_component(&home.path().join(file), None, home.path());
        lock.set(file("z.wasm"), locked("1", 3));
        lock.set(file("../a \"b\".wasm"), locked("2", 4));
        lock.set(
            LockedName::for_component(
                Path::new("/shelf/12.wasm"),
                Some("write@1.0.0"),
                home.path(),
            ),
            locked("6", 7),
        );
        assert_eq!(lock.set(file("/else/c.wasm"), locked("3", 5)), None);
        assert_eq!(
            lock.set(file("/else/c.wasm"), locked("4", 5)),
            Some(locked("3", 5))
        );
        lock.write().unwrap();
        assert_eq!(ComponentLock::read_in(home.path()).unwrap(), Some(lock));
        let text = fs::read_to_string(home.path().join(LOCK_FILE)).unwrap();
        let sources: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix("source = "))
            .collect();
        assert_eq!(
            sources,
            [r#"'../a "b".wasm'"#, r#""/else/c.wasm""#, r#""z.wasm""#]
        );
        assert!(
            text.contains("skill = \"write@1.0.0\"") && !text.contains("/shelf"),
            "{text}"
        );
    }

    #[test]
    fn the_file_is_as_the_golden_file() {
        let home = tempfile::tempdir().unwrap();
        let mut lock = ComponentLock::new(home.path());
        lock.set(LockedName::File("a/b.wasm".into()), locked("1", 23));
        lock.set(LockedName::Skill("write@1.0.0".into()), locked("4", 56));
        let text = golden(LOCK_FILE, lock.to_text().as_bytes());
        fs::write(lock.path(), text).unwrap();
        assert_eq!(ComponentLock::read_in(home.path()).unwrap(), Some(lock));
    }

    #[test]
    fn another_component_is_refused_with_both_digests() {
        let mut lock = ComponentLock::new(Path::new("/teams"));
        let [a, b] = ["a", "b"].map(|name| {
            LockedName::for_component(&Path::new("/teams").join(name), None, Path::new("/teams"))
        });
        lock.set(a.clone(), locked("1", 3));
        assert_eq!(lock.check(&a, locked("1", 3)), Ok(()));
        let changed = lock.check(&a, locked("2", 3)).unwrap_err().to_string();
        let named = ["`a`", &"1".repeat(64), &"2".repeat(64)];
        assert!(named.iter().all(|part| changed.contains(part)), "{changed}");
        let missing = lock.check(&b, locked("1", 3)).unwrap_err().to_string();
        assert!(
            missing.contains("`b`") && missing.contains("not in `/teams/strata.lock`"),
            "{missing}"
        );
    }

    #[test]
    fn what_is_no_lock_is_refused() {
        let entry = |rest: &str| format!("version = 1\n[[component]]\nsource = \"a\"\n{rest}");
        let whole = format!("sha256 = \"{}\"\nsize = 1\n", "a".repeat(64));
        let check = |text: &str, expected: &str| {
            let why = parse(text).unwrap_err();
            assert!(why.contains(expected), "{text}: {why}");
        };
        assert!(parse(&entry(&whole)).is_ok());
        check("", "version");
        check("version = 2", "its version is `2`");
        check("version = 1\nmore = 1", "more");
        check(
            &format!("version = 1\n[[component]]\n{whole}"),
            "either a `source` or a `skill`",
        );
        check(&entry("size = 1"), "sha256");
        check(&entry("sha256 = \"x\"\nsize = 1"), "`x` is not a SHA-256");
        check(&entry(&format!("{whole}more = 1")), "more");
        check(
            &entry(&format!("{whole}\n[[component]]\nsource = \"a\"\n{whole}")),
            "`a` is there twice",
        );
    }
}
