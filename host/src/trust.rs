//! What is trusted. Which components may be loaded: those that the lock beside the team file names, and those that a trusted key has
//! signed. Asked before anything of a component is compiled; reading components is `launch`'s, pins are the manifest's.
//! Which storage directories are the user's own: `mark`.

pub mod lock;
pub(crate) mod mark;
pub mod signature;
