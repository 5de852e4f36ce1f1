//! The errors of loading a component, with advice.

use std::io;
use std::time::Duration;

use strata_base::advice::Advice;
use strata_base::text::units::format_bytes;
use strata_core::record::id::to_hex;
use strata_services::plugin::{Limit, LimitReached};
use wasmtime::component::Component;

use super::HANDLER;
use crate::SandboxError;
use crate::host_wit::host_interface_names;

/// The first bytes of a WebAssembly binary.
const MAGIC: &[u8] = b"\0asm";
/// The version of a core module, which follows them.
const CORE_MODULE_VERSION: &[u8] = &[1, 0, 0, 0];
/// The version of a component, which follows them.
const COMPONENT_VERSION: &[u8] = &[0x0d, 0, 1, 0];
/// The package of the host's interfaces.
const PACKAGE: &str = "strata:action/";

/// Why a component cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The bytes are not WebAssembly.
    #[error(
        "this is not WebAssembly: a component begins with the bytes `\\0asm`, this with `{start}`"
    )]
    NotWasm {
        /// The first bytes, escaped.
        start: String,
    },
    /// The bytes are WebAssembly, but not a component.
    #[error("this is a core WebAssembly module, not a component")]
    CoreModule,
    /// The component has an unsupported binary version.
    #[error(
        "this WebAssembly binary has the version `{version}`, which is neither a module's nor a component's; build it with a current toolchain"
    )]
    Version {
        /// The four bytes of the version in hex.
        version: String,
    },
    /// The component does not compile.
    #[error("the component is not valid: {0}")]
    Invalid(String),
    /// The component is not an action.
    #[error(
        "the component does not export `{HANDLER}`, so it is not an action (it exports {exports}); `function = \"…\"` beside `component` calls one of its functions"
    )]
    NoHandler {
        /// The names of its exports.
        exports: String,
    },
    /// The component is an action for another version of the interface.
    #[error(
        "the component exports `{found}`, this host calls `{HANDLER}`; build it against the host's version"
    )]
    HandlerVersion {
        /// The interface that it exports.
        found: String,
    },
    /// The component imports something that the host does not provide.
    #[error(
        "the component imports `{import}`, which this host does not have; it offers `{PACKAGE}*@0.2.0` and WASI 0.2 without http"
    )]
    UnknownImport {
        /// The name of the import.
        import: String,
    },
    /// The names match, but the types do not.
    #[error(
        "the component's functions do not have the types of `{PACKAGE}*@0.2.0`: {why}; build it against the host's WIT"
    )]
    Types {
        /// The mismatch.
        why: String,
    },
    /// The component imports a core module.
    #[error("the component imports a core module; compose it into one component first")]
    ImportsModule,
    /// The component instantiates a component that it does not define, so its number of parts
    /// cannot be bounded in advance.
    #[error(
        "the component uses a component that it is given, or takes out of an instance; define each one where it is used"
    )]
    ComponentFromElsewhere,
    /// The component has too many parts.
    #[error(
        "the component has {needed} {what}, the sandbox holds {bound}; build it as fewer parts"
    )]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The number it has.
        needed: u32,
        /// The maximum number.
        bound: u32,
    },
    /// The component has too many bytes.
    #[error("the component has {}, its limit is {}", format_bytes(*.length), format_bytes(*.limit))]
    TooLarge {
        /// The size in bytes.
        length: u64,
        /// The maximum size in bytes.
        limit: u64,
    },
    /// The bytes are not those that the digest belongs to.
    #[error(
        "its bytes have changed, but not its time of change, which the file system got wrong; copy the file to a new one"
    )]
    OtherBytes,
    /// The file of the component cannot be read any more.
    #[error("its file cannot be read: {0}")]
    Unreadable(io::Error),
    /// The file of the component has other bytes than when its digest was found.
    #[error("its file was changed while it was being loaded; try again")]
    ChangedMeanwhile,
    /// A function of the component is too large to be compiled in reasonable time.
    #[error(
        "a function of the component has {}, the compiler takes {}; split it",
        format_bytes(*.length as u64), format_bytes(*.bound as u64)
    )]
    FunctionTooLarge {
        /// The size in bytes.
        length: usize,
        /// The maximum size in bytes.
        bound: usize,
    },
    /// The component has too many functions.
    #[error("the component has more than {bound} functions, which is all that the compiler takes")]
    TooManyFunctions {
        /// The maximum number.
        bound: usize,
    },
    /// Compiling the component takes too long.
    #[error("the component is not compiled within its limit of {limit:?}")]
    SlowToCompile {
        /// The time limit.
        limit: Duration,
    },
    /// The component fails to describe itself.
    #[error("the component fails to describe itself ({kind}): {message}")]
    Describe {
        /// The kind of its fault.
        kind: &'static str,
        /// The message of the fault.
        message: String,
    },
    /// The sandbox cannot be set up on this machine.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl LoadError {
    /// Returns what the user can do about it, if a command of the program helps.
    pub fn advice(&self) -> Option<Advice> {
        match self {
            Self::CoreModule => Some(Advice::BuildComponent),
            Self::NoHandler { .. } => Some(Advice::SeeNewAction),
            _ => None,
        }
    }

    /// Returns the limit that was reached, if that is the reason.
    pub fn limit_reached(&self) -> Option<LimitReached> {
        match self {
            Self::TooLarge { length, .. } => {
                Some(LimitReached::with_demand(Limit::Component, *length))
            }
            Self::SlowToCompile { .. } => Some(LimitReached::new(Limit::Compile)),
            _ => None,
        }
    }
}

