//! Tests of guests that use WASI: clocks are the same in every attempt, and files are written when
//! the action succeeds.

use std::fs;
use std::time::Duration;

use strata_core::record::fault::{FaultKind, Retryability};
use strata_host::plugin::{Access, Grants, Limits};

use crate::driver::{call, limits, plugin, run, run_within};
use crate::grants::{dirs, run_with_grants};
use crate::guest::wasi_worker;

const SLEEP: &str = "(call $wasi_block (call $wasi_alarm (i64.const 20000000)))";

#[test]
fn clocks_begin_at_a_recorded_moment_and_go_on_by_what_the_guest_does() {
    // The second of the date, whether a sleep advances the clock, and the clock itself as letters.
    let run = format!(
        "(call $wasi_date (i32.const 4096))
         (i32.store8 (i32.const 4200) (i32.add (i32.const 48) (i32.wrap_i64 (i64.load (i32.const 4096)))))
         (local.set $time (call $wasi_now))
         {SLEEP}
         (i32.store8 (i32.const 4201) (i32.add (i32.const 48)
            (i64.ge_u (i64.sub (call $wasi_now) (local.get $time)) (i64.const 20000000))))
         (i64.store (i32.const 4202) (i64.or (i64.const 0x4040404040404040)
            (i64.and (call $wasi_now) (i64.const 0x0f0f0f0f0f0f0f0f))))
         (call $ok (i32.const 4200) (i32.const 10))"
    );
    let guest = wasi_worker("", &run);
    let first = run_with_grants(&guest, Grants::default()).unwrap();
    assert!(first.starts_with("11"), "{first}");
    assert_eq!(run_with_grants(&guest, Grants::default()).unwrap(), first);
}

#[test]
fn a_sleep_is_wall_time_and_ended_by_the_timeout() {
    let guest = wasi_worker(
        "",
        "(call $wasi_block (call $wasi_alarm (i64.const 3600000000000))) unreachable",
    );
    let timeout = Duration::from_millis(100);
    let fault = run_within(
        Limits {
            timeout,
            ..limits()
        },
        &guest,
    )
    .result
    .unwrap_err();
    assert_eq!(fault.kind, FaultKind::Timeout);
}

/// Returns a guest that writes `new`, removes `old`, and then runs `then`.
fn worker(then: &str) -> Vec<u8> {
    let items = r#"(data (i32.const 4096) "newoldlink")
        (func $timeless (param $at i32)
            (if (i32.load8_u (local.get $at)) (then unreachable))
            (if (i64.ne (i64.const 315619200) (i64.load offset=40 (local.get $at))) (then unreachable))
            (if (i64.ne (i64.const 315619200) (i64.load offset=64 (local.get $at))) (then unreachable))
            (if (i64.ne (i64.const 315619200) (i64.load offset=88 (local.get $at))) (then unreachable))
            (if (i64.ne (i64.load offset=24 (local.get $at)) (i64.const 5)) (then unreachable)))"#;
    let run = format!(
        "(call $wasi_open (local.get $dir) (i32.const 0) (i32.const 4096) (i32.const 3) (i32.const 9) (i32.const 2)
            (i32.const 2048))
         (if (i32.load8_u (i32.const 2048)) (then unreachable))
         (call $wasi_put (i32.load (i32.const 2052)) (i32.const 640) (i32.const 5) (i64.const 0) (i32.const 2064))
         (if (i32.load8_u (i32.const 2064)) (then unreachable))
         (call $wasi_unlink (local.get $dir) (i32.const 4099) (i32.const 3) (i32.const 2048))
         (if (i32.load8_u (i32.const 2048)) (then unreachable))
         {then}"
    );
    wasi_worker(items, &run)
}

