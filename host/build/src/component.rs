//! Makes a component from a core module, and checks that it can be an action: it exports the
//! handler, or functions that a team file can name.

use super::core_module::{self, LineTables, PreparedModule};
use super::{BuildError, with_path};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use wasi_preview1_component_adapter_provider as wasi;
use wit_component::{ComponentEncoder, DecodedWasm};

/// The interface that every action exports.
const HANDLER: &str = "strata:action/handler@0.2.0";

/// Writes the component of `module` to `component`, atomically.
pub fn write_component(
    module: &Path,
    lines: LineTables,
    component: &Path,
) -> Result<(), BuildError> {
    let core = with_path(module, fs::read(module))?;
    let bytes = encode_component(&core, lines).map_err(|details| BuildError::Component {
        module: module.to_owned(),
        details,
    })?;
    // The caller holds the package's lock, so nobody else uses this name. The file is synced,
    // because one that was truncated by a crash would seem to be up to date.
    let unfinished = component.with_extension("unfinished");
    let written = File::create(&unfinished).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()
    });
    with_path(&unfinished, written)?;
    with_path(component, fs::rename(&unfinished, component))?;
    Ok(())
}

/// Encodes a core module as a component that exports something to call. The error describes what is
/// wrong with the module.
pub fn encode_component(core: &[u8], lines: LineTables) -> Result<Vec<u8>, String> {
    let refused = |reason: String| {
        format!(
            "{reason}; an action imports nothing but interfaces of strata:action, while its dependencies may \
             expect a browser or an operating system"
        )
    };
    let PreparedModule {
        bytes,
        imports_wasi,
    } = core_module::prepare(core, lines).map_err(refused)?;
    let mut encoder = ComponentEncoder::default().validate(true).module(&bytes);
    if imports_wasi {
        let (name, adapter) = (
            wasi::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
            wasi::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
        );
        encoder = encoder.and_then(|encoder| encoder.adapter(name, adapter));
    }
    let bytes = encoder
        .and_then(|mut encoder| encoder.encode())
        .map_err(|error| refused(format!("{error:#}")))?;
    if !export_names(&bytes).is_empty() {
        return Ok(bytes);
    }
    Err(format!(
        "it does not export `{HANDLER}`; in rust `strata_action::action!` does that, in c `STRATA_ACTION`"
    ))
}

/// Returns whether a component exports the handler.
pub fn is_action(component: &[u8]) -> bool {
    export_names(component).iter().any(|name| name == HANDLER)
}

/// Returns the names of a component's exports. Returns none if `component` is not a component.
pub fn export_names(component: &[u8]) -> Vec<String> {
    match wit_component::decode(component) {
        Ok(DecodedWasm::Component(resolve, world)) => {
            let exports = resolve.worlds[world].exports.keys();
            exports.map(|key| resolve.name_world_key(key)).collect()
        }
        Ok(DecodedWasm::WitPackage(..)) | Err(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_become_an_action_is_refused() {
        let empty_module = b"\0asm\x01\0\0\0".as_slice();
        let foreign_import =
            b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x07\x01\x01e\x01f\0\0".as_slice();
        let cases = [
            (b"no wasm".as_slice(), "an action imports nothing"),
            (foreign_import, "an action imports nothing"),
            (
                empty_module,
                "does not export `strata:action/handler@0.2.0`",
            ),
        ];
        for (core, expected) in cases {
            let error = encode_component(core, LineTables::Dropped).expect_err("it is no action");
            assert!(error.contains(expected), "{error}");
        }
    }
}
