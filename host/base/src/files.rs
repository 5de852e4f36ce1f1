//! Files: how they are opened, replaced, identified by their contents, and where those of the user lie.

pub mod blob;
pub mod caches;
pub mod durability;
pub mod installation;
pub mod known_files;
pub mod open;
pub mod process_cache;
pub mod replace;
pub mod scratch;
pub mod sha256;
pub mod user;
