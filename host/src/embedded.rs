//! Files of the project that are part of this program, so that it works without a checkout of the
//! project.

/// Embeds files of a directory of the project. This is a macro because `include_bytes!` needs
/// literals.
macro_rules! embedded {
    ($directory:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../", $directory, "/", $path)))),+]
    };
}
pub(crate) use embedded;

/// The path of an embedded file, and its contents.
pub type EmbeddedFile = (&'static str, &'static [u8]);

/// The component of the probe (`plugins/probe`). It is stored with the source, so that this program can
/// be compiled, and the probe used, where there is no compiler for WebAssembly. A test compares it with
/// its source.
pub(crate) const PROBE_COMPONENT: &[u8] = include_bytes!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../plugins/probe/probe.wasm"
));
