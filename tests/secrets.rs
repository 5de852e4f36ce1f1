//! Secrets: they reach only the intended service. Everything that the host writes is searched for
//! them.

use std::fs;
use std::path::Path;

use crate::process::{Ended, Process};
use crate::web::Web;
use crate::workspace::Workspace;

const SECRET: &str = "s3cr3t/va+lue\"quoted";

fn team(port: u16, steps: &str) -> Workspace {
    Workspace::with(&format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"t\"\nidea = \"go\"\n[[role]]\nname = \"A\"\nwatch = [\"UserRequirement\"]\n\
         [[role.action]]\nname = \"p\"\ncomponent = \"probe.wasm\"\nconfig = {{ steps = [{}] }}\n[role.action.allow]\n\
         http = [{{ host = \"127.0.0.1:{port}\", methods = [\"GET\", \"POST\"], secrets = [\"TOKEN\"] }}]\nsecrets = [\"TOKEN\"]\n",
        steps.replace("URL", &format!("http://127.0.0.1:{port}/v1"))
    ))
}

fn host(place: &Workspace, args: &[&str]) -> Ended {
    let mut command = place.command(args);
    // With the most detailed log.
    command.env(
        "STRATA_LOG",
        "warn,strata_=trace,reqwest=trace,hyper=trace,hyper_util=trace",
    );
    command.env("TOKEN", SECRET);
    Process::spawn(command).end()
}

/// Returns the secret in all encodings in which it might occur.
fn forms() -> Vec<Vec<u8>> {
    let texts = [
        SECRET,
        "s3cr3t/va+lue\\\"quoted",
        "s3cr3t%2Fva%2Blue",
        "czNjcjN0L3ZhK2x1ZSJxdW90ZWQ",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

fn assert_clean(what: &str, bytes: &[u8]) {
    for form in forms() {
        let found = bytes.windows(form.len()).any(|window| window == form);
        assert!(!found, "{what} holds {}", String::from_utf8_lossy(&form));
    }
}

fn assert_clean_files(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_clean_files(&path);
        } else {
            assert_clean(&path.display().to_string(), &fs::read(&path).unwrap());
        }
    }
}

#[test]
fn a_secret_is_not_contained_in_anything_that_the_host_writes() {
    let echo = r#"{ http = "URL/echo", secret = "TOKEN" }"#;
    let cases: [(&str, i32); 4] = [
        (
            r#"{ http = "URL/echo", method = "POST", secret = "TOKEN" }, { say = "{reads}" }"#,
            0,
        ),
        (
            &format!("{echo}, {{ set = \"k\", value = \"v\" }}, {{ fail = \"trap\" }}"),
            3,
        ),
        (
            &format!("{echo}, {{ http = \"URL/slam\", method = \"POST\", secret = \"TOKEN\" }}"),
            10,
        ),
        (r#"{ secret = "TOKEN" }, { say = "{reads}" }"#, 0),
    ];
    for (steps, code) in cases {
        let web = Web::new();
        let place = team(web.port(), steps);
        let events = [
            "run",
            "team.toml",
            "--storage",
            "store",
            "--events",
            "events.ndjson",
            "--json",
        ];
        let ended = host(&place, &events).expect(code);
        let requests = web.requests();
        let bearer = format!("Bearer {SECRET}");
        assert!(
            requests
                .iter()
                .all(|request| request.header("authorization") == Some(&bearer)),
            "{requests:?}"
        );
        assert_eq!(requests.is_empty(), !steps.contains("http"));
        let shown = host(&place, &["inspect", "store", "--json"]).expect(0);
        let told = host(&place, &["events", "store"]).expect(0);
        for ended in [&ended, &shown, &told] {
            assert_clean("stdout", ended.stdout.as_bytes());
            assert_clean("stderr", ended.stderr.as_bytes());
        }
        assert_clean_files(&place.path("."));
        if code == 0 {
            let said = place.team_json()["env"]["history"]["storage"][1]["content"]
                .as_str()
                .unwrap()
                .to_owned();
            assert!(
                said.contains(if steps.contains("http") {
                    "[secret TOKEN]"
                } else {
                    "{{secret:TOKEN}}"
                }),
                "{said}"
            );
        }
    }
}

#[test]
fn a_missing_key_of_a_model_is_reported_with_its_position() {
    let place = team(1, "{ say = \"x\" }");
    let file = String::from_utf8(place.read("team.toml")).unwrap();
    let llm = "[llm]\nprovider = \"openai\"\nbase_url = \"https://127.0.0.1:1/v1\"\nmodel = \"m\"\napi_key = { env = \"NO_KEY\" }\n";
    place.write("team.toml", format!("{file}{llm}"));
    let line = format!("team.toml:{}:", file.lines().count() + 5);
    let refused = host(&place, &["check", "team.toml"]).expect(2);
    for part in ["`NO_KEY`, which is not set", &line, "export NO_KEY=…"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}

#[test]
fn a_missing_secret_is_reported_with_its_position() {
    let place = team(1, "{ say = \"x\" }");
    for command in [
        &["check", "team.toml"][..],
        &["run", "team.toml", "--storage", "store"],
    ] {
        let mut command = place.command(command);
        command.env_remove("TOKEN");
        let refused = Process::spawn(command).end().expect(2);
        for part in ["`TOKEN`", "is not set", "team.toml:14", "export TOKEN=…"] {
            assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
        }
    }
    assert!(!place.path("store").exists());
    let shown = host(&place, &["check", "team.toml"]).expect(0);
    assert!(
        shown.stdout.contains("with secrets TOKEN"),
        "{}",
        shown.stdout
    );
    assert_clean("stdout", shown.stdout.as_bytes());
}
