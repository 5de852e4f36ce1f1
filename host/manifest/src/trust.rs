//! What is trusted. Which components may be loaded: those in the lock file beside the team file
//! (`lock`), and those that a trusted key has signed (`signature`). This is checked before a
//! component is compiled. `launch` reads components, and the manifest handles pinned digests.

pub mod lock;
pub mod signature;
