//! What is set for a database as a whole.

/// Whether runs may be added to a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// They may.
    Open,
    /// It only keeps those that it has.
    Closed,
}

impl Intake {
    /// Returns `Open` if runs may be added.
    pub fn from_open(is_open: bool) -> Self {
        if is_open { Self::Open } else { Self::Closed }
    }
}

/// What is set for a database as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSettings {
    /// A random name, which changes when the database was restored.
    pub incarnation: String,
    /// Whether runs may be added.
    pub intake: Intake,
}

/// The outcome of fencing a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FencedDatabase {
    /// How many runs it has.
    pub runs: u64,
    /// The new incarnation.
    pub incarnation: String,
}