#[test]
fn files_are_written_with_the_action_or_not_at_all() {
    const OK: &str = "(call $ok (i32.const 640) (i32.const 5))";
    const LINK: &str = "(call $wasi_link (local.get $dir) (i32.const 4099) (i32.const 3) (i32.const 4102) (i32.const 4)
        (i32.const 2048)) (if (i32.load8_u (i32.const 2048)) (then unreachable)) (call $ok (i32.const 640) (i32.const 5))";
    let check = |then: &str, expected: Result<(), (FaultKind, &str)>| {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("old"), "old").unwrap();
        fs::write(home.path().join("same"), "same").unwrap();
        let got = run_with_grants(&worker(then), dirs(&[(home.path(), "/out", Access::Write)]));
        let left = |name: &str| fs::read_to_string(home.path().join(name)).ok();
        assert_eq!(left("same").as_deref(), Some("same"));
        match (got, expected) {
            (Ok(_), Ok(())) => {
                assert_eq!((left("new").as_deref(), left("old")), (Some("guest"), None))
            }
            (Err((kind, message)), Err((expected, part))) => {
                assert_eq!(kind, expected, "{message}");
                assert!(message.contains(part), "{message}");
                assert_eq!((left("new"), left("old").as_deref()), (None, Some("old")));
            }
            (got, _) => panic!("{got:?}"),
        }
    };
    check(OK, Ok(()));
    check("unreachable", Err((FaultKind::Trap, "unreachable")));
    check(LINK, Err((FaultKind::Host, "symbolic link")));
}

#[test]
fn a_file_tells_neither_the_time_of_the_machine_nor_the_numbers_of_its_file_system() {
    // All timestamps are the same. The hashes are the same in both ways, and are returned as letters.
    let run = worker(
        "(call $wasi_stat (i32.load (i32.const 2052)) (i32.const 4200)) (call $timeless (i32.const 4200))
         (call $wasi_stat_at (local.get $dir) (i32.const 0) (i32.const 4096) (i32.const 3) (i32.const 4200))
         (call $timeless (i32.const 4200))
         (call $wasi_hash (i32.load (i32.const 2052)) (i32.const 4400))
         (call $wasi_hash_at (local.get $dir) (i32.const 0) (i32.const 4096) (i32.const 3) (i32.const 4432))
         (if (i32.or (i32.load8_u (i32.const 4400)) (i32.load8_u (i32.const 4432))) (then unreachable))
         (if (i64.ne (i64.load (i32.const 4408)) (i64.load (i32.const 4440))) (then unreachable))
         (i64.store (i32.const 4464) (i64.or (i64.const 0x4040404040404040)
            (i64.and (i64.load (i32.const 4408)) (i64.const 0x0f0f0f0f0f0f0f0f))))
         (call $ok (i32.const 4464) (i32.const 8))",
    );
    let home = tempfile::tempdir().unwrap();
    let told = || {
        fs::write(home.path().join("old"), "old").unwrap();
        run_with_grants(&run, dirs(&[(home.path(), "/out", Access::Write)])).unwrap()
    };
    let first = told();
    // A new file gets the inode number of a removed one.
    fs::write(home.path().join("between"), "").unwrap();
    assert_eq!(told(), first);
}

/// Lists the first granted directory; the result is at 2048.
const LIST: &str = "(call $wasi_list (local.get $dir) (i32.const 2048))";
/// Returns code that stores the next name of the listing at 2052 as a letter, and its type.
fn next_to(at: u32) -> String {
    format!(
        "(call $wasi_next (i32.load (i32.const 2052)) (i32.const 2064))
         (if (i32.load8_u (i32.const 2064)) (then unreachable))
         (if (i32.load8_u (i32.const 2068)) (then
             (i32.store8 (i32.const {at}) (i32.load8_u (i32.load (i32.const 2076))))
             (i32.store8 (i32.const {}) (i32.add (i32.const 48) (i32.load8_u (i32.const 2072))))))",
        at + 1
    )
}

#[test]
fn a_directory_is_listed_sorted_and_with_what_is_in_it() {
    let steps = [4096, 4098, 4100, 4102].map(next_to).concat();
    let guest = wasi_worker(
        "",
        &format!("{LIST} {steps} (call $ok (i32.const 4096) (i32.const 6))"),
    );
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("z"), "").unwrap();
    fs::create_dir(home.path().join("m")).unwrap();
    fs::write(home.path().join("a"), "").unwrap();
    for access in [Access::Read, Access::Write] {
        assert_eq!(
            run_with_grants(&guest, dirs(&[(home.path(), "/in", access)])),
            Ok("a6m3z6".into())
        );
    }
}

