//! Tokens: how they are made, stored and recognised. A token is stored as its SHA-256: whoever reads the storage cannot
//! use it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use strata_core::record::id::to_hex;
use strata_host::clock::{now_ms, stopwatch};
use strata_host::storage::{CapScope, ServerRecord, ServerRecords, StoreError};

use crate::caller::{Caller, Right};

/// The kind of the records of tokens.
const KIND: &str = "token";
/// What the text of a token begins with, so that it is recognised where it does not belong.
const PREFIX: &str = "strata_";
/// How many random bytes a token has.
const BYTES: usize = 32;
/// The longest text that is compared with tokens.
const MAX_TEXT_BYTES: usize = 256;
/// For how long tokens that were read count: another process may have revoked one.
const FRESH: Duration = Duration::from_secs(2);
/// How often they are read because of one that is not among them: another process may have made it.
const UNKNOWN_INTERVAL: Duration = Duration::from_millis(100);

/// A token, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Who it is.
    pub caller: Caller,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// When it stops counting, in the same way.
    pub expires_ms: Option<i64>,
    /// The SHA-256 of its text, in hexadecimal.
    hash: String,
}

/// What a record of a token says.
#[derive(Serialize, Deserialize)]
struct StoredToken {
    hash: String,
    rights: Vec<Right>,
    created_ms: i64,
}

/// A token that is to be made.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Its name, which no other token of the tenant has.
    pub name: String,
    /// Its tenant; `None` for all.
    pub tenant: Option<String>,
    /// Its rights.
    pub rights: Vec<Right>,
    /// When it stops counting, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
}

/// Returns the text of a new token.
///
/// # Errors
/// Fails if the system has no random numbers.
pub fn new_token_text() -> Result<String, ring::error::Unspecified> {
    use ring::rand::SecureRandom;
    let mut bytes = [0; BYTES];
    ring::rand::SystemRandom::new().fill(&mut bytes)?;
    Ok(format!("{PREFIX}{}", to_hex(&bytes)))
}

/// Returns the hash with which a token is stored.
pub fn token_hash(text: &str) -> String {
    to_hex(ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref())
}

/// Fails unless a text can be the name of a token or of a tenant.
///
/// # Errors
/// Fails with what a name may be.
pub fn check_token_name(name: &str) -> Result<(), String> {
    strata_host::storage::check_run_name(name)
        .map(drop)
        .map_err(|_| {
            "1 to 200 letters, digits, `.`, `_` and `-` can be a name, not only dots, and without a `-` at the beginning"
                .into()
        })
}

/// Fails unless a token may be made with this name and tenant.
///
/// # Errors
/// Fails with which of them is wrong, and what it may be.
pub fn check_new_token(name: &str, tenant: Option<&str>) -> Result<(), (TokenPart, String)> {
    check_token_name(name).map_err(|why| (TokenPart::Name, why))?;
    if name == Caller::of_storage().name {
        let why = "this is the name of the token that belongs to the storage; use another one";
        return Err((TokenPart::Name, why.into()));
    }
    let Some(tenant) = tenant else { return Ok(()) };
    check_token_name(tenant).map_err(|why| (TokenPart::Tenant, why))?;
    // What the runs of a tenant cost is limited by the cap with its name.
    CapScope::parse_named(tenant)
        .map(drop)
        .map_err(|why| (TokenPart::Tenant, why))
}

/// A part of what a token is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenPart {
    /// Its name.
    Name,
    /// Its tenant.
    Tenant,
}

impl Token {
    fn from_record(record: ServerRecord) -> Option<Self> {
        let stored: StoredToken = serde_json::from_str(&record.text).ok()?;
        Some(Self {
            caller: Caller {
                name: record.name,
                tenant: (!record.tenant.is_empty()).then_some(record.tenant),
                rights: stored.rights,
            },
            created_ms: stored.created_ms,
            expires_ms: record.expires_ms,
            hash: stored.hash,
        })
    }
}

