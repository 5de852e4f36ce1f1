//! The fingerprint in the headers of generated bindings, which identifies the WIT they were
//! generated from. The generators write it, and tests compare it; all of them include this file.

use std::io;
use std::path::Path;

/// Returns the FNV-1a hash of the files in `wit`, in the order of their names.
pub fn fingerprint(wit: &Path) -> io::Result<String> {
    let mut files: Vec<_> = std::fs::read_dir(wit)?.collect::<Result<Vec<_>, _>>()?;
    files.sort_by_key(std::fs::DirEntry::file_name);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        for byte in std::fs::read(file.path())? {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(format!("wit fingerprint: {hash:016x}"))
}
