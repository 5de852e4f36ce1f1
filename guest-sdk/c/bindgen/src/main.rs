//! Generates the bindings of the C SDK, `bindings/`, from the WIT package, or with `--check` checks
//! whether they are up to date.
//!
//! It is run manually when the WIT changes, so that builds of actions do not need the generator.
//! The result differs from the generator's output in three ways. Each exported interface has a file
//! of its own, because a component exports only what its author defines. Nothing is freed, because
//! an instance is dropped after each call. The component type is omitted, because `strata-host
//! build` derives it from the exports.

#[path = "../../../fingerprint.rs"]
mod fingerprint;

use anyhow::{Context, Result, bail};
use fingerprint::fingerprint;
use std::collections::BTreeMap;
use std::path::Path;
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;

/// The world with every import and export. The code for it is used for all worlds.
const WIDEST: &str = "versatile-action";
/// The names of the exported interfaces, as they occur in the generated code.
const EXPORTS: [&str; 3] = ["handler", "planner", "thinker"];

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = root.join("../bindings");
    let generated = generate(&root.join("../../../wit"))?;
    let check = std::env::args().nth(1).as_deref() == Some("--check");
    for (name, text) in generated {
        let path = target.join(&name);
        if !check {
            std::fs::write(&path, text).with_context(|| format!("writing `{name}`"))?;
        } else if std::fs::read_to_string(&path)? != text {
            bail!("`bindings/{name}` is not what the WIT says; run this program without `--check`");
        }
    }
    Ok(())
}

/// Returns the generated files by name.
fn generate(wit: &Path) -> Result<BTreeMap<String, String>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit)?;
    let world = resolve.select_world(&[package], Some(WIDEST))?;
    let mut files = Files::default();
    let options = wit_bindgen_c::Opts { no_object_file: true, ..Default::default() };
    options.build().generate(&mut resolve, world, &mut files)?;
    let file = |extension: &str| -> Result<String> {
        let mut files = files.iter();
        let found = files.find(|(name, _)| name.ends_with(extension));
        let (_, bytes) = found.with_context(|| format!("the generator wrote no `{extension}`"))?;
        Ok(renamed(std::str::from_utf8(bytes)?))
    };
    let head = format!("// The WIT package as C, written by `bindgen`; do not edit.\n//\n// {}\n", fingerprint(wit)?);
    let mut written = BTreeMap::from([("bindings.h".to_owned(), format!("{head}{}", header(&file(".h")?)?))]);
    for (name, text) in sources(&file(".c")?)? {
        written.insert(format!("{name}.c"), format!("{head}{text}"));
    }
    Ok(written)
}

/// Renames identifiers so that they do not contain the name of the world, and makes strings `char`
/// pointers.
fn renamed(code: &str) -> String {
    let code = code.replace("versatile_action_", "strata_action_").replace("versatile_action.h", "bindings.h");
    code.replace("string_t {\n  uint8_t*ptr;", "string_t {\n  const char *ptr;")
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// Returns the header without the functions that free memory.
fn header(code: &str) -> Result<String> {
    let (kept, freeing) = code.split_once("// Helper Functions").context("the header has no helpers any more")?;
    let (_, end) = freeing.split_once("#ifdef __cplusplus").context("the header ends in another way")?;
    Ok(format!("{kept}#ifdef __cplusplus{end}"))
}

/// Splits the source into the imports and each exported interface.
fn sources(code: &str) -> Result<BTreeMap<&'static str, String>> {
    let changed = |what: &'static str| move || format!("the generator's output has changed: no {what}");
    let (imports, rest) = code.split_once("// Exported Functions from").with_context(changed("exports"))?;
    let (_, rest) = rest.split_once("// Canonical ABI intrinsics").with_context(changed("intrinsics"))?;
    let (intrinsics, rest) = rest.split_once("// Helper Functions").with_context(changed("helpers"))?;
    let area = intrinsics.find("__attribute__((__aligned__").with_context(changed("return area"))?;
    let area = intrinsics[area..].trim();
    let (_, rest) = rest.split_once("// Component Adapters").with_context(changed("adapters"))?;
    let (rest, _) = rest.split_once("// Ensure that").with_context(changed("end"))?;
    let mut exports = rest.split("\n__attribute__((__export_name__(\"strata:action/");
    let adapters = exports.next().with_context(changed("adapters"))?;
    let mut written = BTreeMap::from([("imports", format!("{imports}{}{adapters}", intrinsics.trim_start()))]);
    for export in exports {
        let name = EXPORTS.into_iter().find(|name| export.starts_with(name)).with_context(changed("known export"))?;
        let head = || format!("#include \"bindings.h\"\n#include <stdlib.h>\n\n{area}\n");
        let text = written.entry(name).or_insert_with(head);
        text.push_str("\n__attribute__((__export_name__(\"strata:action/");
        text.push_str(export);
    }
    if written.values().any(|text| text.contains("_free(")) {
        bail!("the generator's output has changed: the bindings free");
    }
    Ok(written.into_iter().map(|(name, text)| (name, text.trim_end().to_owned() + "\n")).collect())
}
