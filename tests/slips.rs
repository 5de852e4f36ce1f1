//! Typing errors on the command line and in a team file: suggestions, warnings that are treated as
//! errors, and the quoting of suggested commands.

use std::fs;

use crate::output::{TEAM, json};
use crate::workspace::Workspace;

#[test]
fn similar_names_are_suggested() {
    let place = Workspace::empty();
    fs::create_dir(place.path("respond")).unwrap();
    fs::write(place.path("replies.toml"), "").unwrap();
    for (from, to, meant) in [
        ("probe.wasm", "respnd", "did you mean `respond`?"),
        ("probe.wasm", "prob.wasm", "did you mean `probe.wasm`?"),
        ("probe.wasm", "probe.wsm", "did you mean `probe.wasm`?"),
        (
            "name = \"prints\"",
            "name = \"prints\"\non_fault = \"prak\"",
            "did you mean `park`? It is one of `stop`, `park`",
        ),
        (
            "[[role]]",
            "[limits]\nmemory = \"64mib\"\n[[role]]",
            "did you mean `64MiB`?",
        ),
        (
            "[[role]]",
            "[limits]\ntimeout = \"10sec\"\n[[role]]",
            "did you mean `10s`?",
        ),
        ("[[role]]", "[[rolle]]", "write `[[role]]`"),
    ] {
        place.write("team.toml", TEAM.replacen(from, to, 1));
        let refused = place.host(&["check", "team.toml"]).expect(2).stderr;
        assert!(refused.contains(meant), "{to}: {refused}");
    }
    place.write("team.toml", TEAM);
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    let refused = place
        .host(&["run", "--recover_path", "stoer"])
        .expect(2)
        .stderr;
    assert!(refused.contains("did you mean `store`?"), "{refused}");
    let sent = place
        .host(&["send", "store", "--cause", "X", "--to", "Aa", "text"])
        .expect(0)
        .stderr;
    assert!(
        sent.contains("`Aa` takes no messages") && sent.contains("; did you mean `A`?"),
        "{sent}"
    );
}

#[test]
fn a_misspelled_path_is_answered_with_the_one_that_was_probably_meant() {
    let place = Workspace::with(TEAM);
    fs::create_dir(place.path("respond")).unwrap();
    place.write("hello.js", "return 1\n");
    place.write("notes.txt", "notes\n");
    for (args, meant) in [
        (&["check", "team.tml"][..], "team.toml"),
        (&["mcp", "team.tml"], "team.toml"),
        (&["describe", "helo.js"], "hello.js"),
        (&["describe", "prob.wasm"], "probe.wasm"),
        (&["try", "helo.js"], "hello.js"),
        (&["build", "respnd"], "respond"),
        (&["run", "team.toml", "--file", "notse.txt"], "notes.txt"),
    ] {
        let refused = place.host(args).expect(2).stderr;
        let meant = format!("did you mean `{meant}`?");
        assert!(refused.contains(&meant), "{args:?}: {refused}");
    }
}

#[test]
fn similar_commands_are_suggested() {
    let place = Workspace::empty();
    for (words, meant) in [
        (&["rnu", "team.toml"][..], "runs"),
        (&["-v", "rnu"], "runs"),
        (&["help", "rnu"], "run"),
        (&["inspct", "store"], "inspect"),
        (&["skill", "lsit"], "list"),
        (&["run", "--evnets", "x"], "--events"),
        (&["run", "--calls", "rause"], "reuse"),
    ] {
        let refused = place.host(words).expect(2).stderr;
        let tip = refused.lines().find(|line| line.contains("tip: a similar"));
        assert!(
            tip.is_some_and(|tip| tip.contains(&format!("'{meant}'"))),
            "{words:?}: {refused}"
        );
    }
}

