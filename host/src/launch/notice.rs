//! What is told while a team is made ready, before there are lines of its run.

/// Something for the operator. Who hears it decides what of it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// How things stand.
    Note(&'a str),
    /// What is begun now and takes long: a build, say.
    Busy(&'a str),
    /// What should be looked at, however little one wants to be told.
    Warning(&'a str),
}
