//! Tests with signatures that minisign created.

use std::fs;

use super::*;

const BYTES: &[u8] = b"the bytes of a component";
const OUR_KEY: &str = "RWR2eUnRyb7t+vFxIK9vMyg8Xn1bNM3677HoJHlnJ6tyyQxXVcUjUCPZ";
const OUR_ID: &str = "FAEDBEC9D1497976";
const OURS: &str = "untrusted comment: for a test
RUR2eUnRyb7t+rjJsMzDrCQ6uGRPK1gyOYEhx8kaHEWU7b8XBAFW1dnXSuc7ub6/vnegr7SIvFR+ewMGBQ/JVPQ20qmFSGZOzgU=
trusted comment: of a component
EjsmQ1cbbyuSHsdua7ty4NpbiaxdCEVKtIYALeiLnSADh499sUghNZZN+mks9kNLZrloTxeDaW74lqkBaO5rDg==
";
/// A signature of the same key over the bytes `other bytes`.
const OURS_OF_OTHER_BYTES: &str = "untrusted comment: for a test
RUR2eUnRyb7t+pXvf5KwNOm+lbcoaqGCvvhSM0SjGCjjhGMYT6LPFqIv44LW4nkaLFhm+rrAPO8iCUv1wRZ2lg32Uhr0sqawKg4=
trusted comment: of a component
D/aclZvBpwWWIXgtGs3bKcfSErcI2280swL6EnfunKDq3HtzS59tyG9RdJXI6HXKvYu08mjeyYM7gS/Y+wANDw==
";
const THEIR_KEY: &str = "RWRRCXfY4gRbCRlCfwxwFj/gOLxXThdNuXZZPdCyqv/raIAWbuR5v+R7";
const THEIR_ID: &str = "095B04E2D8770951";
const THEIRS: &str = "untrusted comment: for a test
RURRCXfY4gRbCWE6wEotHebz593RrvGvBvl4fYGGNUNjLPBMisIirrHToyC1/XWOkxqsbEEjo/RFMJuUhYd4R0TYfpnZywaGAQA=
trusted comment: of a component
wD7qIZw6v4JWCL5T3loMkA0pUuuVN+LkkZl7KdPns5o6q6VP8ivmcv6owIYa9fj/jExK7LkR2E3KQMd9b77ABg==
";

/// Returns the other key's signature with our key's id and this algorithm.
fn forged(algorithm: &[u8; ALGORITHM_BYTES]) -> String {
    let line = THEIRS.lines().nth(1).unwrap();
    let mut bytes = STANDARD.decode(line).unwrap();
    bytes[..ALGORITHM_BYTES].copy_from_slice(algorithm);
    bytes[ALGORITHM_BYTES..ALGORITHM_BYTES + ID_BYTES]
        .copy_from_slice(&TrustedKey::parse(OUR_KEY).unwrap().id.0.to_le_bytes());
    THEIRS.replace(line, &STANDARD.encode(bytes))
}

#[test]
fn only_bytes_that_a_trusted_key_has_signed_pass() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("a.wasm");
    let check = |keys: &[&str], signature: Option<&str>, expected: Result<(), &[&str]>| {
        match signature {
            Some(text) => fs::write(signature_path(&file), text).unwrap(),
            None => {
                let _ = fs::remove_file(signature_path(&file));
            }
        }
        let keys = TrustedKeys(
            keys.iter()
                .map(|key| TrustedKey::parse(key).unwrap())
                .collect(),
        );
        match (keys.check(&file, BYTES, &Digest("d1".into())), expected) {
            (Ok(()), Ok(())) => {}
            (Err(why), Err(expected)) => {
                let why = why.to_string();
                let named = ["a.wasm`", "sha256 `d1`"]
                    .iter()
                    .chain(expected)
                    .find(|part| !why.contains(**part));
                assert_eq!(named, None, "{why}");
                assert!(
                    keys.0
                        .iter()
                        .all(|key| why.contains(&format!("`{}`", key.id))),
                    "{why}"
                );
            }
            (got, expected) => panic!("{got:?}, expected {expected:?}"),
        }
    };
    check(&[OUR_KEY], Some(OURS), Ok(()));
    check(&[THEIR_KEY, OUR_KEY], Some(OURS), Ok(()));
    check(&[THEIR_KEY, OUR_KEY], Some(THEIRS), Ok(()));
    check(&[], None, Ok(()));
    check(
        &[OUR_KEY],
        Some(THEIRS),
        Err(&["signed with the key", THEIR_ID]),
    );
    check(
        &[THEIR_KEY],
        Some(OURS),
        Err(&["signed with the key", OUR_ID]),
    );
    check(
        &[THEIR_KEY, OUR_KEY],
        None,
        Err(&["there is no signature `"]),
    );
    check(&[OUR_KEY], Some(""), Err(&["cannot be read"]));
    check(
        &[OUR_KEY],
        Some(&"x".repeat(1 << 20)),
        Err(&["cannot be read"]),
    );
    let wrong: &[&str] = &[OUR_ID, "was made for other bytes, or not with that key"];
    check(&[OUR_KEY], Some(OURS_OF_OTHER_BYTES), Err(wrong));
    check(&[OUR_KEY], Some(&forged(b"ED")), Err(wrong));
    check(&[OUR_KEY], Some(&forged(b"Ed")), Err(&["old format"]));
    // The signature also covers the trusted comment.
    check(
        &[OUR_KEY],
        Some(&OURS.replace("trusted comment: of", "trusted comment: not of")),
        Err(wrong),
    );
}

#[test]
fn a_key_is_known_by_what_minisign_shows() {
    let id = |key: &str| TrustedKey::parse(key).unwrap().id.to_string();
    assert_eq!([id(OUR_KEY), id(THEIR_KEY)], [OUR_ID, THEIR_ID]);
    for wrong in ["", "RW", "no base64", &STANDARD.encode([0; 42])] {
        assert!(TrustedKey::parse(wrong).is_err(), "{wrong}");
    }
}
