//! Tests that the checked-in bindings were generated from the current WIT package.

#[path = "../../fingerprint.rs"]
mod fingerprint;

use std::fs;
use std::path::Path;

#[test]
fn the_bindings_were_written_from_the_wit_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let expected = fingerprint::fingerprint(&root.join("../../wit")).unwrap();
    let bindings = fs::read_to_string(root.join("src/bindings.rs")).unwrap();
    let hint = "the WIT has changed; run `cargo run` in guest-sdk/rust/bindgen";
    assert!(bindings.contains(&format!("//! {expected}\n")), "{hint}");
}