/// Checks the first bytes of a component.
pub(super) fn check_header(bytes: &[u8]) -> Result<(), LoadError> {
    if !bytes.starts_with(MAGIC) {
        let start = bytes[..bytes.len().min(8)].escape_ascii().to_string();
        return Err(LoadError::NotWasm { start });
    }
    let version = bytes.get(4..8).unwrap_or_default();
    if version == COMPONENT_VERSION {
        return Ok(());
    }
    if version == CORE_MODULE_VERSION {
        return Err(LoadError::CoreModule);
    }
    let version = to_hex(version);
    Err(LoadError::Version { version })
}

pub(super) fn compile_error(error: &wasmtime::Error) -> LoadError {
    LoadError::Invalid(error.root_cause().to_string())
}

/// Returns the error for a component without the handler that this host calls.
pub(super) fn export_error(component: &Component) -> LoadError {
    let ty = component.component_type();
    let names: Vec<String> = ty
        .exports(component.engine())
        .map(|(name, _)| name.to_owned())
        .collect();
    let interface = without_version(HANDLER);
    if let Some(found) = names.iter().find(|name| without_version(name) == interface) {
        if component.get_export_index(None, HANDLER).is_some() {
            let why = format!("`{found}` lacks `describe` or `run`");
            return LoadError::Types { why };
        }
        let found = found.clone();
        return LoadError::HandlerVersion { found };
    }
    let exports = match names.as_slice() {
        [] => "nothing".to_owned(),
        names => format!("`{}`", names.join("`, `")),
    };
    LoadError::NoHandler { exports }
}

/// Returns the error for a component that cannot be linked.
pub(super) fn link_error(component: &Component, error: &wasmtime::Error) -> LoadError {
    let ty = component.component_type();
    let mut imports = ty.imports(component.engine());
    match imports.find(|(name, _)| !is_provided(name)) {
        Some((import, _)) => LoadError::UnknownImport {
            import: import.to_owned(),
        },
        None => LoadError::Types {
            why: error_chain(error),
        },
    }
}

/// Returns whether the host provides what a component imports under this name.
fn is_provided(import: &str) -> bool {
    match import.split_once('@') {
        Some((interface, version)) if interface.starts_with(PACKAGE) => {
            host_interface_names().contains(&interface[PACKAGE.len()..])
                && version.starts_with("0.2.")
        }
        Some((INTERPRETER, version)) => version.starts_with("0.1."),
        Some((interface, version)) => {
            WASI_PACKAGES
                .iter()
                .any(|package| interface.starts_with(package))
                && version.starts_with("0.2.")
        }
        None => false,
    }
}

/// The interface that interpreters of scripts import in addition.
const INTERPRETER: &str = "strata:interpreter/script";
/// The packages of WASI 0.2 that the host provides.
const WASI_PACKAGES: [&str; 6] = [
    "wasi:cli/",
    "wasi:clocks/",
    "wasi:filesystem/",
    "wasi:io/",
    "wasi:random/",
    "wasi:sockets/",
];

/// Formats an error with its causes on one line.
pub(super) fn error_chain(error: &wasmtime::Error) -> String {
    let parts: Vec<String> = error.chain().map(ToString::to_string).collect();
    parts.join(": ")
}

fn without_version(name: &str) -> &str {
    name.split_once('@')
        .map_or(name, |(interface, _)| interface)
}