/// Makes a token, and returns its text, which is not stored. Returns `None` if there is one of its name.
///
/// # Errors
/// Fails if it cannot be stored.
pub fn create_token(
    records: &dyn ServerRecords,
    new: &NewToken,
) -> Result<Option<String>, StoreError> {
    let text = new_token_text().map_err(|_| {
        let what = std::io::Error::other("the system has no random numbers");
        StoreError::Io {
            path: "token".into(),
            action: "make",
            source: what,
        }
    })?;
    let mut rights = new.rights.clone();
    rights.sort_unstable();
    rights.dedup();
    let stored = StoredToken {
        hash: token_hash(&text),
        rights,
        created_ms: now_ms(),
    };
    let present = records.insert_record(&ServerRecord {
        kind: KIND.into(),
        tenant: new.tenant.clone().unwrap_or_default(),
        name: new.name.clone(),
        run: None,
        text: serde_json::to_string(&stored).unwrap_or_default(),
        expires_ms: new.expires_ms,
    })?;
    Ok(present.is_none().then_some(text))
}

/// Lists the tokens of a tenant, or of all.
///
/// # Errors
/// Fails if they cannot be read.
pub fn list_tokens(
    records: &dyn ServerRecords,
    tenant: Option<&str>,
) -> Result<Vec<Token>, StoreError> {
    let records = records.list_records(KIND, tenant)?;
    Ok(records.into_iter().filter_map(Token::from_record).collect())
}

/// Revokes a token. Returns whether there was one.
///
/// # Errors
/// Fails if that cannot be stored.
pub fn revoke_token(
    records: &dyn ServerRecords,
    tenant: Option<&str>,
    name: &str,
) -> Result<bool, StoreError> {
    records.delete_record(KIND, tenant.unwrap_or_default(), name)
}

/// Tokens, by their hashes.
type TokensByHash = BTreeMap<String, Token>;

/// Recognises tokens.
pub struct TokenRegistry {
    /// The hash of the token that belongs to the storage itself, if there is one.
    own: Option<String>,
    known: Mutex<KnownTokens>,
}

/// The tokens that were read last.
#[derive(Default)]
struct KnownTokens {
    read: Option<(Instant, Arc<TokensByHash>)>,
    /// How often they were forgotten.
    forgotten: u64,
}

impl KnownTokens {
    /// Returns the tokens, unless they were read too long ago for one with this hash.
    fn fresh(&self, hash: &str) -> Option<Arc<TokensByHash>> {
        let (read, tokens) = self.read.as_ref()?;
        let counts_for = if tokens.contains_key(hash) {
            FRESH
        } else {
            UNKNOWN_INTERVAL
        };
        (read.elapsed() < counts_for).then(|| Arc::clone(tokens))
    }
}

/// Returns whose the token with a hash is, unless its time is over.
fn caller_of(tokens: &TokensByHash, hash: &str) -> Option<Caller> {
    let now = now_ms();
    let found = tokens.get(hash);
    let found = found.filter(|token| token.expires_ms.is_none_or(|expires| expires > now));
    found.map(|token| token.caller.clone())
}

impl TokenRegistry {
    /// Returns one that recognises the token of the storage, and those in its records.
    pub fn new(own: Option<&str>) -> Self {
        Self {
            own: own.map(token_hash),
            known: Mutex::default(),
        }
    }

    /// Returns whose a token is; `None` if it does not count.
    ///
    /// # Errors
    /// Fails if the tokens cannot be read.
    pub fn recognise(
        &self,
        text: &str,
        records: &dyn ServerRecords,
    ) -> Result<Option<Caller>, StoreError> {
        if let Some(known) = self.recall(text) {
            return Ok(known);
        }
        let hash = token_hash(text);
        let tokens = self.tokens(&hash, records)?;
        Ok(caller_of(&tokens, &hash))
    }

