//! What the first change of a file writes.

use super::{create_runs, records, take_lease, url};
use crate::directory::names::SideFile;
use crate::{Durability, Lease};

#[test]
fn the_first_change_of_a_file_of_many_runs_writes_nothing_of_the_others() {
    const RUNS: usize = 100;
    let temp = tempfile::tempdir().unwrap();
    for mut lease in create_runs(&temp, RUNS) {
        lease.append(&records(3), Durability::Process).unwrap();
    }
    let url = url(&temp, "0");
    let mut lease = take_lease(&url).unwrap();
    lease.append(&records(1), Durability::Full).unwrap();
    let log = std::fs::metadata(SideFile::Wal.beside(&url.file)).unwrap();
    let pages = log.len() / 4096;
    assert!(pages < RUNS as u64 / 2, "{pages} pages");
}
