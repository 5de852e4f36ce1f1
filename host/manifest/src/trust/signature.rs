//! Verifies signatures of components: detached files in the format of minisign, `COMPONENT.minisig`
//! beside each component.
//!
//! Nothing is signed here. `minisign -S` does that, on a machine that may hold the secret key.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use strata_base::files::open;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minisign_verify::{Error, PublicKey, Signature};
use strata_core::record::id::Digest;

/// The maximum size of a signature file in bytes. It consists of two comments and two lines of
/// base64.
const MAX_SIGNATURE_BYTES: u64 = 16 << 10;
/// The number of bytes that identify the algorithm. The key's id follows them.
const ALGORITHM_BYTES: usize = 2;
/// The number of bytes of a key's id.
const ID_BYTES: usize = 8;

/// The id of a key, as minisign displays it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId(u64);

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedKey {
    id: KeyId,
    public: PublicKey,
}

/// The keys that may sign components. If there are none, no signature is required.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedKeys(pub Vec<TrustedKey>);

/// The error for a component that no trusted key has signed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the component `{}` (sha256 `{digest}`) is not trusted: {why}; trusted {trusted}", file.display())]
pub struct UntrustedComponent {
    file: PathBuf,
    digest: Digest,
    why: SignatureProblem,
    trusted: TrustedKeys,
}

/// What is wrong with a component's signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum SignatureProblem {
    #[error("there is no signature `{}`", .0.display())]
    Missing(PathBuf),
    #[error("its signature `{}` cannot be read: {}", .0.display(), .1)]
    Unreadable(PathBuf, String),
    #[error("it is signed with the key `{0}`")]
    UntrustedKey(KeyId),
    #[error("its signature with the key `{0}` was made for other bytes, or not with that key")]
    Invalid(KeyId),
}

impl TrustedKey {
    /// Parses a public key: the second line of a `.pub` file of minisign.
    pub fn parse(text: &str) -> Result<Self, String> {
        let public = PublicKey::from_base64(text).map_err(|error| error.to_string())?;
        Ok(Self {
            id: key_id(text).ok_or("it is too short")?,
            public,
        })
    }
}

impl TrustedKeys {
    /// Returns whether components must be signed, so that their bytes have to be checked.
    pub fn require_signatures(&self) -> bool {
        !self.0.is_empty()
    }

    /// Fails unless one of the keys has signed these bytes of a file, or there are no keys.
    pub fn check(
        &self,
        file: &Path,
        bytes: &[u8],
        digest: &Digest,
    ) -> Result<(), Box<UntrustedComponent>> {
        if !self.require_signatures() {
            return Ok(());
        }
        self.verify(file, bytes).map_err(|why| {
            Box::new(UntrustedComponent {
                file: file.to_owned(),
                digest: digest.clone(),
                why,
                trusted: self.clone(),
            })
        })
    }

    fn verify(&self, file: &Path, bytes: &[u8]) -> Result<(), SignatureProblem> {
        let path = signature_path(file);
        let unreadable = |why: String| SignatureProblem::Unreadable(path.clone(), why);
        let text = match read_signature(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(SignatureProblem::Missing(path));
            }
            Err(error) => return Err(unreadable(error.to_string())),
        };
        let signature = Signature::decode(&text).map_err(|error| unreadable(error.to_string()))?;
        let id = text
            .lines()
            .nth(1)
            .and_then(key_id)
            .ok_or_else(|| unreadable("it is too short".into()))?;
        let mut wrong = SignatureProblem::UntrustedKey(id);
        for key in self.0.iter().filter(|key| key.id == id) {
            match key.public.verify(bytes, &signature, false) {
                Ok(()) => return Ok(()),
                Err(Error::UnexpectedAlgorithm) => {
                    wrong = unreadable(
                        "it is of minisign's old format; sign with version 0.10 or newer".into(),
                    );
                }
                Err(_) => wrong = SignatureProblem::Invalid(id),
            }
        }
        Err(wrong)
    }
}

impl UntrustedComponent {
    /// Returns what to do about it.
    pub fn hint(&self) -> String {
        let file = self.file.display();
        format!(
            "whoever answers for it signs it: `minisign -S -m {file}`; whom you trust is written in `[trust] keys`"
        )
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

impl fmt::Display for TrustedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<String> = self.0.iter().map(|key| format!("`{}`", key.id)).collect();
        let word = if ids.len() == 1 { "is" } else { "are" };
        write!(f, "{word} {}", ids.join(", "))
    }
}

/// The error for a signature that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the signature `{}`: {source}", path.display())]
pub struct UnreadableSignature {
    path: PathBuf,
    source: io::Error,
}

/// Reads the signature beside a component. Returns `None` if there is none. The signature is
/// verified when the component is used.
pub fn read_signature_of(file: &Path) -> Result<Option<String>, UnreadableSignature> {
    let path = signature_path(file);
    match read_signature(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(UnreadableSignature { path, source }),
    }
}

/// Returns the path of the signature of a component.
pub fn signature_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".minisig");
    path.into()
}

fn read_signature(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open::regular(path)?
        .take(MAX_SIGNATURE_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the id in the base64 of a key or a signature.
fn key_id(line: &str) -> Option<KeyId> {
    let bytes = STANDARD.decode(line).ok()?;
    let id = bytes.get(ALGORITHM_BYTES..ALGORITHM_BYTES + ID_BYTES)?;
    Some(KeyId(u64::from_le_bytes(id.try_into().ok()?)))
}

#[cfg(test)]
mod tests;