#[test]
fn a_guest_holds_so_many_listings_and_no_more() {
    // Returns how many listings are opened before one is refused, as letters, and whether another
    // one can be opened after one is dropped.
    let run = format!(
        "(loop $again {LIST}
            (if (i32.eqz (i32.load8_u (i32.const 2048))) (then
                (i32.store (i32.const 4096) (i32.add (i32.const 1) (i32.load (i32.const 4096))))
                (i32.store (i32.const 4100) (i32.load (i32.const 2052)))
                (br $again))))
         (call $wasi_end_list (i32.load (i32.const 4100)))
         (i32.store8 (i32.const 4200) (i32.add (i32.const 65) (i32.shr_u (i32.load (i32.const 4096)) (i32.const 4))))
         (i32.store8 (i32.const 4201) (i32.add (i32.const 65) (i32.and (i32.load (i32.const 4096)) (i32.const 15))))
         {LIST} (i32.store8 (i32.const 4202) (i32.add (i32.const 48) (i32.load8_u (i32.const 2048))))
         (call $ok (i32.const 4200) (i32.const 3))"
    );
    let check = |files: usize, expected: &str| {
        let home = tempfile::tempdir().unwrap();
        (0..files).for_each(|i| fs::write(home.path().join(i.to_string()), "").unwrap());
        assert_eq!(
            run_with_grants(
                &wasi_worker("", &run),
                dirs(&[(home.path(), "/in", Access::Read)])
            ),
            Ok(expected.into())
        );
    };
    check(0, "EB0");
    check(1, "EB0");
    check(5_000, "AE0");
    check(10_000, "AC0");
}

#[test]
fn a_guest_has_so_many_files_open_and_no_more() {
    const OPEN: &str = "(call $wasi_open (local.get $dir) (i32.const 0) (i32.const 4096) (i32.const 3) (i32.const 0)
        (i32.const 1) (i32.const 2048))";
    let run = format!(
        "(loop $again {OPEN}
            (if (i32.eqz (i32.load8_u (i32.const 2048))) (then
                (i32.store (i32.const 4100) (i32.add (i32.const 1) (i32.load (i32.const 4100))))
                (i32.store (i32.const 4104) (i32.load (i32.const 2052)))
                (br $again))))
         (call $wasi_close (i32.load (i32.const 4104)))
         (i32.store8 (i32.const 4200) (i32.add (i32.const 65) (i32.shr_u (i32.load (i32.const 4100)) (i32.const 4))))
         (i32.store8 (i32.const 4201) (i32.add (i32.const 65) (i32.and (i32.load (i32.const 4100)) (i32.const 15))))
         {OPEN} (i32.store8 (i32.const 4202) (i32.add (i32.const 48) (i32.load8_u (i32.const 2048))))
         (call $ok (i32.const 4200) (i32.const 3))"
    );
    let guest = wasi_worker(r#"(data (i32.const 4096) "new")"#, &run);
    // A fraction of the limit of the process.
    let all = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let most = all.map_or(128, |all| (all / 16).clamp(16, 128)) as u8;
    let expected = String::from_utf8(vec![b'A' + (most >> 4), b'A' + (most & 15), b'0']).unwrap();
    for access in [Access::Read, Access::Write] {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("new"), "").unwrap();
        assert_eq!(
            run_with_grants(&guest, dirs(&[(home.path(), "/in", access)])),
            Ok(expected.clone())
        );
    }
}

