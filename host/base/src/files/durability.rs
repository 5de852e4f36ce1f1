//! What a write has to survive.

/// What a write has to survive before it returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process, however abrupt.
    Process,
    /// The loss of power.
    #[default]
    Full,
}
