//! Generates `src/bindings.rs` of `strata-action` from the WIT package, or with `--check` checks
//! whether it is up to date.
//!
//! It is run manually when the WIT changes, so that guest builds do not need the generator, which
//! would make them ten times as slow. A test of the crate detects outdated bindings by the
//! fingerprint in their header.

#[path = "../../../fingerprint.rs"]
mod fingerprint;

use anyhow::{Context, Result, bail};
use fingerprint::fingerprint;
use std::fmt::Write as _;
use std::path::Path;
use wit_bindgen_core::wit_parser::{PackageId, Resolve};
use wit_bindgen_core::{Files, WorldGenerator};
use wit_component::{StringEncoding, metadata};

/// The world with every import and export. The code for it is used for all worlds.
const WIDEST: &str = "versatile-action";

/// The worlds of components, and the constants that hold their types.
const WORLDS: [(&str, &str); 4] = [
    ("action", "ACTION"),
    ("thinking-action", "THINKING_ACTION"),
    ("planning-action", "PLANNING_ACTION"),
    (WIDEST, "VERSATILE_ACTION"),
];

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wit = root.join("../../../wit");
    let target = root.join("../src/bindings.rs");
    let generated = generate(&wit)?;
    if std::env::args().nth(1).as_deref() != Some("--check") {
        return std::fs::write(&target, generated).context("writing the bindings");
    }
    if std::fs::read_to_string(&target)? != generated {
        bail!("`src/bindings.rs` is not what the WIT says; run this program without `--check`");
    }
    Ok(())
}

fn generate(wit: &Path) -> Result<String> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit)?;
    let mut text =
        format!("//! The WIT package as Rust, written by `bindgen`; do not edit.\n//!\n//! {}\n\n", fingerprint(wit)?);
    // The generator modifies `resolve`, so the types are encoded first.
    let types = component_types(&resolve, package)?;
    let mut options = wit_bindgen_rust::Opts::default();
    options.generate_all = true;
    options.format = true;
    options.pub_export_macro = true;
    options.disable_custom_section_link_helpers = true;
    options.additional_derive_attributes = vec!["PartialEq".into()];
    let world = resolve.select_world(&[package], Some(WIDEST))?;
    let mut files = Files::default();
    options.build().generate(&mut resolve, world, &mut files)?;
    let (_, code) = files.iter().next().context("the generator wrote nothing")?;
    text.push_str(&readable(without_export_macro(std::str::from_utf8(code)?)?)?);
    text.push_str(&types);
    Ok(text)
}

/// Removes the macro that exports everything at once. An action exports only what it implements,
/// with the macros of the single interfaces.
fn without_export_macro(code: &str) -> Result<&str> {
    let start = code
        .find("/// Generates `#[unsafe(no_mangle)]` functions")
        .context("the generator's output has changed: no export macro")?;
    Ok(&code[..start])
}

/// Makes errors display only their message. By default the generator displays them in debug format.
fn readable(code: &str) -> Result<String> {
    const GENERATED: &str = "write!(f, \"{:?}\", self)";
    let mut code = code.to_owned();
    for error in ["HostError", "Failure"] {
        let find = |from: usize, what: &str| code[from..].find(what).map(|at| from + at);
        let at = find(0, &format!("impl ::core::fmt::Display for {error} {{"));
        let at = at.and_then(|start| find(start, GENERATED));
        let at = at.with_context(|| format!("the generator's output has changed: `{error}` is not displayed"))?;
        code.replace_range(at..at + GENERATED.len(), "f.write_str(&self.message)");
    }
    Ok(code)
}

/// Returns constants with the component type of each world, in the format of the custom section
/// that `wit-component` reads.
fn component_types(resolve: &Resolve, package: PackageId) -> Result<String> {
    let mut text = String::from("/// The component type of each world.\n#[rustfmt::skip]\npub mod worlds {\n");
    for (world, constant) in WORLDS {
        let id = resolve.select_world(&[package], Some(world))?;
        let bytes = metadata::encode(resolve, id, StringEncoding::UTF8, None, false)?;
        writeln!(text, "    /// World `{world}`.")?;
        writeln!(text, "    pub const {constant}: [u8; {}] = *b\"{}\";", bytes.len(), literal(&bytes))?;
    }
    text.push_str("}\n");
    Ok(text)
}

/// Formats bytes as the inside of a byte string literal, folded into lines.
fn literal(bytes: &[u8]) -> String {
    const WIDTH: usize = 100;
    let mut text = String::new();
    let mut column = WIDTH;
    for byte in bytes {
        let escaped = byte.escape_ascii().to_string();
        // Leading white space of a folded line is lost, so a line never begins with a space.
        if column >= WIDTH && *byte != b' ' {
            text.push_str("\\\n");
            column = 0;
        }
        column += escaped.len();
        text.push_str(&escaped);
    }
    text
}
