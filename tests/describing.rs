//! Descriptions of the program and of components: `describe`, `schema`, `completions`, `man`,
//! `doctor`, `--help`.

use serde_json::Value;

use crate::workspace::Workspace;

fn json(place: &Workspace, args: &[&str]) -> Value {
    serde_json::from_str(&place.host(args).expect(0).stdout).expect("it is JSON")
}

#[test]
fn the_interfaces_are_described_without_a_component() {
    let place = Workspace::empty();
    let all = json(&place, &["describe", "--shelf", "shelf"]);
    let complete = &all["interfaces"]["llm"]["functions"]["complete"];
    assert_eq!(
        complete["parameters"]["properties"]["request"]["$ref"],
        "#/$defs/llm.request"
    );
    assert_eq!(complete["fails"]["$ref"], "#/$defs/types.host-error");
    assert_eq!(all["interfaces"]["handler"]["provided_by"], "action");
    assert_eq!(all["skills"], Value::Array(Vec::new()));
    assert!(!place.path("shelf").exists(), "looking makes nothing");
}

#[test]
fn a_component_and_its_source_have_the_same_description() {
    let place = Workspace::empty();
    let source = crate::probe::project().join("plugins/probe");
    let of_file = json(&place, &["describe", "probe.wasm"]);
    assert_eq!(of_file["name"], "probe");
    assert!(
        of_file["description"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    );
    assert_eq!(
        of_file,
        json(&place, &["describe", source.to_str().unwrap()])
    );
    for (what, expected) in [
        ("absent.wasm", "cannot read"),
        ("absent@1.0.0", "there is no skill"),
        ("team.toml", "team.toml"),
    ] {
        let refused = place
            .host(&["describe", what, "--shelf", "shelf"])
            .expect(2);
        assert!(
            refused.stderr.contains(expected) && refused.stdout.is_empty(),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn the_schema_of_team_files_is_printed() {
    let schema = json(&Workspace::empty(), &["schema"]);
    assert_eq!(
        schema["$defs"]["role"]["properties"]["max_react_loop"]["default"],
        1
    );
    assert_eq!(
        schema["properties"]["limits"]["properties"]["memory"]["default"],
        "64MiB"
    );
}

#[test]
fn completions_exist_for_every_shell() {
    let place = Workspace::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = place.host(&["completions", shell]).expect(0).stdout;
        for word in ["strata-host", "describe", "recover_path"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    place.host(&["completions", "tcsh"]).expect(2);
}

#[test]
fn bash_completes_arguments_of_commands() {
    let place = Workspace::empty();
    place.write(
        "completions.bash",
        place.host(&["completions", "bash"]).expect(0).stdout,
    );
    let completed = |words: &str, word: &str| {
        let script = format!(
            "source completions.bash; COMP_WORDS=({words} '{word}'); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n\
             $(complete -p strata-host | sed 's/.*-F \\([^ ]*\\).*/\\1/') strata-host '{word}' run; echo \"${{COMPREPLY[@]}}\""
        );
        let done = std::process::Command::new("bash")
            .args(["-c", &script])
            .current_dir(place.path(""))
            .output()
            .unwrap();
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(completed("strata-host", "ru"), "run runs");
    assert_eq!(completed("strata-host run", "--recover"), "--recover_path");
    assert!(completed("strata-host shelf", "").contains("list"));
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let place = Workspace::empty();
    place.host(&["man", "pages/man1"]).expect(0);
    for (page, part) in [
        ("strata-host", "strata-host-run"),
        ("strata-host-run", "recover_path"),
        ("strata-host-shelf-add", "Examples"),
    ] {
        let text = String::from_utf8(place.read(&format!("pages/man1/{page}.1")))
            .unwrap()
            .replace("\\-", "-");
        assert!(text.contains(part), "{page}: {text}");
    }
    place.host(&["man", "probe.wasm"]).expect(2);
}

#[test]
fn help_of_every_command_has_examples() {
    let place = Workspace::empty();
    let commands = |args: &[&str]| -> Vec<String> {
        let help = place.host(&[args, &["--help"]].concat()).expect(0).stdout;
        let list = help
            .split("Commands:\n")
            .nth(1)
            .unwrap_or_default()
            .split("\n\n")
            .next()
            .unwrap_or_default()
            .to_owned();
        let names = list
            .lines()
            .filter_map(|line| line.strip_prefix("  "))
            .filter(|line| !line.starts_with(' '));
        names
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .map(str::to_owned)
            .collect()
    };
    let all = commands(&[]);
    assert!(all.len() > 15, "{all:?}");
    for name in &all {
        let below = commands(&[name]);
        let paths = if below.is_empty() {
            vec![vec![name.as_str()]]
        } else {
            below.iter().map(|b| vec![name.as_str(), b]).collect()
        };
        for path in paths {
            let help = place
                .host(&[path.as_slice(), &["--help"]].concat())
                .expect(0)
                .stdout;
            assert!(
                help.contains("Examples:\n  strata-host "),
                "{path:?}: {help}"
            );
        }
    }
}

#[test]
fn the_doctor_finds_what_teams_need() {
    let place = Workspace::empty();
    let findings = json(&place, &["doctor", "--json"]);
    let about = |name: &str| {
        findings
            .as_array()
            .unwrap()
            .iter()
            .find(|finding| finding["about"] == name)
            .unwrap()
            .clone()
    };
    for name in ["host", "sandbox", "cache", "skills", "disk", "rust"] {
        assert_eq!(about(name)["state"], "good", "{}", about(name));
    }
    let told = place.host(&["doctor"]).expect(0).stdout;
    assert!(
        told.lines().any(|line| line.starts_with("ok   disk")),
        "{told}"
    );
    assert!(!place.path("workspace").exists(), "looking makes nothing");
}

#[test]
fn the_doctor_suggests_a_remedy_for_each_problem() {
    let place = Workspace::empty();
    let refused = place
        .host(&["doctor", "--storage", "/proc/self/nowhere"])
        .expect(1)
        .stdout;
    assert!(
        refused.contains("BAD  disk") && refused.contains("choose another directory"),
        "{refused}"
    );
    // What there is on this machine, it advises to use.
    place.write("dnf", "");
    let mut command = place.command(&["doctor", "--json"]);
    command
        .env("PATH", place.path(""))
        .env("XDG_CACHE_HOME", place.path("probe.wasm"))
        .env("STRATA_SHELF", "probe.wasm");
    let ended = crate::process::Process::spawn(command).end().expect(0);
    let findings: Value = serde_json::from_str(&ended.stdout).unwrap();
    let doubtful = findings
        .as_array()
        .unwrap()
        .iter()
        .filter(|finding| finding["state"] == "doubtful");
    let doubtful: Vec<&str> = doubtful
        .map(|finding| finding["about"].as_str().unwrap())
        .collect();
    assert_eq!(
        doubtful,
        ["cache", "skills", "rust", "python", "c", "javascript"]
    );
    assert!(
        findings
            .as_array()
            .unwrap()
            .iter()
            .all(|finding| finding["state"] == "good" || finding["advice"].is_string())
    );
    for command in [
        "`dnf install python3`",
        "`dnf install nodejs npm`",
        "https://sh.rustup.rs",
    ] {
        assert!(
            ended.stdout.contains(command),
            "{command}: {}",
            ended.stdout
        );
    }
}

#[test]
fn the_option_for_a_server_is_shown_and_taken_only_where_it_means_something() {
    let place = Workspace::empty();
    let shows = |words: &[&str]| {
        let help = place.host(&[words, &["--help"]].concat()).expect(0).stdout;
        help.contains("--server <URL>")
    };
    // Nobody listens there.
    let call = |words: &[&str]| {
        let server = ["--server", "http://127.0.0.1:9"];
        place.host(&[words, &server].concat()).stderr
    };
    const REFUSED: &str = "does not work through a server";
    let commands: [(&[&str], &[&str]); 10] = [
        (&["serve"], &[]),
        (&["run"], &["team.toml"]),
        (&["doctor"], &[]),
        (&["worker"], &["--database", "sqlite:runs.db"]),
        (&["token", "list"], &[]),
        (&["database", "open"], &["sqlite:runs.db"]),
        (&["shelf", "list"], &[]),
        (&["new"], &["team", "press"]),
        (&["sdk"], &["wit"]),
        (&["graph"], &["team.toml"]),
    ];
    for (command, arguments) in commands {
        let refused = call(&[command, arguments].concat());
        assert!(refused.contains(REFUSED), "{command:?}: {refused}");
        assert!(!shows(command), "{command:?}");
    }
    for (command, arguments) in [
        ("runs", None),
        ("inspect", Some("it")),
        ("wait", Some("it")),
    ] {
        let words: Vec<&str> = [command].into_iter().chain(arguments).collect();
        let failed = call(&words);
        assert!(!failed.is_empty() && !failed.contains(REFUSED), "{failed}");
        assert!(shows(&[command]), "{command}");
    }
    assert!(shows(&[]), "the program as a whole has it");
}

#[test]
fn caches_are_listed_with_their_sizes_and_removed_by_name() {
    let place = Workspace::empty();
    place.write("cache/strata-host/python/tools-1/file", [0; 2048]);
    place.write("cache/strata-host/c/library-1/file", [0; 1024]);
    place.write("cache/other/file", "not ours");
    let clean = |args: &[&str]| {
        let mut command = place.command(&[&["clean"], args].concat());
        command.env("XDG_CACHE_HOME", place.path("cache"));
        crate::process::Process::spawn(command).end()
    };
    let listed = clean(&[]).expect(0);
    assert!(
        listed.stdout.contains("python           2 KiB"),
        "{}",
        listed.stdout
    );
    assert!(
        listed.stderr.contains("nothing was removed"),
        "{}",
        listed.stderr
    );
    assert!(
        clean(&["--all", "--dry-run"])
            .expect(0)
            .stderr
            .contains("3 KiB would be removed")
    );
    let refused = clean(&["pyton"]).expect(2).stderr;
    assert!(refused.contains("did you mean `python`?"), "{refused}");
    assert!(place.path("cache/strata-host/python/tools-1/file").exists());
    assert!(
        clean(&["python"])
            .expect(0)
            .stderr
            .contains("2 KiB removed")
    );
    assert!(!place.path("cache/strata-host/python/tools-1").exists());
    assert!(place.path("cache/strata-host/c/library-1/file").exists());
    let parts: Value = serde_json::from_str(&clean(&["--json"]).expect(0).stdout).unwrap();
    let part = |name: &str| {
        parts
            .as_array()
            .unwrap()
            .iter()
            .find(|part| part["name"] == name)
            .unwrap()["bytes"]
            .clone()
    };
    assert_eq!((part("python"), part("c")), (0.into(), 1024.into()));
    let mut command = place.command(&["doctor"]);
    command.env("XDG_CACHE_HOME", place.path("cache"));
    let told = crate::process::Process::spawn(command)
        .end()
        .expect(0)
        .stdout;
    assert!(
        told.lines().any(|line| line.starts_with("ok   caches")),
        "{told}"
    );
    clean(&["--all"]).expect(0);
    assert!(place.path("cache/other/file").exists());
}
