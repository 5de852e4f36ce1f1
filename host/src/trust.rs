//! Which components may be loaded: those that the lock beside the team file names, and those that a trusted key has
//! signed. Asked before anything of a component is compiled; reading components is `launch`'s, pins are the manifest's.

pub mod lock;
pub mod signature;
