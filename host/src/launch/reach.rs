//! Doing something with a saved team, whoever has it: with its storage, or by way of the process that runs it.

use std::path::Path;
use std::time::Duration;

use super::LaunchError;
use super::control::Reached;
use super::resume::Opened;
use crate::store::StoreError;

/// How often it is tried where the team goes from one to the other meanwhile.
const TRIES: u32 = 10;
/// How often somebody has to be found who has the storage and cannot be reached: it may just be about to let it go.
const UNREACHABLE: u32 = 4;
/// How long it is given to do that after the first try; after the second twice that, and so on.
const PAUSE: Duration = Duration::from_millis(20);

/// Does it with the storage (`ours`), or where another process has that, through it (`theirs`).
pub(super) fn reach<T>(
    path: &Path,
    ours: impl Fn(Opened) -> Result<T, LaunchError>,
    theirs: impl Fn() -> Reached<T>,
) -> Result<T, LaunchError> {
    let (mut tried, mut unreachable) = (1, 0);
    loop {
        let in_use = match Opened::at_rest(path) {
            Ok(opened) => match ours(opened) {
                // Another process made a database of its `team.json` first.
                Err(LaunchError::Store(in_use @ StoreError::Locked { .. })) => in_use,
                done => return done,
            },
            Err(LaunchError::Store(in_use @ StoreError::Locked { .. })) => match theirs() {
                Reached::Told(told) => return told,
                Reached::Nobody => {
                    unreachable += 1;
                    in_use
                }
                Reached::Ended => in_use,
            },
            Err(error) => return Err(error),
        };
        if tried == TRIES || unreachable == UNREACHABLE {
            return Err(in_use.into());
        }
        std::thread::sleep(PAUSE * tried);
        tried += 1;
    }
}
