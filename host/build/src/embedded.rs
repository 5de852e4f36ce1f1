//! Files of the project that are part of this program, so that it works without a checkout of the
//! project.

/// Embeds files of a directory of the project. This is a macro because `include_bytes!` needs
/// literals.
macro_rules! embedded {
    ($directory:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../", $directory, "/", $path)))),+]
    };
}
pub(crate) use embedded;

/// The path of an embedded file, and its contents.
pub type EmbeddedFile = (&'static str, &'static [u8]);
