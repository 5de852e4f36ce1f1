//! Tests of grants: what is not granted is refused with a hint, and what is granted works but
//! allows nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use strata_core::record::fault::FaultKind;
use strata_core::record::file::FileChange;
use strata_core::state::environment::files::Placement;
use strata_host::plugin::{Access, DirGrant, Grants, Limits, LlmGrant};
use strata_host::sandbox::{AttemptOutput, Directories, PlacementOutcome, ReturnValue};

use crate::driver::{call, limits, plugin, run, run_within};
use crate::guest::{self, Guest};

/// Runs a guest with grants. Returns its text, or the kind and message of its fault.
pub fn run_with_grants(guest: &[u8], grants: Grants) -> Result<String, (FaultKind, String)> {
    let mut plugin = plugin(limits());
    let dirs = grants.dirs.clone();
    plugin.grants = grants;
    match run(call(guest, plugin)).result {
        Ok(returned) => match place_files(returned, &dirs) {
            ReturnValue::Output(draft) => Ok(draft.content),
            other => panic!("not an output: {other:?}"),
        },
        Err(fault) => Err((fault.kind, fault.message)),
    }
}

/// Writes the guest's files to the disk, as the driver does after recording them, and returns the
/// guest's value.
fn place_files(returned: AttemptOutput, grants: &[DirGrant]) -> ReturnValue {
    let directories = Directories::new(Path::new(""), grants.iter());
    for FileChange {
        path,
        before,
        after,
    } in returned.files
    {
        let bytes = after.digest().map(|digest| returned.blobs[digest].clone());
        let placement = Placement {
            path,
            expected: before,
            content: after,
        };
        let placed = directories.place(&placement, bytes.as_deref(), |_| false);
        assert_eq!(placed.expect("it can be placed"), PlacementOutcome::Written);
    }
    returned.value
}

pub fn dirs(grants: &[(&Path, &str, Access)]) -> Grants {
    let dir = |(host, guest, access): &(&Path, &str, Access)| DirGrant {
        host: host.to_path_buf(),
        guest: (*guest).to_owned(),
        access: *access,
        max_bytes: None,
    };
    Grants {
        dirs: grants.iter().map(dir).collect(),
        ..Grants::default()
    }
}

