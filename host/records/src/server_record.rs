//! What a server remembers in its database besides runs: tokens, which tenant uploaded which file, and answers to
//! repeated requests. What a record means is up to the server.

/// The kind of the record with which it is found out whether anything can be recorded. Nobody reads it.
const CHECK_KIND: &str = "ready";

/// A record of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerRecord {
    /// What it is about.
    pub kind: String,
    /// Whose it is; empty if it belongs to no tenant.
    pub tenant: String,
    /// Its name. There is one record of a kind, a tenant and a name.
    pub name: String,
    /// The id of the run with which it is deleted.
    pub run: Option<String>,
    /// What it says.
    pub text: String,
    /// When it stops counting, in milliseconds since 1970.
    pub expires_ms: Option<i64>,
}

impl ServerRecord {
    /// Returns the record with which it is found out whether anything can be recorded.
    pub fn of_check(now_ms: i64) -> Self {
        Self {
            kind: CHECK_KIND.into(),
            text: now_ms.to_string(),
            ..Self::default()
        }
    }

    /// Whether it counts at a time.
    pub fn counts_at(&self, now_ms: i64) -> bool {
        self.expires_ms.is_none_or(|expires| expires > now_ms)
    }
}
