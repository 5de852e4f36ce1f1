//! Tests of writing recorded files to the disk, whatever is there.

use std::fs;

use super::*;

/// Writes something to a directory that an action may write.
fn put(home: &Path, path: &str, expected: PathContent, text: Option<&str>) -> PlacementOutcome {
    let bytes = text.map(str::as_bytes);
    let content = match bytes {
        Some(bytes) => PathContent::File {
            digest: digest_of(bytes),
            bytes: bytes.len() as u64,
        },
        None => PathContent::Directory,
    };
    let grant = DirGrant {
        host: home.into(),
        guest: "/out".into(),
        access: Access::Write,
        max_bytes: None,
    };
    let placement = Placement {
        path: home.join(path).to_string_lossy().into_owned(),
        expected,
        content,
    };
    let directories = Directories::new(Path::new("/team"), [&grant].into_iter());
    directories.place(&placement, bytes, |_| false).unwrap()
}

#[test]
fn a_file_whose_bytes_are_not_there_is_left_out_and_what_lies_there_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let grant = DirGrant {
        host: home.path().into(),
        guest: "/out".into(),
        access: Access::Write,
        max_bytes: None,
    };
    let directories = Directories::new(Path::new("/team"), [&grant].into_iter());
    let content = PathContent::File {
        digest: digest_of(b"text"),
        bytes: 4,
    };
    let path = home.path().join("a/f");
    let path = path.to_str().unwrap();
    let placement = Placement {
        path: path.into(),
        expected: PathContent::Absent,
        content,
    };
    let place = || directories.place(&placement, None, |_| false).unwrap();
    fs::write(home.path().join("a"), "mine").unwrap();
    assert_eq!(place(), PlacementOutcome::ContentMissing);
    assert_eq!(fs::read_to_string(home.path().join("a")).unwrap(), "mine");
    fs::remove_file(home.path().join("a")).unwrap();
    fs::create_dir(home.path().join("a")).unwrap();
    fs::write(path, "other").unwrap();
    assert_eq!(place(), PlacementOutcome::ContentMissing);
    assert_eq!(fs::read_to_string(path).unwrap(), "other");
    fs::write(path, "text").unwrap();
    assert_eq!(place(), PlacementOutcome::Written);
}

#[test]
fn a_name_that_no_file_system_takes_holds_nothing_up() {
    let home = tempfile::tempdir().unwrap();
    let grant = DirGrant {
        host: home.path().join("new"),
        guest: "/out".into(),
        access: Access::Write,
        max_bytes: None,
    };
    let directories = Directories::new(Path::new("/team"), [&grant].into_iter());
    for name in ["n".repeat(256), format!("{}/f", "n".repeat(300))] {
        let content = PathContent::File {
            digest: digest_of(b"text"),
            bytes: 4,
        };
        let path = grant.host.join(name).to_str().unwrap().to_owned();
        let placement = Placement {
            path,
            expected: PathContent::Absent,
            content,
        };
        assert_eq!(
            directories
                .place(&placement, Some(b"text"), |_| false)
                .unwrap(),
            PlacementOutcome::InvalidName
        );
    }
}

#[test]
fn what_lies_deeper_than_any_action_may_write_is_not_put_there_whatever_the_records_say() {
    let home = tempfile::tempdir().unwrap();
    let deep = |levels: usize| format!("{}x", "d/".repeat(levels - 1));
    assert_eq!(
        put(
            home.path(),
            &deep(MAX_LEVELS),
            PathContent::Absent,
            Some("text")
        ),
        PlacementOutcome::Written
    );
    assert_eq!(
        fs::read_to_string(home.path().join(deep(MAX_LEVELS))).unwrap(),
        "text"
    );
    assert_eq!(
        put(
            home.path(),
            &deep(MAX_LEVELS + 1),
            PathContent::Absent,
            Some("text")
        ),
        PlacementOutcome::NotGranted
    );
}

#[test]
fn what_is_in_the_way_of_a_directory_is_kept_beside_it() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir(home.path().join("a")).unwrap();
    fs::write(home.path().join("a/b"), "mine").unwrap();
    let PlacementOutcome::OtherKept(aside) =
        put(home.path(), "a/b/c/d", PathContent::Absent, Some("text"))
    else {
        panic!("nothing was set aside");
    };
    assert_eq!(
        fs::read_to_string(home.path().join("a").join(aside)).unwrap(),
        "mine"
    );
    assert_eq!(
        fs::read_to_string(home.path().join("a/b/c/d")).unwrap(),
        "text"
    );
}

#[test]
fn runs_that_write_the_same_files_at_once_fail_neither_and_lose_nothing_of_others() {
    let home = tempfile::tempdir().unwrap();
    let texts = ["one", "two", "three", "four"];
    std::thread::scope(|scope| {
        for text in texts {
            scope.spawn(|| {
                for round in 0..50 {
                    put(
                        home.path(),
                        &format!("file-{round}"),
                        PathContent::Absent,
                        Some(text),
                    );
                    let nested = if text.len() == 3 {
                        "path"
                    } else {
                        "path/below"
                    };
                    put(home.path(), nested, PathContent::Absent, Some(text));
                }
            });
        }
    });
    for round in 0..50 {
        let named = |name: &str| fs::read_to_string(home.path().join(name)).ok();
        let kept = |text: &&str| {
            named(&format!(
                "file-{round}.kept-{}",
                &digest_of(text.as_bytes()).0[..8]
            ))
        };
        let mut there: Vec<String> = texts
            .iter()
            .filter_map(kept)
            .chain(named(&format!("file-{round}")))
            .collect();
        there.sort();
        there.dedup();
        assert!(
            !there.is_empty() && there.iter().all(|text| texts.contains(&text.as_str())),
            "{there:?}"
        );
    }
    let names: Vec<_> = fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        names
            .iter()
            .all(|name| !name.to_string_lossy().contains("partial")),
        "{names:?}"
    );
}