pub fn read(path: &str) -> Vec<u8> {
    let length = path.len();
    guest::with(
        &format!(r#"(data (i32.const 4096) "{path}")"#),
        &format!(
            "(call $read (i32.const 4096) (i32.const {length}) (i32.const 2048)) (call $told (i32.const 0))"
        ),
    )
}

fn write(path: &str) -> Vec<u8> {
    let length = path.len();
    guest::with(
        &format!(r#"(data (i32.const 4096) "{path}")"#),
        &format!(
            "(call $write (i32.const 4096) (i32.const {length}) (i32.const 640) (i32.const 5) (i32.const 2048))
             (if (i32.load8_u (i32.const 2048)) (then (return (call $told (i32.const 0)))))
             (call $ok (i32.const 640) (i32.const 5))"
        ),
    )
}

/// Returns a guest that joins the names in a directory.
fn list(path: &str) -> Vec<u8> {
    let length = path.len();
    guest::with(
        &format!(r#"(data (i32.const 4096) "{path}")"#),
        &format!(
            "(local $at i32) (local $end i32) (local $to i32)
             (call $list (i32.const 4096) (i32.const {length}) (i32.const 2048))
             (if (i32.load8_u (i32.const 2048)) (then (return (call $told (i32.const 0)))))
             (local.set $to (i32.const 5000))
             (local.set $at (i32.load (i32.const 2052)))
             (local.set $end (i32.add (local.get $at) (i32.shl (i32.load (i32.const 2056)) (i32.const 3))))
             (block $done (loop $again
                (br_if $done (i32.eq (local.get $at) (local.get $end)))
                (memory.copy (local.get $to) (i32.load (local.get $at)) (i32.load (i32.add (local.get $at) (i32.const 4))))
                (local.set $to (i32.add (local.get $to) (i32.load (i32.add (local.get $at) (i32.const 4)))))
                (i32.store8 (local.get $to) (i32.const 32))
                (local.set $to (i32.add (local.get $to) (i32.const 1)))
                (local.set $at (i32.add (local.get $at) (i32.const 8)))
                (br $again)))
             (call $ok (i32.const 5000) (i32.sub (local.get $to) (i32.const 5000)))"
        ),
    )
}

/// Returns a guest that sends one empty request to a model, whose name is optional.
pub fn ask(model: Option<&str>) -> Vec<u8> {
    let (has_name, name) = (u32::from(model.is_some()), model.unwrap_or_default());
    let length = name.len();
    Guest {
        items: &format!(
            r#"(data (i32.const 4200) "{name}")
            (func $ask
                (i32.store (i32.const 4096) (i32.const {has_name}))
                (i32.store (i32.const 4100) (i32.const 4200))
                (i32.store (i32.const 4104) (i32.const {length}))
                (call $complete (i32.const 4096) (i32.const 2048)))"#
        ),
        // In a reply, the text follows the list of parts.
        run: "(call $ask) (call $told (i32.const 8))",
        ..Guest::default()
    }
    .build()
}

#[test]
fn files_outside_of_the_granted_directories_are_denied() {
    let home = tempfile::tempdir().unwrap();
    let (inside, secret) = (home.path().join("in"), home.path().join("secret"));
    fs::create_dir_all(inside.join("deep")).unwrap();
    fs::write(&secret, "secret").unwrap();
    fs::write(inside.join("a"), "text a").unwrap();
    fs::write(inside.join("deep/b"), "text b").unwrap();
    symlink(&secret, inside.join("absolute")).unwrap();
    symlink("../secret", inside.join("upward")).unwrap();
    symlink("deep/b", inside.join("within")).unwrap();
    let check = |path: &str, expected: Result<&str, (FaultKind, &str)>| {
        let got = run_with_grants(&read(path), dirs(&[(&inside, "/in", Access::Read)]));
        match (&got, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected),
            (Err((kind, message)), Err((expected, part))) => {
                assert_eq!(*kind, expected, "{path}: {message}");
                assert!(message.contains(part), "{path}: {message}");
                assert!(
                    !message.contains(home.path().to_str().unwrap()),
                    "{message}"
                );
            }
            _ => panic!("{path}: {got:?}"),
        }
    };
    check("/in/a", Ok("text a"));
    check("/in/deep/../a", Ok("text a"));
    check("/in//deep/./b", Ok("text b"));
    check("/in/within", Ok("text b"));
    check("/in/absolute", Err((FaultKind::Denied, "outside")));
    check("/in/upward", Err((FaultKind::Denied, "outside")));
    check("/in/../secret", Err((FaultKind::Denied, "outside")));
    check("/in/../in/a", Err((FaultKind::Denied, "outside")));
    check(
        "/etc/passwd",
        Err((
            FaultKind::Denied,
            "lies in no granted directory; add the directory",
        )),
    );
    check(
        "/inside",
        Err((FaultKind::Denied, "lies in no granted directory")),
    );
    check(
        "/in/none",
        Err((
            FaultKind::Error,
            "cannot read `/in/none`: it does not exist",
        )),
    );
    check("/in/deep", Err((FaultKind::Error, "is not a regular file")));
    check("in/a", Err((FaultKind::Denied, "paths are absolute")));
    check("../secret", Err((FaultKind::Denied, "paths are absolute")));
    check("", Err((FaultKind::Denied, "paths are absolute")));
}

#[test]
fn a_pipe_or_a_file_larger_than_the_guests_memory_is_not_read() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    fs::File::create(home.path().join("large"))
        .unwrap()
        .set_len(100 << 20)
        .unwrap();
    let grants = || dirs(&[(home.path(), "/in", Access::Read)]);
    let (_, message) = run_with_grants(&read("/in/pipe"), grants()).unwrap_err();
    assert_eq!(message, "`/in/pipe` is not a regular file");
    let (_, message) = run_with_grants(&read("/in/large"), grants()).unwrap_err();
    assert_eq!(
        message,
        "`/in/large` is larger than the 8 MiB of `limits.memory`"
    );
}

#[test]
fn the_longest_grant_decides_and_writing_needs_its_own() {
    let home = tempfile::tempdir().unwrap();
    let (inside, out) = (home.path().join("in"), home.path().join("not/yet/there"));
    fs::create_dir(&inside).unwrap();
    let grants = || {
        dirs(&[
            (&inside, "/in", Access::Read),
            (&out, "/in/out", Access::Write),
        ])
    };
    assert_eq!(
        run_with_grants(&write("/in/out/x/y/z"), grants()).unwrap(),
        "guest"
    );
    assert_eq!(fs::read(out.join("x/y/z")).unwrap(), b"guest");
    assert_eq!(fs::read_dir(out.join("x/y")).unwrap().count(), 1);
    assert_eq!(
        run_with_grants(&read("/in/out/x/y/z"), grants()).unwrap(),
        "guest"
    );

    let (kind, message) = run_with_grants(&write("/in/a"), grants()).unwrap_err();
    assert_eq!(kind, FaultKind::Denied);
    assert_eq!(
        message,
        "cannot write `/in/a`: `/in` is granted for reading; add `write = true`"
    );
    let (kind, _) = run_with_grants(&write("/in/out/../a"), grants()).unwrap_err();
    assert_eq!(kind, FaultKind::Denied);
    let (_, message) = run_with_grants(&write("/in/out"), grants()).unwrap_err();
    assert_eq!(message, "`/in/out` does not name a file");
    let (_, message) = run_with_grants(&write("/in/out/x"), grants()).unwrap_err();
    assert!(
        message.starts_with("cannot write `/in/out/x`: "),
        "{message}"
    );
    assert_eq!(
        fs::read_dir(&out).unwrap().count(),
        1,
        "nothing is left of what failed"
    );
}

#[test]
fn a_directory_grows_no_larger_than_granted() {
    let home = tempfile::tempdir().unwrap();
    let within = |limit: u64, path: &str| {
        let mut grants = dirs(&[(home.path(), "/out", Access::Write)]);
        grants.dirs[0].max_bytes = Some(limit);
        run_with_grants(&write(path), grants)
    };
    // Each file has the five bytes of `guest`. What a link leads to is not counted.
    symlink("/etc", home.path().join("etc")).unwrap();
    assert_eq!(within(10, "/out/a").unwrap(), "guest");
    assert_eq!(within(10, "/out/deep/b").unwrap(), "guest");
    assert_eq!(
        within(10, "/out/a").unwrap(),
        "guest",
        "a file makes room for the one that replaces it"
    );
    let (kind, message) = within(10, "/out/c").unwrap_err();
    assert_eq!(kind, FaultKind::Denied);
    assert_eq!(
        message,
        "cannot write `/out/c`: the directory would hold 15 bytes, and 10 bytes are granted; raise `max_size` of \
         `/out` in `allow.dirs`"
    );
    assert!(!home.path().join("c").exists());
    assert_eq!(within(15, "/out/c").unwrap(), "guest");
}

#[test]
fn a_path_leads_no_deeper_than_sixty_four_levels() {
    let home = tempfile::tempdir().unwrap();
    let grants = || dirs(&[(home.path(), "/out", Access::Write)]);
    let deep = |levels: usize| format!("/out/{}x", "d/".repeat(levels - 1));
    assert_eq!(
        run_with_grants(&write(&deep(64)), grants()).unwrap(),
        "guest"
    );
    assert_eq!(
        fs::read(home.path().join(&deep(64)["/out/".len()..])).unwrap(),
        b"guest"
    );
    assert_eq!(
        run_with_grants(&read(&deep(64)), grants()).unwrap(),
        "guest"
    );
    for levels in [65, 600] {
        let (kind, message) = run_with_grants(&write(&deep(levels)), grants()).unwrap_err();
        assert_eq!(kind, FaultKind::Error);
        assert!(
            message.ends_with("is not a path: more than 64 names below `/out`"),
            "{message}"
        );
    }
}

#[test]
fn a_name_is_no_longer_than_file_systems_take_whether_its_directory_is_there_or_not() {
    let home = tempfile::tempdir().unwrap();
    for there in [home.path().to_owned(), home.path().join("not-yet")] {
        let grants = || dirs(&[(&there, "/out", Access::Write)]);
        let fits = format!("/out/{}", "n".repeat(255));
        assert_eq!(run_with_grants(&write(&fits), grants()).unwrap(), "guest");
        for long in [
            "n".repeat(256),
            "ü".repeat(128),
            format!("{}/f", "n".repeat(300)),
        ] {
            let (kind, message) =
                run_with_grants(&write(&format!("/out/{long}")), grants()).unwrap_err();
            assert_eq!(kind, FaultKind::Error);
            assert!(
                message.ends_with("a name in it is longer than 255 bytes"),
                "{message}"
            );
        }
    }
}

#[test]
fn a_directory_is_listed_sorted_with_its_directories_marked() {
    let home = tempfile::tempdir().unwrap();
    for name in ["b", "a", "c"] {
        fs::write(home.path().join(name), "").unwrap();
    }
    fs::create_dir(home.path().join("dir")).unwrap();
    let grants = || dirs(&[(home.path(), "/in", Access::Read)]);
    assert_eq!(
        run_with_grants(&list("/in"), grants()).unwrap(),
        "a b c dir/ "
    );
    assert_eq!(run_with_grants(&list("/in/dir"), grants()).unwrap(), "");
    let (_, message) = run_with_grants(&list("/in/a"), grants()).unwrap_err();
    assert!(message.starts_with("cannot list `/in/a`: "), "{message}");
    let (kind, _) = run_with_grants(&list("/"), grants()).unwrap_err();
    assert_eq!(kind, FaultKind::Denied);
}

#[test]
fn models_are_denied_unless_granted() {
    let check = |grant: Option<(&[&str], Option<u32>)>,
                 model: Option<&str>,
                 expected: Result<&str, &str>| {
        let llm = grant.map(|(models, calls)| {
            let models = models.iter().map(|&model| model.to_owned()).collect();
            LlmGrant {
                models,
                calls,
                ..LlmGrant::default()
            }
        });
        let got = run_with_grants(
            &ask(model),
            Grants {
                llm,
                ..Grants::default()
            },
        );
        match (&got, expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected),
            (Err((FaultKind::Denied, message)), Err(part)) => {
                assert!(message.contains(part), "{message}")
            }
            _ => panic!("{grant:?} {model:?}: {got:?}"),
        }
    };
    check(None, None, Err("no language model is granted; add `llm`"));
    check(Some((&["*"], None)), None, Ok("yes"));
    check(Some((&["small-*"], None)), Some("small-1"), Ok("yes"));
    check(
        Some((&["small-*"], None)),
        Some("large"),
        Err("model `large` is not granted"),
    );
    let llm = |default: &str| LlmGrant {
        models: vec!["small-*".into()],
        default: vec![default.into()],
        names: [default.into()].into(),
        ..LlmGrant::default()
    };
    let unnamed = |default| {
        run_with_grants(
            &ask(None),
            Grants {
                llm: Some(llm(default)),
                ..Grants::default()
            },
        )
    };
    assert_eq!(unnamed("small-1").unwrap(), "yes");
    assert!(
        unnamed("large")
            .unwrap_err()
            .1
            .contains("model `large` is not granted")
    );
    check(
        Some((&["*"], Some(0))),
        None,
        Err("all granted calls (0) are used up"),
    );
    check(Some((&["*"], Some(1))), None, Ok("yes"));
}

