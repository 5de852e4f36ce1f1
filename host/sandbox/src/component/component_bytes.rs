//! The bytes of a component that is loaded. Most components are loaded without them.

use super::LoadError;

/// The bytes of a component with a known digest. They are read if there is no compiled code for the
/// digest, and if they contain debug information.
pub trait ComponentBytes {
    /// Returns their number, without reading them.
    fn size(&self) -> u64;

    /// Returns the bytes.
    ///
    /// # Errors
    /// Fails if they cannot be read, or are known not to be those of the digest any more.
    fn read(&self) -> Result<&[u8], LoadError>;
}

impl ComponentBytes for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self) -> Result<&[u8], LoadError> {
        Ok(self)
    }
}

impl ComponentBytes for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self) -> Result<&[u8], LoadError> {
        Ok(self)
    }
}
