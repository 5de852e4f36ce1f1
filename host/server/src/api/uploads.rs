//! Files of teams: uploaded by their digests, and named together as a bundle. Both belong to a tenant: that another one
//! has the same file is not seen.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use strata_core::record::id::Digest;
use strata_host::blob::{Blobs, digest_of};
use strata_host::launch::check_bundle_paths;
use strata_host::storage::{ServerRecord, ServerRecords, StoreError};

use crate::answer::{as_attachment, empty, tagged};
use crate::body::{MAX_BLOB_BYTES, MAX_BODY_BYTES, escape_pointer, parse_json, read_body};
use crate::caller::Right;
use crate::context::Context;
use crate::idempotency::{KeyedAnswer, ReplayableAnswer, make_once};
use crate::operations::Answer;
use crate::problem::Problem;
use crate::server::Server;

/// The kinds of records: which tenant has uploaded which file, and the files of bundles.
const BLOB_KIND: &str = "blob";
const BUNDLE_KIND: &str = "bundle";
/// What a digest begins with.
const DIGEST_PREFIX: &str = "sha256:";
/// The form of a digest, for schemas.
pub const DIGEST_PATTERN: &str = "^sha256:[0-9a-f]{64}$";

/// The files of a team.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBundle {
    /// The digests of its files, `sha256:HEX`, by path.
    files: BTreeMap<String, String>,
}

/// The name of a bundle that was made.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NamedBundle {
    /// Its digest, `sha256:HEX`.
    digest: String,
}

/// Parses a digest.
pub fn parse_digest(text: &str) -> Option<Digest> {
    let hex = text.strip_prefix(DIGEST_PREFIX)?;
    let is_hex = hex.len() == 64
        && hex
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    is_hex.then(|| Digest(hex.into()))
}

fn digest_of_path(context: &Context) -> Result<Digest, Problem> {
    parse_digest(context.param("digest")).ok_or_else(|| Problem::not_found("blob"))
}

/// Whether a tenant has uploaded a file.
pub fn has_uploaded(server: &Server, tenant: &str, digest: &Digest) -> Result<bool, StoreError> {
    let read = |records: &dyn ServerRecords| records.read_record(BLOB_KIND, tenant, &digest.0);
    Ok(server.databases.find_in_records(read)?.is_some())
}

/// Returns the files of a bundle of a tenant.
pub fn read_bundle(
    server: &Server,
    tenant: &str,
    digest: &str,
) -> Result<Option<BTreeMap<String, Digest>>, Problem> {
    let Some(digest) = parse_digest(digest) else {
        return Ok(None);
    };
    let read = |records: &dyn ServerRecords| records.read_record(BUNDLE_KIND, tenant, &digest.0);
    let Some(record) = server.databases.find_in_records(read)? else {
        return Ok(None);
    };
    let files: BTreeMap<String, String> = serde_json::from_str(&record.text)
        .map_err(|_| Problem::internal("what is stored of the bundle cannot be read"))?;
    Ok(Some(
        files
            .into_iter()
            .map(|(path, digest)| (path, Digest(digest)))
            .collect(),
    ))
}

/// Returns those files of a bundle that were uploaded to another database than the home: a run is stored with its files.
pub fn read_files_of_others(
    server: &Server,
    tenant: &str,
    files: &BTreeMap<String, Digest>,
) -> Result<Blobs, Problem> {
    let mut contents = Blobs::new();
    if server.databases.all().count() == 1 {
        return Ok(contents);
    }
    for digest in files.values() {
        let is_at_home = server.records.read_record(BLOB_KIND, tenant, &digest.0)?;
        if is_at_home.is_none()
            && !contents.contains_key(digest)
            && let Some(bytes) = server.read_file(digest)?
        {
            contents.insert(digest.clone(), bytes.into());
        }
    }
    Ok(contents)
}

pub async fn has_blob(context: Context) -> Answer {
    context.caller.require(Right::Submit)?;
    let digest = digest_of_path(&context)?;
    let tenant = context.caller.own_tenant().to_owned();
    let has = context
        .server
        .blocking(move |server| Ok(has_uploaded(server, &tenant, &digest)?))
        .await?;
    if has {
        Ok(empty(StatusCode::NO_CONTENT))
    } else {
        Err(Problem::not_found("blob"))
    }
}