/// Returns a guest that writes five bytes to `new` at an offset, and then runs `then`.
fn far_writer(offset: u64, then: &str) -> Vec<u8> {
    let items = r#"(data (i32.const 4096) "new")"#;
    let run = format!(
        "(call $wasi_open (local.get $dir) (i32.const 0) (i32.const 4096) (i32.const 3) (i32.const 9) (i32.const 2)
            (i32.const 2048))
         (call $wasi_put (i32.load (i32.const 2052)) (i32.const 640) (i32.const 5) (i64.const {offset}) (i32.const 2064))
         {then}"
    );
    wasi_worker(items, &run)
}

#[test]
fn a_directory_grows_no_larger_than_granted_whatever_a_guest_writes_with() {
    const OK: &str = "(call $ok (i32.const 640) (i32.const 5))";
    const SPIN: &str = "(loop $again (br $again)) unreachable";
    const MIB: u64 = 1 << 20;
    // The directory has seven bytes from the start.
    let check = |guest: &[u8], max_bytes: Option<u64>, expected: Result<(), &str>| {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join("old"), "old").unwrap();
        fs::write(home.path().join("same"), "same").unwrap();
        let mut grants = dirs(&[(home.path(), "/out", Access::Write)]);
        grants.dirs[0].max_bytes = max_bytes;
        match (run_with_grants(guest, grants), expected) {
            (Ok(_), Ok(())) => assert!(home.path().join("new").exists()),
            (Err((kind, message)), Err(part)) => {
                assert_eq!(kind, FaultKind::Host, "{message}");
                assert!(message.contains(part), "{message}");
                assert!(!home.path().join("new").exists() && home.path().join("old").exists());
            }
            (got, _) => panic!("{got:?}"),
        }
    };
    let full =
        "would hold 12 bytes, and 11 bytes are granted; raise `max_size` of `/out` in `allow.dirs`";
    check(&far_writer(0, OK), Some(12), Ok(()));
    check(&far_writer(0, OK), Some(11), Err(full));
    let ended = "ended as the directory came to hold more than 11 bytes; raise `max_size` of `/out` in `allow.dirs`";
    check(&far_writer(0, SPIN), Some(11), Err(ended));
    // A directory that is too large already may be changed, but must not grow.
    check(
        &far_writer(0, OK),
        Some(3),
        Err("would hold 12 bytes, and 7 bytes are granted"),
    );
    let far =
        "all writable directories together: ended as the directory came to hold more than 256 MiB";
    check(&far_writer(300 * MIB, SPIN), None, Err(far));
    check(
        &far_writer(300 * MIB, OK),
        None,
        Err("and 256 MiB are granted"),
    );
    check(
        &far_writer(100 * MIB, OK),
        None,
        Err("an action writes and replaces at most 64 MiB of files"),
    );
    // A file that is removed while it is open takes space until it is closed.
    check(
        &removed_writer(20 * MIB, SPIN),
        Some(10 * MIB),
        Err("more than 10 MiB; raise `max_size` of `/out`"),
    );
    check(&removed_writer(300 * MIB, SPIN), None, Err(far));
}

#[test]
fn a_pipe_is_not_opened_and_nobody_waits_for_its_other_end() {
    let items = r#"(data (i32.const 4096) "pipe")"#;
    let run =
        "(call $wasi_open (local.get $dir) (i32.const 1) (i32.const 4096) (i32.const 4) (i32.const 0) (i32.const 1)
            (i32.const 2048))
         (if (i32.eqz (i32.load8_u (i32.const 2048))) (then unreachable))
         (call $ok (i32.const 640) (i32.const 5))";
    let guest = wasi_worker(items, run);
    for access in [Access::Read, Access::Write] {
        let home = tempfile::tempdir().unwrap();
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            home.path().join("pipe"),
            rustix::fs::Mode::RWXU,
        )
        .unwrap();
        assert_eq!(
            run_with_grants(&guest, dirs(&[(home.path(), "/in", access)])),
            Ok("guest".into())
        );
    }
}

