//! The checked-in bindings belong to the WIT package beside them.

use std::fs;
use std::path::Path;

#[test]
fn the_bindings_were_written_from_the_wit_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = fs::read_dir(root.join("../../wit")).unwrap().map(Result::unwrap).collect();
    files.sort_by_key(fs::DirEntry::file_name);
    let bytes = files.iter().flat_map(|file| fs::read(file.path()).unwrap());
    // FNV-1a, as `bindgen` writes it into the header.
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let bindings = fs::read_to_string(root.join("src/bindings.rs")).unwrap();
    assert!(
        bindings.contains(&format!("//! wit fingerprint: {hash:016x}\n")),
        "the WIT has changed; run `cargo run` in guest-sdk/rust/bindgen"
    );
}