pub async fn get_blob(context: Context) -> Answer {
    context.caller.require(Right::Submit)?;
    let digest = digest_of_path(&context)?;
    let tenant = context.caller.own_tenant().to_owned();
    let name = digest.0.clone();
    let bytes = context
        .server
        .blocking(move |server| {
            let unknown = || Problem::not_found("blob");
            if !has_uploaded(server, &tenant, &digest)? {
                return Err(unknown());
            }
            server.read_file(&digest)?.ok_or_else(unknown)
        })
        .await?;
    let response = tagged(&context.headers, "application/octet-stream", bytes);
    Ok(as_attachment(response, &name))
}

pub async fn put_blob(mut context: Context) -> Answer {
    context.caller.require(Right::Submit)?;
    let digest = digest_of_path(&context)?;
    let body = context.body.take();
    let bytes = read_body(&context.headers, body, MAX_BLOB_BYTES).await?;
    let tenant = context.caller.own_tenant().to_owned();
    let status = context
        .server
        .blocking(move |server| {
            if digest_of(&bytes) != digest {
                return Err(Problem::refused("the content has another digest").named("digest"));
            }
            if has_uploaded(server, &tenant, &digest)? {
                return Ok(StatusCode::NO_CONTENT);
            }
            let record = ServerRecord {
                kind: BLOB_KIND.into(),
                tenant,
                name: digest.0.clone(),
                text: bytes.len().to_string(),
                ..ServerRecord::default()
            };
            server.records.put_file(&digest, bytes, &record)?;
            Ok(StatusCode::CREATED)
        })
        .await?;
    Ok(empty(status))
}

pub async fn create_bundle(mut context: Context) -> Answer {
    context.caller.require(Right::Submit)?;
    let body = context.read_json(MAX_BODY_BYTES).await?;
    let new: NewBundle = parse_json(&body)?;
    let files = parse_files(&new.files)?;
    let (server, tenant) = (
        context.server.clone(),
        context.caller.own_tenant().to_owned(),
    );
    make_once(&context, &body, None, move |_| async move {
        let outcome = server
            .blocking(move |server| store_bundle(server, &tenant, &files))
            .await?;
        Ok(KeyedAnswer::Now(outcome))
    })
    .await
}

/// Parses the digests of files.
fn parse_files(files: &BTreeMap<String, String>) -> Result<BTreeMap<String, Digest>, Problem> {
    let mut parsed = BTreeMap::new();
    for (path, digest) in files {
        let pointer = || format!("/files/{}", escape_pointer(path));
        let digest = parse_digest(digest)
            .ok_or_else(|| Problem::field(pointer(), "it is no digest `sha256:HEX`"))?;
        parsed.insert(path.clone(), digest);
    }
    check_bundle_paths(&parsed)?;
    Ok(parsed)
}

fn store_bundle(
    server: &Server,
    tenant: &str,
    files: &BTreeMap<String, Digest>,
) -> Result<ReplayableAnswer, Problem> {
    let mut missing = Vec::new();
    for digest in files.values() {
        if !has_uploaded(server, tenant, digest)? {
            missing.push(format!("{DIGEST_PREFIX}{digest}"));
        }
    }
    if !missing.is_empty() {
        missing.sort_unstable();
        missing.dedup();
        return Err(
            Problem::refused("files of the bundle have not been uploaded")
                .named("missing-blobs")
                .with_hint("upload them with `PUT /v1/blobs/DIGEST`, and repeat the request")
                .with_member("missing", json!(missing)),
        );
    }
    let named: BTreeMap<&String, &String> = files
        .iter()
        .map(|(path, digest)| (path, &digest.0))
        .collect();
    let text = json!(named).to_string();
    let digest = digest_of(text.as_bytes());
    server.records.put_record(&ServerRecord {
        kind: BUNDLE_KIND.into(),
        tenant: tenant.into(),
        name: digest.0.clone(),
        text,
        ..ServerRecord::default()
    })?;
    let digest = format!("{DIGEST_PREFIX}{digest}");
    Ok(ReplayableAnswer::new(
        StatusCode::CREATED,
        &NamedBundle { digest },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_written_in_one_way() {
        let hex = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let check = |text: &str, expected: bool| {
            assert_eq!(parse_digest(text).is_some(), expected, "{text}");
        };
        check(&format!("sha256:{hex}"), true);
        check(hex, false);
        check(&format!("sha256:{}", hex.to_uppercase()), false);
        check(&format!("sha256:{}", &hex[1..]), false);
        check(&format!("sha256:{hex}0"), false);
        check("sha256:../../etc/passwd", false);
    }
}
