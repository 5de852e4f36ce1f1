//! The files that actions wrote, by name and digest. Their content is in the database and in the
//! directories of the actions; `team.json` contains neither.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use strata_core::record::file::PathContent;
use strata_core::record::id::Digest;
use strata_core::state::environment::Environment;
use strata_core::state::environment::files::{CommittedFile, FileRecords, Placement};
use strata_core::team::Team;

use super::located_value::{ImportResult, LocatedValue};
use super::saved_names::{parse_work, work_name};

/// What is known of files, by their paths.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct FilesJson<'a> {
    decided: BTreeMap<Cow<'a, str>, ContentJson>,
    kept: BTreeMap<Cow<'a, str>, CommittedFileJson<'a>>,
    pending: Vec<PlacementJson<'a>>,
}

/// A file as a step committed it.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct CommittedFileJson<'a> {
    content: ContentJson,
    role: Cow<'a, str>,
    step: u64,
    work: Cow<'a, str>,
}

/// A file that is to be placed.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct PlacementJson<'a> {
    content: ContentJson,
    expected: ContentJson,
    path: Cow<'a, str>,
}

/// What is at a path; `null` if nothing is.
struct ContentJson(PathContent);

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct ContentFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    directory: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

impl Default for ContentJson {
    fn default() -> Self {
        Self(PathContent::Absent)
    }
}

impl Serialize for ContentJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = match &self.0 {
            PathContent::Absent => None,
            PathContent::Directory => Some(ContentFields {
                directory: true,
                ..ContentFields::default()
            }),
            PathContent::File { digest, bytes } => Some(ContentFields {
                bytes: Some(*bytes),
                sha256: Some(digest.0.clone()),
                ..ContentFields::default()
            }),
        };
        fields.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ContentJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let content = match Option::<ContentFields>::deserialize(deserializer)? {
            None => PathContent::Absent,
            Some(fields) if fields.directory => PathContent::Directory,
            Some(ContentFields { bytes, sha256, .. }) => {
                let digest = sha256.map(Digest).filter(Digest::is_sha256);
                let missing = || D::Error::custom("has no `sha256` of 64 hexadecimal digits");
                PathContent::File {
                    digest: digest.ok_or_else(missing)?,
                    bytes: bytes.unwrap_or_default(),
                }
            }
        };
        Ok(Self(content))
    }
}

/// Returns what is known of files.
pub(super) fn write<'a>(team: &'a Team, env: &'a Environment) -> FilesJson<'a> {
    let FileRecords {
        committed,
        intended,
        pending,
    } = &env.files;
    let mut kept = BTreeMap::new();
    for (path, file) in committed {
        let json = CommittedFileJson {
            content: ContentJson(file.content.clone()),
            role: Cow::Borrowed(&*team.role(file.role).name),
            step: file.step,
            work: Cow::Owned(work_name(file.work)),
        };
        kept.insert(Cow::Borrowed(&**path), json);
    }
    let mut decided = BTreeMap::new();
    for (path, content) in intended {
        decided.insert(Cow::Borrowed(&**path), ContentJson(content.clone()));
    }
    let placement = |placement: &'a Placement| PlacementJson {
        content: ContentJson(placement.content.clone()),
        expected: ContentJson(placement.expected.clone()),
        path: Cow::Borrowed(&*placement.path),
    };
    FilesJson {
        decided,
        kept,
        pending: pending.iter().map(placement).collect(),
    }
}

/// Reads what is known of files.
pub(super) fn read(
    team: &Team,
    files: FilesJson<'_>,
    place: &LocatedValue<'_>,
) -> ImportResult<FileRecords> {
    let FilesJson {
        decided,
        kept,
        pending,
    } = files;
    let mut files = FileRecords::default();
    for (path, file) in kept {
        let committed = committed_file(team, file)
            .map_err(|why| place.child("kept").child(&path).invalid(why))?;
        files.committed.insert(path.into_owned(), committed);
    }
    for (path, content) in decided {
        files.intended.insert(path.into_owned(), content.0);
    }
    for placement in pending {
        files.pending.push(Placement {
            path: placement.path.into_owned(),
            expected: placement.expected.0,
            content: placement.content.0,
        });
    }
    Ok(files)
}

/// Fails with the reason if the file belongs to no work of the team.
fn committed_file(team: &Team, file: CommittedFileJson<'_>) -> Result<CommittedFile, &'static str> {
    let role = team
        .role_ids()
        .find(|id| team.role(*id).name == file.role)
        .ok_or("names a role that the team does not have")?;
    let work = parse_work(team.role(role), usize::MAX, &file.work)
        .ok_or("does not say what `work` it was")?;
    Ok(CommittedFile {
        content: file.content.0,
        role,
        work,
        step: file.step,
    })
}
