//! How fast a disk makes writes safe. What a durable step costs is mostly that.

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// One page of a database.
const BYTES: usize = 4096;
/// Enough for a median that a single slow one does not move.
const TIMES: usize = 21;

/// How long writing and syncing a page takes in a directory: the median of some. The file is gone afterwards.
pub fn sync(dir: &Path) -> io::Result<Duration> {
    let mut file = tempfile::tempfile_in(dir)?;
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let begin = Instant::now();
        file.write_all(&[1; BYTES])?;
        file.sync_data()?;
        times.push(begin.elapsed());
    }
    times.sort();
    Ok(times[TIMES / 2])
}