#[test]
fn warnings_are_errors_on_request() {
    let place = Workspace::with(TEAM);
    place
        .host(&["check", "team.toml", "--deny-warnings"])
        .expect(0);
    place.write(
        "team.toml",
        TEAM.replace("UserRequirement", "UserRequirment"),
    );
    place.host(&["check", "team.toml"]).expect(0);
    let refused = place
        .host(&["check", "team.toml", "--deny-warnings"])
        .expect(2);
    assert!(
        refused
            .stderr
            .contains("error: 1 warning, which `--deny-warnings` does not allow"),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stdout.contains("A.One"),
        "what it found is shown all the same: {}",
        refused.stdout
    );
}

#[test]
fn a_bare_word_sets_a_text() {
    let place = Workspace::with(&format!("{TEAM}[env.scope.s]\n"));
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    place
        .host(&[
            "fork",
            "store",
            "--at",
            "main-0",
            "--set",
            "s/k=plain words",
            "--to",
            "branch",
        ])
        .expect(0);
    let inspected = place.host(&["inspect", "branch", "--json"]).expect(0);
    let parsed = json(&inspected.stdout);
    assert_eq!(parsed["strata"]["state"]["env"]["s"]["k"], "plain words");
}

#[test]
fn suggested_commands_quote_paths() {
    let place = Workspace::empty();
    place.write(
        "it's other/team.toml",
        TEAM.replace("probe.wasm", "../probe.wasm"),
    );
    place.write("team.toml", TEAM);
    let ended = place
        .host(&["run", "it's other/team.toml", "--storage", "st ore"])
        .expect(3)
        .stderr;
    assert!(
        ended.contains(r"run 'it'\''s other/team.toml' --recover_path 'st ore'"),
        "{ended}"
    );
    let resumed = place
        .host(&["run", "--recover_path", "st ore"])
        .expect(0)
        .stderr;
    let storage = fs::canonicalize(place.path("st ore")).unwrap();
    assert!(
        resumed.contains(&format!("--recover_path '{}'`", storage.display())),
        "{resumed}"
    );
}

const REFUSED: [(&[&str], &str); 13] = [
    (&["run", "one", "two"], "in quotes"),
    (
        &["run", "team.tml", "write it"],
        "`team.tml` looks like the path of a file, and there is none; did you mean `team.toml`?",
    ),
    (&["run", "team.toml", "other.toml"], "`other.toml`"),
    (
        &["run", "team.toml", "write", "a", "game"],
        "put the idea in quotes",
    ),
    (&["run", "missing.toml"], "`missing.toml`"),
    (&["run", "team.toml", "--investment=-1"], "not negative"),
    (&["run", "team.toml", "--max-parallel", "0"], "from 1"),
    (
        &["run", "team.toml", "--component", "A.Tow=probe.wasm"],
        "did you mean `A.Two`",
    ),
    (&["run", "team.toml", "--component", "nonsense"], "`A.One`"),
    (
        &["run", "team.toml", "--component", "A.One"],
        "names no file; expected `A.One=FILE`",
    ),
    (
        &["run", "team.toml", "--component", "A.One="],
        "names no file; expected `A.One=FILE`",
    ),
    (&["run", "team.toml", "--events", "."], "cannot write `.`"),
    (&["run", "--recover_path", "x", "--force"], "--force"),
];

#[test]
fn invalid_command_lines_are_rejected_with_a_correction() {
    let place = Workspace::with(TEAM);
    for (args, part) in REFUSED {
        let ended = place
            .host(&[args, &["--storage", "store"]].concat())
            .expect(2);
        assert!(
            ended.stderr.contains(part),
            "{args:?}: `{part}`: {}",
            ended.stderr
        );
        assert_eq!(ended.stdout, "", "{args:?}");
        assert!(!place.path("store").exists(), "{args:?}");
    }
}