#[test]
fn what_is_kept_is_kept_once() {
    let home = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        fs::write(home.path().join("file"), "mine").unwrap();
        let PlacementOutcome::OtherKept(aside) =
            put(home.path(), "file", PathContent::Absent, Some("text"))
        else {
            panic!("nothing was kept");
        };
        assert_eq!(fs::read_to_string(home.path().join(aside)).unwrap(), "mine");
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
}

#[test]
fn a_file_takes_the_place_of_a_directory_that_was_left_empty() {
    let home = tempfile::tempdir().unwrap();
    let (ours, full) = (home.path().join("ours"), home.path().join("full"));
    fs::create_dir(&ours).unwrap();
    assert_eq!(
        put(home.path(), "ours", PathContent::Directory, Some("text")),
        PlacementOutcome::Written
    );
    assert_eq!(fs::read_to_string(&ours).unwrap(), "text");
    // Files of others in the directory are kept.
    fs::create_dir(&full).unwrap();
    fs::write(full.join("file"), "mine").unwrap();
    assert_eq!(
        put(home.path(), "full", PathContent::Directory, Some("text")),
        PlacementOutcome::OtherKept("full.kept-other".into())
    );
    assert_eq!(
        fs::read_to_string(home.path().join("full.kept-other/file")).unwrap(),
        "mine"
    );
}

#[test]
fn what_is_set_aside_has_a_name_that_file_systems_take() {
    for long in ["n".repeat(250), "ö".repeat(127)] {
        let home = tempfile::tempdir().unwrap();
        for end in [".kept-other", ".kept-other-2"] {
            fs::create_dir_all(home.path().join(&long)).unwrap();
            let PlacementOutcome::OtherKept(aside) =
                put(home.path(), &long, PathContent::Absent, Some("text"))
            else {
                panic!("nothing was set aside");
            };
            assert!(
                aside.starts_with(&long[..200]) && aside.ends_with(end) && aside.len() <= 255,
                "{aside}"
            );
            assert!(home.path().join(aside).is_dir());
            fs::remove_file(home.path().join(&long)).unwrap();
        }
    }
}

#[test]
fn what_the_host_saves_is_neither_replaced_nor_moved_out_of_the_way() {
    let home = tempfile::tempdir().unwrap();
    let storage = home.path().join("workspace/team");
    fs::create_dir_all(&storage).unwrap();
    fs::write(storage.join("team.db"), "saved").unwrap();
    let grant = DirGrant {
        host: home.path().into(),
        guest: "/w".into(),
        access: Access::Write,
        max_bytes: None,
    };
    let directories = Directories::new(Path::new("/team"), [&grant].into_iter())
        .hiding(HiddenStorage::new(vec![storage.clone()]));
    let place = |path: &str, content: PathContent| {
        let path = home.path().join(path).to_string_lossy().into_owned();
        directories
            .place(
                &Placement {
                    path,
                    expected: PathContent::Absent,
                    content,
                },
                Some(b"junk"),
                |_| true,
            )
            .unwrap()
    };
    let file = || PathContent::File {
        digest: digest_of(b"junk"),
        bytes: 4,
    };
    for path in [
        "workspace",
        "workspace/team",
        "workspace/team/team.db",
        "workspace/team/new",
    ] {
        assert_eq!(place(path, file()), PlacementOutcome::NotGranted, "{path}");
    }
    assert_eq!(
        place("workspace/team/team.db", PathContent::Absent),
        PlacementOutcome::NotGranted
    );
    assert_eq!(place("workspace/other", file()), PlacementOutcome::Written);
    assert_eq!(
        fs::read_to_string(storage.join("team.db")).unwrap(),
        "saved"
    );
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
}

#[test]
fn a_granted_directory_that_became_a_file_is_a_place_in_the_one_that_holds_it() {
    let home = tempfile::tempdir().unwrap();
    let of = |host: &str| DirGrant {
        host: home.path().join(host),
        guest: "/o".into(),
        access: Access::Write,
        max_bytes: None,
    };
    fs::create_dir(home.path().join("out")).unwrap();
    fs::write(home.path().join("out/sub"), "mine").unwrap();
    let content = PathContent::File {
        digest: digest_of(b"text"),
        bytes: 4,
    };
    let path = home.path().join("out/sub/x").to_string_lossy().into_owned();
    let placement = Placement {
        path,
        expected: PathContent::Absent,
        content,
    };
    let place = |grants: &[DirGrant]| {
        Directories::new(Path::new("/team"), grants.iter())
            .place(&placement, Some(b"text"), |_| false)
    };
    assert!(place(&[of("out/sub")]).is_err());
    assert!(matches!(
        place(&[of("out"), of("out/sub")]),
        Ok(PlacementOutcome::OtherKept(_))
    ));
    assert_eq!(
        fs::read_to_string(home.path().join("out/sub/x")).unwrap(),
        "text"
    );
}
