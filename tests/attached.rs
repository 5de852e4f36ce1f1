//! `run --file` and `send --file`: images and files of an idea and of messages, in a run that is
//! resumed, moved and reported.

use std::fs;

use crate::process::Ended;
use crate::workspace::Workspace;

/// The first bytes of a PNG image, by which it is recognized.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\npixels";

/// A role that outputs the parts that it received, with their bytes.
const TEAM: &str = r#"schema = "strata.team/1"
[team]
name = "attached"
[[role]]
name = "Looks"
watch = ["UserRequirement"]
[[role.action]]
name = "Look"
script = "look.py"
"#;

const LOOK: &str = "parts = [f\"{p.name} {p.media_type} {p.load()[-6:].decode()}\" for p in cx.newest.parts]\n\
                    return \"; \".join(parts)\n";
const SEEN: &str = "chart.png image/png pixels; notes.md text/markdown # note\n";

/// Creates a directory with two files, and an action that fails at first.
fn workspace() -> Workspace {
    let place = Workspace::with(TEAM);
    place.write("in/chart.png", PNG);
    place.write("in/notes.md", "# note");
    place.write("look.py", "raise RuntimeError('not yet')");
    let checked = place.command(&["check", "team.toml"]).output().unwrap();
    assert!(checked.status.success());
    place
}

fn start(place: &Workspace, files: &[&str]) -> Ended {
    let mut args = vec!["run", "team.toml", "what is this?", "--storage", "store"];
    for file in files {
        args.extend(["--file", file]);
    }
    place.host(&args)
}

/// Starts a run with both files. The action fails.
fn failed() -> Workspace {
    let place = workspace();
    start(&place, &["in/chart.png", "in/notes.md"]).expect(3);
    // They are read once, at the start.
    fs::remove_dir_all(place.path("in")).unwrap();
    place.write("look.py", LOOK);
    place
}

fn resume(place: &Workspace, storage: &str, options: &[&str]) -> Ended {
    let args = ["run", "team.toml", "--quiet", "--recover_path", storage];
    place.host(&[&args[..], options].concat())
}

#[test]
fn files_of_the_idea_are_received_after_a_resume_a_prune_and_a_fork() {
    let place = failed();
    let fork = ["fork", "store", "--at", "main-0", "--to", "copy"];
    place.host(&fork).expect(0);
    place.host(&["prune", "store", "--keep", "1"]).expect(0);
    for storage in ["store", "copy"] {
        assert_eq!(resume(&place, storage, &[]).expect(0).stdout, SEEN);
    }
    let stored = place.host(&["inspect", "store", "--message", "idea"]);
    let shown = stored.expect(0).stdout;
    for line in [
        "image       chart.png [image/png, 14 bytes] sha256 ",
        "file        notes.md [text/markdown, 6 bytes] sha256 ",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn a_team_json_alone_lacks_the_bytes_and_takes_them_again() {
    let place = failed();
    let alone = place.read("store/team.json");
    place.write("one/team.json", &alone);
    let lacking = resume(&place, "one", &[]).expect(3);
    for said in [
        "missing: chart.png [image/png, 14 bytes], notes.md [text/markdown, 6 bytes]",
        "`--file PATH`",
    ] {
        assert!(lacking.stderr.contains(said), "{}", lacking.stderr);
    }
    place.write("two/team.json", &alone);
    place.write("again.png", PNG);
    place.write("again.md", "# note");
    let files = ["--file", "again.png", "--file", "again.md"];
    let complete = resume(&place, "two", &files).expect(0);
    assert_eq!((&*complete.stdout, &*complete.stderr), (SEEN, ""));
}

#[test]
fn a_report_contains_raster_images_and_nothing_that_is_active() {
    let place = workspace();
    let active = "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>";
    place.write("in/active.svg", active);
    let files = ["in/chart.png", "in/active.svg"];
    start(&place, &files).expect(3);
    let page = place.host(&["report", "store"]).expect(0).stdout;
    assert_eq!(page.matches("<img ").count(), 1);
    assert!(page.contains("src=\"data:image/png;base64,iVBORw0KGgpwaXhlbHM=\""));
    assert!(page.contains("img-src data:;"));
    assert!(page.contains("active.svg [image/svg+xml, 59 bytes]"));
    assert!(!page.contains("onload"));
}

#[test]
fn a_file_that_cannot_be_added_is_an_error_before_anything_is_saved() {
    let place = workspace();
    place.write("page.png", "<html>");
    let large = fs::File::create(place.path("large.png")).unwrap();
    large.set_len(100 << 20).unwrap();
    for (file, reason) in [
        ("none.png", "No such file"),
        ("in", "it is no regular file"),
        (
            "large.png",
            "it has 100 MiB, and all files together may have 64 MiB",
        ),
        (
            "page.png",
            "its name says `image/png`, but its content is something else",
        ),
    ] {
        let refused = start(&place, &[file]).expect(2);
        let named = format!("cannot add the file `{file}`: {reason}");
        assert!(refused.stderr.contains(&named), "{}", refused.stderr);
        assert!(!place.path("store").exists());
    }
    let args = [
        "run",
        "team.toml",
        "idea",
        "--file",
        "in/notes.md",
        "--events",
        "in/notes.md",
    ];
    let refused = place.host(&args).expect(2);
    assert!(
        refused.stderr.contains("written over"),
        "{}",
        refused.stderr
    );
    assert_eq!(place.read("in/notes.md"), b"# note");
}

#[test]
fn files_of_a_message_reach_a_team_that_rests() {
    let place = workspace();
    place.write("look.py", LOOK);
    start(&place, &[]).expect(0);
    let send = |file: &str| {
        let words = [
            "send",
            "store",
            "--cause",
            "UserRequirement",
            "--file",
            file,
        ];
        place.host(&[&words[..], &["look"]].concat())
    };
    send("in/notes.md").expect(0);
    let seen = resume(&place, "store", &[]).expect(0).stdout;
    assert_eq!(seen, "notes.md text/markdown # note\n");

    place.write("page.png", "<html>");
    let refused = send("page.png").expect(2);
    assert!(
        refused.stderr.contains("cannot add the file `page.png`: "),
        "{}",
        refused.stderr
    );
}