#[test]
fn missing_quotes_and_similar_names_are_explained() {
    let place = Workspace::with(TEAM);
    for args in [
        &["send", "store", "--cause", "l", "two", "words"][..],
        &["dev", "team.toml", "two", "words"],
    ] {
        assert!(
            place.host(args).expect(2).stderr.contains("in quotes"),
            "{args:?}"
        );
    }
    fs::create_dir(place.path("in")).unwrap();
    place.write("in/team.toml", TEAM);
    for command in ["check", "graph", "lock"] {
        let ended = place.host(&[command, "in"]).expect(2);
        assert!(
            ended
                .stderr
                .contains("it is a directory; did you mean `in/team.toml`?"),
            "{}",
            ended.stderr
        );
    }
    let ended = place
        .host(&[
            "run",
            "team.toml",
            "write a Cargo.toml",
            "--storage",
            "idea",
        ])
        .expect(3);
    assert!(
        !ended.stderr.contains("does not end in"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        json(&place.host(&["inspect", "idea", "--json"]).stdout)["idea"],
        "write a Cargo.toml"
    );
    let nowhere = Workspace::empty();
    let ended = nowhere.host(&["run", "an idea"]).expect(2);
    assert!(
        ended.stderr.contains("which team?")
            && ended.stderr.contains("`strata-host new team NAME`"),
        "{}",
        ended.stderr
    );
    assert!(!nowhere.path("workspace").exists());
}

/// Words in place of a team file, and what is said about them.
const NO_IDEAS: [(&[&str], &[&str]); 8] = [
    (
        &["run", "team.tml"],
        &[
            "`team.tml` looks like the path of a file, and there is none; did you mean `team.toml`? ",
            "name the team before it: `strata-host run team.toml team.tml`",
        ],
    ),
    (&["run", "taem.toml"], &["did you mean `team.toml`?"]),
    (&["run", "./team"], &["did you mean `./team.toml`?"]),
    (&["run", "in/taem.tml"], &["did you mean `in/team.toml`?"]),
    (
        &["run", "in"],
        &["`in` is a directory, and no team file; did you mean `in/team.toml`?"],
    ),
    (
        &["run", "notes.md"],
        &[
            "`notes.md` is a file, but no team file",
            "`strata-host run team.toml \"$(cat notes.md)\"`",
        ],
    ),
    (
        &["submit", "game.html", "--database", "sqlite:runs.db"],
        &["`strata-host submit team.toml game.html`"],
    ),
    (
        &["submit", "team.tml", "--server", "http://127.0.0.1:1"],
        &["did you mean `team.toml`?"],
    ),
];

#[test]
fn a_word_that_looks_like_a_file_is_not_taken_as_the_idea_of_another_team() {
    let place = Workspace::with(TEAM);
    fs::create_dir(place.path("in")).unwrap();
    place.write("in/team.toml", TEAM);
    place.write("notes.md", "write a game\n");
    let before = fs::read_dir(place.path("")).unwrap().count();
    for (args, parts) in NO_IDEAS {
        let refused = place.host(args).expect(2).stderr;
        for part in parts {
            assert!(refused.contains(part), "{args:?}: `{part}`: {refused}");
        }
        let after = fs::read_dir(place.path("")).unwrap().count();
        assert_eq!(after, before, "{args:?}");
    }
    place
        .host(&["run", "team.toml", "--storage", "store"])
        .expect(3);
    for resume in [
        &["run", "team.tml", "--recover_path", "store"][..],
        &["resume", "store", "team.tml"],
    ] {
        let refused = place.host(resume).expect(2).stderr;
        assert!(
            refused.contains("did you mean `team.toml`?") && !refused.contains("idea"),
            "{refused}"
        );
    }
    for (idea, warning) in [("team.tml", "so it was taken as the idea"), ("a/b.c", "")] {
        let run = ["run", "team.toml", idea, "--storage", idea, "--quiet"];
        let ended = place.host(&run).expect(3).stderr;
        assert!(ended.contains(warning), "{ended}");
        let saved = place.host(&["inspect", idea, "--json"]).stdout;
        assert_eq!(json(&saved)["idea"], idea);
    }
}

#[test]
fn similar_spellings_are_suggested() {
    let place = Workspace::with(
        &(TEAM.to_owned()
            + "[[role]]\nname = \"B\"\nwatch = [\"Tow\", \"aside\"]\n\
        [[role.action]]\nname = \"Three\"\ncomponent = \"probe.wasm\"\n"),
    );
    let ended = place.host(&["check", "team.toml"]).expect(0);
    assert_eq!(ended.stderr, "", "a label may be anything");
    place.write(
        "team.toml",
        TEAM.replace("UserRequirement", "UserRequirment"),
    );
    let ended = place.host(&["check", "team.toml"]).expect(0);
    let doubt = "warning: `A` watches `UserRequirment`, and no action is called that; did you mean `UserRequirement`?";
    assert_eq!(ended.stderr.trim_end(), doubt);
    place.write("team.toml", TEAM.replace("UserRequirement", "Task"));
    let ended = place.host(&["check", "team.toml"]).expect(0);
    assert!(
        ended
            .stderr
            .starts_with("warning: no role watches `UserRequirement`, so nobody"),
        "{}",
        ended.stderr
    );
    let ended = place
        .host(&["run", "team.toml", "--storage", "unheard"])
        .expect(0);
    assert_eq!(
        ended.stderr.matches("watches `UserRequirement`").count(),
        1,
        "{}",
        ended.stderr
    );
    let other = "[[role]]\nname = \"B\"\nwatch = [\"two\", \"ONE\"]\n[[role.action]]\nname = \"Three\"\ncomponent = \"probe.wasm\"\n";
    place.write("team.toml", format!("{TEAM}{other}"));
    let ended = place.host(&["check", "team.toml"]).expect(0);
    for (label, action) in [("two", "Two"), ("ONE", "One")] {
        let doubt = format!(
            "`B` watches `{label}`, and no action is called that; did you mean `{action}`?"
        );
        assert!(
            ended.stderr.contains(&doubt),
            "however short they are: {}",
            ended.stderr
        );
    }
    place.write("team.toml", format!("{TEAM}[[role]]\nname = \"B\"\nwatch = [\"A\"]\n[[role.action]]\nname = \"Three\"\ncomponent = \"probe.wasm\"\n"));
    let ended = place.host(&["check", "team.toml"]).expect(0);
    let doubt = "warning: `B` watches `A`, which is a role: messages are heard by the action they come from, as `Two`";
    assert_eq!(ended.stderr.trim_end(), doubt);
    let ended = place.host(&["check", "taem.toml"]).expect(2);
    assert!(
        ended.stderr.contains("did you mean `team.toml`?"),
        "{}",
        ended.stderr
    );
    let ended = place.host(&["check", "other.toml"]).expect(2);
    assert!(!ended.stderr.contains("did you mean"), "{}", ended.stderr);
}

#[test]
fn a_granted_path_that_does_not_exist_gets_a_suggestion() {
    let more = "limits = { memory = 64 }\nallow = { llm = { models = [\"*\"] }, \
        http = [{ host = \"a.example\", methods = [\"PSOT\", \"PROPFIND\"] }], dirs = [{ host = \"./in\", guest = \"/in\" }] }\n";
    let place = Workspace::with(&(TEAM.to_owned() + more));
    let ended = place.host(&["check", "team.toml"]).expect(0);
    for doubt in [
        "warning: `A.Two` may ask models, and the team has none; add `[llm] provider = …`",
        "warning: `A.Two` has a memory of only 64 bytes; did you mean a unit, such as `64MiB`?",
        "warning: `A.Two` may read `/in`, and `",
        "warning: `A.Two` may call servers by `PSOT`, which few know; did you mean `POST`?",
    ] {
        assert!(ended.stderr.contains(doubt), "{}", ended.stderr);
    }
    let absent = place.path("in");
    assert!(
        ended
            .stderr
            .contains(&format!("and `{}` is not there", absent.display())),
        "{}",
        ended.stderr
    );
    assert!(
        !ended.stderr.contains("PROPFIND"),
        "servers know many methods: {}",
        ended.stderr
    );
    fs::create_dir(place.path("in")).unwrap();
    let ended = place.host(&["check", "team.toml"]).expect(0);
    assert!(!ended.stderr.contains("may read"), "{}", ended.stderr);
}

#[test]
fn a_path_that_a_shell_would_expand_is_refused_wherever_it_is_given_and_nothing_is_made() {
    let place = Workspace::with(TEAM);
    for args in [
        &["run", "team.toml", "--storage=~/store"][..],
        &["run", "team.toml", "--storage", "$HOME/store"],
        &["run", "team.toml", "--storage", "s", "--events", "~/events"],
        &["run", "~/team.toml"],
        &["run", "--recover_path=~/store"],
        &["check", "team.toml", "--policy", "${CONFIG}/policy.toml"],
        &["report", "store", "-o", "~/page.html"],
        &["dev", "team.toml", "--storage=~/store"],
        &["inspect", "~/store"],
        &["inspect", "~/store@main-1"],
        &["events", "$HOME/store@main"],
        &["files", "~/store@main-3", "--to", "before"],
        &["files", "store@main-3", "--to", "~/before"],
        &["report", "~/store@main-3"],
        &["diff", "store@main", "~/store@main.1"],
        &["diff", "stores/*", "store"],
        &["checkpoints", "~/store"],
        &["fork", "~/store", "--at", "main-1"],
        &["fork", "store", "--at", "main-1", "--to", "~/branch"],
        &["prune", "~/store"],
        &["replay", "~/store"],
        &["send", "~/store", "--cause", "X", "text"],
        &["send", "store", "--cause", "X", "--file", "~/x.png", "text"],
        &["answer", "~/store", "a=1"],
        &["resume", "~/store"],
        &["resume", "store", "~/team.toml"],
        &["submit", "~/team.toml", "--database", "postgres://h/d"],
        &["run", "team.toml", "--component", "A.One=~/fixed.wasm"],
        &["run", "team.toml", "--component=A.One=$HOME/a=b.wasm"],
        &["run", "team.toml", "--record", "~/replies.toml"],
        &["run", "team.toml", "--file", "~/notes.txt"],
        &["try", "~/greet.py"],
        &["try", "greet.py", "--file", "~/notes.txt"],
        &["describe", "~/greet"],
        &["describe", "--shelf", "~/skills"],
        &["skill", "add", "~/greet"],
        &["skill", "list", "--shelf", "$HOME/skills"],
        &["build", "~/greet"],
        &["man", "~/man1"],
        &["doctor", "--storage", "~/store"],
        &["lock", "~/team.toml"],
        &["graph", "~/team.toml"],
        &["worker", "--database", "postgres://h/d", "--workspaces=~/w"],
    ] {
        let ended = place.host(args).expect(2);
        let told = &ended.stderr;
        assert!(told.contains("no shell reads the path"), "{args:?}: {told}");
        assert!(told.contains("write `"), "{args:?}: {told}");
    }
    for (variable, args) in [
        ("STRATA_POLICY", &["check", "team.toml"][..]),
        ("STRATA_POLICY", &["run", "team.toml", "--storage", "s"]),
        ("STRATA_SHELF", &["skill", "list"]),
    ] {
        let ended = place
            .command(args)
            .env(variable, "~/x")
            .output()
            .expect("the program starts");
        let told = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success(), "{variable} {args:?}");
        assert!(told.contains("no shell reads the path `~/x`"), "{told}");
        assert!(told.contains(&format!("`${variable}`")), "{told}");
    }
    for made in ["~", "$HOME", "s"] {
        assert!(!place.path(made).exists(), "{made}");
    }
    place
        .host(&["run", "team.toml", "--storage=./~/store", "--quiet"])
        .expect(3);
    assert!(place.path("~/store/team.json").exists());
}