    /// Returns whose a token is, as `Self::recognise` does, if that is known without reading the tokens.
    pub fn recall(&self, text: &str) -> Option<Option<Caller>> {
        if text.len() > MAX_TEXT_BYTES {
            return Some(None);
        }
        // Hashes are compared: how long that takes says nothing about a token.
        let hash = token_hash(text);
        if self.own.as_ref() == Some(&hash) {
            return Some(Some(Caller::of_storage()));
        }
        let tokens = self.known().fresh(&hash)?;
        Some(caller_of(&tokens, &hash))
    }

    fn known(&self) -> MutexGuard<'_, KnownTokens> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all tokens. They are read again if that was too long ago for one with this hash.
    fn tokens(
        &self,
        hash: &str,
        records: &dyn ServerRecords,
    ) -> Result<Arc<TokensByHash>, StoreError> {
        let (fresh, forgotten) = {
            let known = self.known();
            (known.fresh(hash), known.forgotten)
        };
        if let Some(tokens) = fresh {
            return Ok(tokens);
        }
        let start = stopwatch();
        let tokens = list_tokens(records, None)?.into_iter();
        let tokens: TokensByHash = tokens.map(|token| (token.hash.clone(), token)).collect();
        let tokens = Arc::new(tokens);
        let mut known = self.known();
        if known.forgotten == forgotten {
            known.read = Some((start, Arc::clone(&tokens)));
        }
        Ok(tokens)
    }

    /// Forgets which tokens there are, because one was made or revoked.
    pub fn forget(&self) {
        let mut known = self.known();
        known.read = None;
        known.forgotten += 1;
    }
}

/// Returns the token in the value of the header `Authorization`.
pub fn bearer_token(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
}

#[cfg(test)]
mod tests {
    use strata_host::storage::RunDatabase;

    use super::*;

    #[test]
    fn a_token_is_recognised_until_it_is_revoked_or_its_time_is_over() {
        let temp = tempfile::tempdir().unwrap();
        let database = RunDatabase::in_file(&temp.path().join("runs.db"));
        let records = database.records().unwrap();
        let records = records.as_ref();
        let registry = TokenRegistry::new(Some("own"));
        let recognise = |text: &str| registry.recognise(text, records).unwrap();
        let new = |name: &str, expires_ms| NewToken {
            name: name.into(),
            tenant: Some("red".into()),
            rights: vec![Right::View, Right::Submit, Right::View],
            expires_ms,
        };
        let text = create_token(records, &new("ann", None)).unwrap().unwrap();
        assert_eq!(create_token(records, &new("ann", None)).unwrap(), None);
        let over = create_token(records, &new("bob", Some(1))).unwrap();
        registry.forget();
        let caller = recognise(&text).unwrap();
        assert_eq!(caller.tenant.as_deref(), Some("red"));
        assert_eq!(caller.rights, [Right::Submit, Right::View]);
        assert_eq!(recognise(&over.unwrap()), None);
        assert_eq!(recognise("own"), Some(Caller::of_storage()));
        for wrong in [
            "",
            "own ",
            "OWN",
            &text[1..],
            &token_hash(&text),
            &"x".repeat(1000),
        ] {
            assert_eq!(recognise(wrong), None, "{wrong}");
        }
        let stored = records.list_records(KIND, None).unwrap();
        assert!(stored.iter().all(|record| !record.text.contains(&text)));
        assert!(!revoke_token(records, None, "ann").unwrap());
        assert!(revoke_token(records, Some("red"), "ann").unwrap());
        registry.forget();
        assert_eq!(recognise(&text), None);
    }

    #[test]
    fn a_token_is_sent_with_its_scheme() {
        let check = |value: &str, expected: Option<&str>| {
            assert_eq!(bearer_token(value), expected, "{value}");
        };
        check("Bearer abc", Some("abc"));
        check("bearer abc", Some("abc"));
        check("Basic abc", None);
        check("abc", None);
        check("Bearer ", None);
        check("Bearer a b", None);
    }
}
