//! Components that are part of this program, which team files name as `builtin:NAME`.
//!
//! Such a name takes the place of a path. It is not relative to anything, and a file of that name can
//! still be named as `./builtin:NAME`.

use std::path::Path;
use std::sync::LazyLock;

use strata_base::files::blob::digest_of;
use strata_base::text::suggest::suggest;
use strata_core::record::id::Digest;

/// The component of the probe (`plugins/probe`). It is stored with the source, so that this program can
/// be compiled, and the probe used, where there is no compiler for WebAssembly. A test compares it with
/// its source.
const PROBE_COMPONENT: &[u8] = include_bytes!("../../../../plugins/probe/probe.wasm");

/// The beginning of the names.
const PREFIX: &str = "builtin:";

/// A component that is part of this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinComponent {
    /// The probe, which does what its configuration says.
    Probe,
}

/// The error for a name that begins like that of a built-in component, and is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no built-in component `{name}`; {hint}")]
pub struct UnknownBuiltin {
    /// The name.
    pub name: String,
    /// What may have been meant.
    pub hint: String,
}

impl BuiltinComponent {
    /// All of them.
    pub const ALL: [Self; 1] = [Self::Probe];

    /// Returns the name with which team files name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Probe => "builtin:probe",
        }
    }

    /// Returns the name of a file with its content.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Probe => "probe.wasm",
        }
    }

    /// Returns the built-in component that is named in place of a path. Returns `None` for a path.
    pub fn from_path(path: &Path) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|builtin| path.as_os_str() == builtin.name())
    }

    /// Returns the built-in component with this name. Returns `None` for a path.
    ///
    /// # Errors
    /// Fails if it begins like the name of a built-in component, and is none.
    pub fn parse(name: &str) -> Result<Option<Self>, UnknownBuiltin> {
        let found = Self::from_path(Path::new(name));
        if found.is_some() || !name.starts_with(PREFIX) {
            return Ok(found);
        }
        let hint = suggest(name, &Self::ALL.map(Self::name));
        Err(UnknownBuiltin {
            name: name.to_owned(),
            hint: hint.unwrap_or_default(),
        })
    }

    /// Returns the component.
    pub fn bytes(self) -> &'static [u8] {
        match self {
            Self::Probe => PROBE_COMPONENT,
        }
    }

    /// Returns the SHA-256 of the component. It is the same on every machine with this program.
    pub fn digest(self) -> &'static Digest {
        static PROBE: LazyLock<Digest> = LazyLock::new(|| digest_of(PROBE_COMPONENT));
        match self {
            Self::Probe => &PROBE,
        }
    }
}

/// Returns whether this names a built-in component in place of a path.
pub fn is_builtin(component: &Path) -> bool {
    BuiltinComponent::from_path(component).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_that_of_a_component_or_a_misspelling_and_everything_else_is_a_path() {
        let probe = Ok(Some(BuiltinComponent::Probe));
        assert_eq!(BuiltinComponent::parse("builtin:probe"), probe);
        for path in [
            "./builtin:probe",
            "/builtin:probe",
            "builtin",
            "probe.wasm",
            "",
        ] {
            assert_eq!(BuiltinComponent::parse(path), Ok(None), "{path}");
        }
        for (name, hint) in [
            ("builtin:prob", "did you mean `builtin:probe`?"),
            ("builtin:Probe", "did you mean `builtin:probe`?"),
            ("builtin:", "`builtin:probe`"),
        ] {
            let error = BuiltinComponent::parse(name).unwrap_err();
            assert!(error.hint.contains(hint), "{error}");
        }
    }

    #[test]
    fn the_components_are_small() {
        for builtin in BuiltinComponent::ALL {
            let bytes = builtin.bytes();
            assert!(bytes.starts_with(b"\0asm"), "{}", builtin.name());
            // They are part of every copy of the program.
            assert!(bytes.len() < 512 << 10, "{} bytes", bytes.len());
        }
    }
}
