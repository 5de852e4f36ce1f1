//! Checks whether a component's manifest is sufficient for a skill: models choose by it, teams name
//! it, and config is checked against its schemas.

use semver::Version;
use strata_core::record::json;
use strata_services::plugin::CompiledSchema;

use strata_sandbox::ComponentManifest;

/// The maximum length of a name in bytes. Names are displayed and are parts of file names.
const MAX_NAME_BYTES: usize = 64;

/// Checks a manifest. The error describes what is wrong.
pub(super) fn check_manifest(manifest: &ComponentManifest) -> Result<(), String> {
    check_name(&manifest.name).map_err(|why| format!("its name {why}"))?;
    let version = &manifest.version;
    Version::parse(version).map_err(|error| {
        format!("its version `{version}` is not a semantic one ({error}); write it as `1.0.0`")
    })?;
    if manifest.description.trim().is_empty() {
        return Err(
            "it has no description; say in a sentence what it does and when to choose it".into(),
        );
    }
    for (what, text) in [
        ("config", &manifest.config_schema),
        ("input", &manifest.input_schema),
        ("output", &manifest.output_schema),
    ] {
        if let Some(text) = text {
            check_schema(text).map_err(|why| format!("its {what} schema is none: {why}"))?;
        }
    }
    Ok(())
}

/// Checks a name. The error describes what is wrong.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() {
        return Err("is empty".into());
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(format!(
            "has {} characters; at most {MAX_NAME_BYTES} are taken",
            name.len()
        ));
    }
    if !name.chars().all(plain) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return Err(format!(
            "`{name}` is not one that a team file could name; use letters, digits, `-`, `_` and `.`: `write-code`"
        ));
    }
    Ok(())
}

fn check_schema(text: &str) -> Result<(), String> {
    let schema = json::parse_untrusted(text).map_err(|error| format!("it is {error}"))?;
    CompiledSchema::compile_bounded(&schema).map(|_| ())
}
