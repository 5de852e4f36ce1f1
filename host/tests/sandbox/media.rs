//! Tests of images and files: what guests create, receive and pass on.

use std::sync::Arc;

use strata_core::record::conversation::{Media, MediaSource, Part};
use strata_core::record::fault::FaultKind;
use strata_core::record::message::Message;
use strata_host::blob::digest_of;
use strata_host::plugin::Limits;
use strata_host::sandbox::{ReturnValue, SandboxCall};

use crate::driver::{STORED_BYTES, call, limits, plugin, run, run_within};
use crate::guest::Guest;

/// Lays out a part at 4096: an image with the media type `image/png`. Its source is at 4120.
const IMAGE: &str = r#"
    (data (i32.const 5000) "image/png")
    (func $image
        (i32.store8 (i32.const 4096) (i32.const 1))
        (i32.store (i32.const 4100) (i32.const 5000)) (i32.store (i32.const 4104) (i32.const 9)))
    ;; The source of the image: its case, and a pointer with a length.
    (func $source (param $case i32) (param $at i32) (param $length i32)
        (i32.store8 (i32.const 4120) (local.get $case))
        (i32.store (i32.const 4124) (local.get $at)) (i32.store (i32.const 4128) (local.get $length)))
    ;; A result of `run` with these parts.
    (func $ok_parts (param $at i32) (param $count i32) (result i32)
        (i32.store (i32.const 1048) (local.get $at)) (i32.store (i32.const 1052) (local.get $count))
        (call $ok (i32.const 640) (i32.const 5)))"#;

/// Returns a guest that has a part and runs this.
fn guest(items: &str, body: &str) -> Vec<u8> {
    Guest {
        imports: r#"(import "strata:action/media@0.2.0" "load" (func $load (param i32 i32 i32)))"#,
        items: &format!("{IMAGE} {items}"),
        run: &format!("(call $image) {body}"),
        ..Guest::default()
    }
    .build()
}

/// Returns a call whose news have an image with the stored bytes.
fn call_with_image(guest: &[u8]) -> SandboxCall {
    let mut message = Message::from_user("m".into(), "see".into(), "UserRequirement".into());
    message.parts = vec![Part::Image(Media {
        media_type: "image/png".into(),
        name: None,
        source: MediaSource::Blob {
            digest: digest_of(STORED_BYTES),
            size: STORED_BYTES.len() as u64,
        },
    })];
    SandboxCall {
        news: vec![Arc::new(message)],
        ..call(guest, plugin(limits()))
    }
}

#[test]
fn an_image_is_returned_by_its_digest_and_with_its_bytes() {
    let guest = guest(
        "",
        "(call $source (i32.const 0) (i32.const 640) (i32.const 5)) (call $ok_parts (i32.const 4096) (i32.const 1))",
    );
    let returned = run(call(&guest, plugin(limits()))).result.unwrap();
    let ReturnValue::Output(draft) = &returned.value else {
        panic!("{returned:?}");
    };
    let image = Part::Image(Media {
        media_type: "image/png".into(),
        name: None,
        source: MediaSource::Blob {
            digest: digest_of(b"guest"),
            size: 5,
        },
    });
    assert_eq!(draft.parts, [image]);
    assert_eq!(returned.blobs[&digest_of(b"guest")][..], *b"guest");
}

#[test]
fn what_is_no_part_of_an_output_is_a_fault() {
    let body = |source: &str, parts: &str| format!("{source} (call $ok_parts {parts})");
    let one = "(i32.const 4096) (i32.const 1)";
    let cases = [
        (
            body("(i32.store8 (i32.const 4096) (i32.const 0))", one),
            "the output's part 0 is a text; texts belong in `content`",
        ),
        (
            body(
                "(call $source (i32.const 1) (i32.const 640) (i32.const 5))",
                one,
            ),
            "the output's part 0 is not acceptable: this attempt received no image and no file with the digest `guest`",
        ),
        (
            body(
                "(call $source (i32.const 2) (i32.const 640) (i32.const 5))",
                one,
            ),
            "the output's part 0 is not acceptable: `guest` is not a URL",
        ),
        (
            body("(i32.store (i32.const 4104) (i32.const 5))", one),
            "the output's part 0 is not acceptable: `image` is not a media type",
        ),
        (
            body("", "(i32.const 8192) (i32.const 65)"),
            "the output's `parts` are 65; at most 64 are taken",
        ),
    ];
    for (body, expected) in cases {
        let fault = run_within(limits(), &guest("", &body)).result.unwrap_err();
        assert_eq!(fault.kind, FaultKind::OutputInvalid, "{fault:?}");
        assert!(fault.message.starts_with(expected), "{}", fault.message);
    }
}

#[test]
fn the_bytes_of_images_count_toward_the_output() {
    let limits = Limits {
        output_bytes: 1000,
        ..limits()
    };
    let body = "(call $source (i32.const 0) (i32.const 8192) (i32.const 1001)) (call $ok_parts (i32.const 4096) (i32.const 1))";
    let fault = run_within(limits, &guest("", body)).result.unwrap_err();
    assert_eq!(fault.kind, FaultKind::OutputLimit, "{fault:?}");
    assert!(
        fault.message.contains("output reached by the output"),
        "{}",
        fault.message
    );
}

#[test]
fn what_was_received_is_loaded_and_passed_on_and_nothing_else() {
    let digest = digest_of(STORED_BYTES).0;
    let items = format!(r#"(data (i32.const 5100) "{digest}")"#);
    let load =
        "(call $load (i32.const 5100) (i32.const 64) (i32.const 2048)) (call $told (i32.const 0))";
    let loading = guest(&items, load);
    let loaded = run(call_with_image(&loading)).result.unwrap();
    let ReturnValue::Output(draft) = &loaded.value else {
        panic!("{loaded:?}");
    };
    assert_eq!(draft.content.as_bytes(), STORED_BYTES);
    let fault = run(call(&loading, plugin(limits()))).result.unwrap_err();
    assert!(
        fault.message.contains("this attempt received no image"),
        "{fault:?}"
    );

    let pass = "(call $source (i32.const 1) (i32.const 5100) (i32.const 64)) (call $ok_parts (i32.const 4096) (i32.const 1))";
    let call = call_with_image(&guest(&items, pass));
    let parts = call.news[0].parts.clone();
    let passed = run(call).result.unwrap();
    let ReturnValue::Output(draft) = &passed.value else {
        panic!("{passed:?}");
    };
    assert_eq!(draft.parts, parts);
    // Its bytes are stored already.
    assert!(passed.blobs.is_empty());
}
