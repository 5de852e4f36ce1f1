//! SHA-256, as implemented in the library that TLS uses. On processors without instructions for it,
//! it is three times as fast as portable code.

use ring::digest::{Context, SHA256};

/// Returns the SHA-256 of some bytes.
pub fn sha256(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::new().with(bytes).finish()
}

/// Computes a SHA-256 incrementally.
#[derive(Clone)]
pub struct Sha256(Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl Sha256 {
    /// Returns the SHA-256 of no bytes.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds bytes and returns the SHA-256 of all so far.
    pub fn with(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.update(bytes.as_ref());
        self
    }

    /// Returns the digest.
    pub fn finish(self) -> [u8; 32] {
        self.0
            .finish()
            .as_ref()
            .try_into()
            .expect("a SHA-256 has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use strata_core::record::id::to_hex;

    use super::*;

    #[test]
    fn pieces_make_the_same_as_the_whole() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(to_hex(&sha256("abc")), expected);
        assert_eq!(
            to_hex(&Sha256::new().with("a").with("").with("bc").finish()),
            expected
        );
    }
}