/// Returns a guest that creates a file in a new directory, removes it, still writes to it, and then
/// runs `then`.
fn removed_writer(offset: u64, then: &str) -> Vec<u8> {
    let items = r#"(data (i32.const 4096) "sub/")(data (i32.const 4112) "lost")"#;
    let run = format!(
        "(call $wasi_mkdir (local.get $dir) (i32.const 4096) (i32.const 3) (i32.const 2048))
         (if (i32.load8_u (i32.const 2048)) (then unreachable))
         (call $wasi_open (local.get $dir) (i32.const 0) (i32.const 4096) (i32.const 3) (i32.const 2) (i32.const 33)
            (i32.const 2048))
         (if (i32.load8_u (i32.const 2048)) (then unreachable))
         (local.set $dir (i32.load (i32.const 2052)))
         (call $wasi_open (local.get $dir) (i32.const 0) (i32.const 4112) (i32.const 4) (i32.const 9) (i32.const 2)
            (i32.const 2048))
         (if (i32.load8_u (i32.const 2048)) (then unreachable))
         (call $wasi_unlink (local.get $dir) (i32.const 4112) (i32.const 4) (i32.const 2064))
         (if (i32.load8_u (i32.const 2064)) (then unreachable))
         (call $wasi_put (i32.load (i32.const 2052)) (i32.const 640) (i32.const 5) (i64.const {offset}) (i32.const 2064))
         (if (i32.load8_u (i32.const 2064)) (then unreachable))
         {then}"
    );
    wasi_worker(items, &run)
}

#[test]
fn a_directory_that_is_too_large_to_be_copied_is_not_lent() {
    let guest = wasi_worker("", "(call $ok (i32.const 640) (i32.const 5))");
    let check = |fill: &dyn Fn(&std::path::Path)| {
        let home = tempfile::tempdir().unwrap();
        fill(home.path());
        let (kind, message) =
            run_with_grants(&guest, dirs(&[(home.path(), "/out", Access::Write)])).unwrap_err();
        assert_eq!(kind, FaultKind::Host);
        assert_eq!(
            message,
            "cannot stage `/out`: it holds more than 256 MiB or 10000 files; grant a smaller directory"
        );
        assert!(
            run_with_grants(&guest, dirs(&[(home.path(), "/out", Access::Read)])).is_ok(),
            "what is only read is not copied"
        );
    };
    check(&|home| {
        fs::File::create(home.join("large"))
            .unwrap()
            .set_len(300 << 20)
            .unwrap()
    });
    check(&|home| (0..=10_000).for_each(|i| fs::write(home.join(i.to_string()), "").unwrap()));
}

#[test]
fn a_directory_that_is_nested_too_deep_is_not_copied() {
    let guest = wasi_worker("", "(call $ok (i32.const 640) (i32.const 5))");
    let check = |levels: usize, expected: Result<String, (FaultKind, String)>| {
        let home = tempfile::tempdir().unwrap();
        fs::create_dir_all(home.path().join("d/".repeat(levels))).unwrap();
        assert_eq!(
            run_with_grants(&guest, dirs(&[(home.path(), "/out", Access::Write)])),
            expected,
            "{levels}"
        );
    };
    check(63, Ok("guest".into()));
    let deep = "cannot stage `/out`: the directory is nested deeper than 64 levels";
    check(65, Err((FaultKind::Host, deep.into())));
}

#[test]
fn copying_directories_is_wall_time_too() {
    let home = tempfile::tempdir().unwrap();
    (0..300).for_each(|i| fs::write(home.path().join(i.to_string()), "old").unwrap());
    let mut plugin = plugin(Limits {
        timeout: Duration::ZERO,
        ..limits()
    });
    plugin.grants = dirs(&[(home.path(), "/out", Access::Write)]);
    let guest = wasi_worker("", "(call $ok (i32.const 640) (i32.const 5))");
    let fault = run(call(&guest, plugin)).result.unwrap_err();
    assert_eq!(
        (fault.kind, fault.retryability),
        (FaultKind::Timeout, Retryability::Retryable)
    );
    assert!(
        fault.message.contains("; raise `limits.timeout`"),
        "{}",
        fault.message
    );
    assert!(
        fault
            .message
            .ends_with("\nits directories were still being copied"),
        "{}",
        fault.message
    );
}
