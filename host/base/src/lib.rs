//! What the layers of strata-host share, and what knows nothing of teams.
//!
//! | | |
//! |---|---|
//! | [`files`] | opening and replacing files, digests, what is remembered about files, the user's directories and caches |
//! | [`text`] | how texts, paths, numbers and media types are read and shown |
//! | [`process`] | child processes, the boot of the machine, and waiting for futures |
//! | [`advice`] | what a user can do about an error, as a value |
//! | [`clock`], [`random_id`] | the wall clock and random numbers; nothing else reads them for a run |
//! | [`codec`] | how values are encoded, compressed and protected by checksums, and how bytes of strangers are decoded within limits |
//! | [`owner`] | HTTP between the process that owns a run and those that ask it for something |
//!
//! ```
//! use strata_base::files::sha256::sha256;
//! use strata_base::text::excerpt::excerpt;
//!
//! assert_eq!(excerpt("one\n  two three", 8), "one two …");
//! assert_eq!(sha256("")[0], 0xe3);
//! ```
//!
//! It touches files, processes, the clock and local sockets. It does not know what a team, a run's
//! storage or a component is. Its errors are those of the operating system, or its own types.

pub mod advice;
pub mod clock;
pub mod codec;
pub mod files;
#[cfg(any(test, feature = "test-support"))]
pub mod golden;
pub mod owner;
pub mod process;
pub mod random_id;
#[cfg(any(test, feature = "test-support"))]
pub mod scripted_run;
pub mod text;
