//! A key that signs components in the format of minisign, like `minisign -S`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// The number of bytes of a key's id.
const ID_BYTES: usize = 8;

/// A secret key.
pub struct Signer {
    pair: Ed25519KeyPair,
    id: [u8; ID_BYTES],
}

impl Signer {
    /// Creates a key from a seed.
    pub fn of(seed: u8) -> Self {
        Self {
            pair: Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap(),
            id: [seed; ID_BYTES],
        }
    }

    /// Returns the public key, as written in `[trust]`.
    pub fn key(&self) -> String {
        STANDARD.encode([b"Ed".as_slice(), &self.id, self.pair.public_key().as_ref()].concat())
    }

    /// Returns the id of the key.
    pub fn id(&self) -> String {
        format!("{:016X}", u64::from_le_bytes(self.id))
    }

    /// Returns the content of the signature file for these bytes.
    pub fn sign(&self, bytes: &[u8]) -> String {
        let signature = self.pair.sign(blake2b_simd::blake2b(bytes).as_bytes());
        let comment = "for a test";
        let both = self
            .pair
            .sign(&[signature.as_ref(), comment.as_bytes()].concat());
        let line = STANDARD.encode([b"ED".as_slice(), &self.id, signature.as_ref()].concat());
        format!(
            "untrusted comment: of a component\n{line}\ntrusted comment: {comment}\n{}\n",
            STANDARD.encode(both.as_ref())
        )
    }
}