#[test]
fn what_a_guest_prints_is_in_its_log_and_cut_like_it() {
    let print =
        "(call $wasi_write (local.get $out) (i32.const 640) (i32.const 5) (i32.const 2048))";
    let run = format!(
        "(local $n i32) (local $out i32) (local.set $out (call $wasi_stdout)) (loop $again {print}
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $again (i32.lt_u (local.get $n) (i32.const 3)))) unreachable"
    );
    let fault = run_within(limits(), &guest::wasi(&run)).result.unwrap_err();
    assert_eq!(fault.log, ["guestguestguest"]);
    // A million lines only cost processor time.
    let flood = format!(
        "(local $out i32) (local.set $out (call $wasi_stdout)) (loop $again {print} (br $again)) unreachable"
    );
    let cpu = Duration::from_millis(100);
    let fault = run_within(Limits { cpu, ..limits() }, &guest::wasi(&flood))
        .result
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::Cpu);
    assert!(
        fault.log.len() <= 21 && fault.log[0].starts_with("log limit"),
        "{:?}",
        fault.log
    );
}

#[test]
fn wasi_gives_only_what_is_granted_and_the_same_randomness_in_each_attempt() {
    let random =
        "(i64.store (i32.const 4096) (i64.and (call $wasi_random) (i64.const 0x0f0f0f0f0f0f0f0f)))
        (call $ok (i32.const 4096) (i32.const 8))";
    let guest = guest::wasi(random);
    let first = run_with_grants(&guest, Grants::default()).unwrap();
    assert_eq!(run_with_grants(&guest, Grants::default()).unwrap(), first);
    let mut other = call(&guest, plugin(limits()));
    other.seed = "run/0/R/1".into();
    let ReturnValue::Output(draft) = run(other).result.unwrap().value else {
        panic!("not an output");
    };
    assert_ne!(draft.content, first);

    // Returns the number of equal pairs among the three sources as a digit.
    let sources = guest::wasi(
        "(local $random i64) (local $insecure i64)
         (local.set $random (call $wasi_random)) (local.set $insecure (call $wasi_insecure))
         (call $wasi_seed (i32.const 2048))
         (i32.store8 (i32.const 4096) (i32.add (i32.const 48) (i32.add
            (i64.eq (local.get $random) (local.get $insecure)) (i32.add
            (i64.eq (local.get $random) (i64.load (i32.const 2048)))
            (i64.eq (local.get $insecure) (i64.load (i32.const 2048)))))))
         (call $ok (i32.const 4096) (i32.const 1))",
    );
    assert_eq!(run_with_grants(&sources, Grants::default()).unwrap(), "0");

    // Returns the numbers of variables and directories as one digit each.
    let count = guest::wasi(
        "(call $wasi_environment (i32.const 2048)) (call $wasi_directories (i32.const 2056))
         (i32.store8 (i32.const 4096) (i32.add (i32.const 48) (i32.load (i32.const 2052))))
         (i32.store8 (i32.const 4097) (i32.add (i32.const 48) (i32.load (i32.const 2060))))
         (call $ok (i32.const 4096) (i32.const 2))",
    );
    assert_eq!(run_with_grants(&count, Grants::default()).unwrap(), "00");
    let home = tempfile::tempdir().unwrap();
    let mut grants = dirs(&[(home.path(), "/in", Access::Read)]);
    grants.env = vec!["PATH".into(), "A_VARIABLE_THAT_IS_NOT_THERE".into()];
    assert_eq!(run_with_grants(&count, grants).unwrap(), "11");
}

#[test]
fn a_guest_that_ends_itself_is_at_fault() {
    let fault = run_within(
        limits(),
        &guest::wasi("(call $wasi_exit (i32.const 1)) unreachable"),
    )
    .result
    .unwrap_err();
    assert_eq!(
        (fault.kind, fault.message.as_str()),
        (FaultKind::Trap, "the action ended itself with exit code 1")
    );
}
