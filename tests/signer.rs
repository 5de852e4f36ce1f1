//! Somebody who signs components, in minisign's format: what `minisign -S` does.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// Bytes of a key's id.
const ID_BYTES: usize = 8;

/// Somebody with a secret key.
pub struct Signer {
    pair: Ed25519KeyPair,
    id: [u8; ID_BYTES],
}

impl Signer {
    /// One of many.
    pub fn of(seed: u8) -> Self {
        Self {
            pair: Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap(),
            id: [seed; ID_BYTES],
        }
    }

    /// The public key, as `[trust]` takes it.
    pub fn key(&self) -> String {
        STANDARD.encode([b"Ed".as_slice(), &self.id, self.pair.public_key().as_ref()].concat())
    }

    /// By what the key is known.
    pub fn id(&self) -> String {
        format!("{:016X}", u64::from_le_bytes(self.id))
    }

    /// What lies in the signature file of these bytes.
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
