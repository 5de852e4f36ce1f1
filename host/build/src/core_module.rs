//! Prepares core modules for becoming components: adds their component type, removes debug
//! information, and determines whether they import WASI.
//!
//! A module without a component type gets the one that follows from its exports. So any compiler
//! for WebAssembly can make actions, without tools that know about components.

use wasmparser::{Parser, Payload};
use wit_component::StringEncoding;

use strata_sandbox::host_wit::parse_host_wit;

/// The prefix of the custom sections in which wit-component and similar tools store the component's
/// type.
const TYPE_SECTION_PREFIX: &str = "component-type";
/// The prefix of the custom sections with debug information.
const DEBUG_SECTION_PREFIX: &str = ".debug_";

/// Whether a component contains line tables, so that backtraces of faults name lines of its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineTables {
    /// They are removed, because they are larger than the code.
    #[default]
    Dropped,
    /// They are kept.
    Kept,
}

/// What a scan of a core module finds.
#[derive(Debug, Default)]
struct ScannedModule {
    exports: Vec<String>,
    imports_wasi: bool,
    has_type: bool,
    /// The sections to keep: their ids and the ranges of their contents.
    sections: Vec<(u8, std::ops::Range<usize>)>,
}

/// A module that is ready to become a component.
#[derive(Debug)]
pub struct PreparedModule {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether it imports WASI preview 1, as C libraries do.
    pub imports_wasi: bool,
}

/// Prepares a module. The error describes what is wrong with it.
pub fn prepare(core: &[u8], lines: LineTables) -> Result<PreparedModule, String> {
    let module = scan(core, lines).map_err(|error| error.to_string())?;
    let mut bytes = core[..8].to_vec();
    for (number, range) in &module.sections {
        bytes.push(*number);
        append_length(&mut bytes, range.len());
        bytes.extend_from_slice(&core[range.clone()]);
    }
    if !module.has_type {
        embed_type(&mut bytes, smallest_world(&module.exports))?;
    }
    Ok(PreparedModule {
        bytes,
        imports_wasi: module.imports_wasi,
    })
}

fn scan(core: &[u8], lines: LineTables) -> wasmparser::Result<ScannedModule> {
    let mut module = ScannedModule::default();
    for payload in Parser::new(0).parse_all(core) {
        let payload = payload?;
        let mut debug = false;
        match &payload {
            Payload::ExportSection(exports) => {
                for export in exports.clone() {
                    module.exports.push(export?.name.to_owned());
                }
            }
            Payload::ImportSection(imports) => {
                for import in imports.clone().into_imports() {
                    module.imports_wasi |=
                        import?.module == wasi_preview1_component_adapter_provider::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME;
                }
            }
            Payload::CustomSection(section) => {
                module.has_type |= section.name().starts_with(TYPE_SECTION_PREFIX);
                debug = lines == LineTables::Dropped
                    && section.name().starts_with(DEBUG_SECTION_PREFIX);
            }
            _ => {}
        }
        if let Some((number, range)) = payload.as_section().filter(|_| !debug) {
            module.sections.push((number, range));
        }
    }
    Ok(module)
}

/// Returns the smallest world with these exports: `host`, which has none, for a module that is not
/// an action.
fn smallest_world(exports: &[String]) -> &'static str {
    let has = |interface: &str| exports.iter().any(|export| export.starts_with(interface));
    if !has("strata:action/handler@") {
        return "host";
    }
    match (has("strata:action/thinker@"), has("strata:action/planner@")) {
        (false, false) => "action",
        (true, false) => "thinking-action",
        (false, true) => "planning-action",
        (true, true) => "versatile-action",
    }
}

fn embed_type(bytes: &mut Vec<u8>, world: &str) -> Result<(), String> {
    let (resolve, package) = parse_host_wit();
    let world = resolve
        .select_world(&[package], Some(world))
        .map_err(|error| error.to_string())?;
    wit_component::embed_component_metadata(bytes, &resolve, world, StringEncoding::UTF8)
        .map_err(|error| format!("{error:#}"))
}

/// Appends a length in unsigned LEB128: seven bits per byte, the lowest first.
fn append_length(bytes: &mut Vec<u8>, mut length: usize) {
    loop {
        let low = (length & 0x7f) as u8;
        length >>= 7;
        if length == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(exports: &[&str]) -> Vec<String> {
        exports.iter().map(|export| (*export).to_owned()).collect()
    }

    #[test]
    fn the_exports_tell_the_world() {
        let handler = "strata:action/handler@0.2.0#run";
        let (thinker, planner) = (
            "strata:action/thinker@0.2.0#choose",
            "strata:action/planner@0.2.0#plan",
        );
        let cases = [
            (names(&["memory", thinker]), "host"),
            (names(&["memory", handler]), "action"),
            (names(&[handler, thinker]), "thinking-action"),
            (names(&[planner, handler]), "planning-action"),
            (names(&[thinker, handler, planner]), "versatile-action"),
        ];
        for (exports, expected) in cases {
            assert_eq!(smallest_world(&exports), expected, "{exports:?}");
        }
    }

    #[test]
    fn lines_are_dropped_unless_they_are_wanted_and_names_are_kept() {
        let section = |name: &str| {
            let mut section = vec![0, name.len() as u8 + 2, name.len() as u8];
            section.extend_from_slice(name.as_bytes());
            section.push(0);
            section
        };
        let parts = [
            b"\0asm\x01\0\0\0".to_vec(),
            section(".debug_info"),
            section("name of things"),
        ];
        for (lines, kept) in [(LineTables::Dropped, false), (LineTables::Kept, true)] {
            let module = prepare(&parts.concat(), lines).expect("it is a module");
            let text = String::from_utf8_lossy(&module.bytes);
            assert!(
                text.contains("debug_info") == kept && text.contains("name of things"),
                "{text}"
            );
            assert!(!module.imports_wasi);
        }
    }

    #[test]
    fn a_length_is_written_as_it_is_read() {
        for length in [0, 1, 127, 128, 16_384, 5_000_000] {
            let mut bytes = Vec::new();
            append_length(&mut bytes, length);
            let mut reader = wasmparser::BinaryReader::new(&bytes, 0);
            assert_eq!(reader.read_var_u32().ok(), u32::try_from(length).ok());
        }
    }
}
