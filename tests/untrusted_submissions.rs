//! Submitted teams that try to reach the files, the environment, the secrets, the programs and the network
//! of the machine that runs them. Whoever submits one can write anything into the database, so these
//! submissions are made without the checks of `submit`.

use std::collections::BTreeMap;
use std::sync::Arc;

use strata_core::record::file::PathContent;
use strata_core::record::id::Digest;
use strata_core::state::environment::Environment;
use strata_core::state::environment::files::Placement;
use strata_host::ComponentReplacement;
use strata_host::blob::{Blobs, digest_of};
use strata_host::manifest::Definition;
use strata_host::storage::{
    Handover, NewSubmission, RunDatabase, RunNeeds, RunSchedule, SavedDefinition,
    SubmissionIdentity,
};

use crate::probe;
use crate::process::Signal;
use crate::web::Web;
use crate::workers::{Pool, wait_until};
use crate::workspace::Workspace;

/// What is in the environment and in a file of the worker, and must not be anywhere else.
const SECRET: &str = "crown-jewels";

/// A submission.
struct Attempt {
    /// What it tries.
    name: &'static str,
    /// What replaces the parts of the team file.
    team: String,
    /// The directory of its team file in the database.
    base: String,
    components: Vec<ComponentReplacement>,
    /// Files of the bundle besides the probe.
    files: Vec<(String, String)>,
    /// What is done to the saved state.
    change: fn(&mut Environment),
    expected: Expected,
}

enum Expected {
    /// The worker refuses to run the team, and its reason contains this.
    Refused(String),
    /// The team runs, and its events contain this.
    Runs(&'static str),
}

const TEAM: &str = r#"
schema = "strata.team/1"
[team]
name = "guest"
idea = "go"
EXTRA
[[role]]
name = "A"
watch = ["UserRequirement"]
[[role.action]]
name = "p"
component = "COMPONENT"
config = { steps = [STEPS] }
MORE
[role.action.allow]
ALLOW
"#;

/// Returns an attempt whose team has these parts.
fn attempt(name: &'static str, parts: &[(&str, &str)], expected: Expected) -> Attempt {
    let mut team = TEAM.to_owned();
    for (part, text) in parts {
        team = team.replace(part, text);
    }
    let defaults = [
        ("EXTRA", ""),
        ("COMPONENT", "probe.wasm"),
        ("STEPS", "{ say = \"hello\" }"),
        ("MORE", ""),
        ("ALLOW", ""),
    ];
    for (part, text) in defaults {
        team = team.replace(part, text);
    }
    Attempt {
        name,
        team,
        base: "/bundle/team".into(),
        components: Vec::new(),
        files: Vec::new(),
        change: |_| {},
        expected,
    }
}

fn refused(part: &str) -> Expected {
    Expected::Refused(part.to_owned())
}

/// Puts an attempt into the database.
fn submit(pool: &Pool, n: usize, attempt: &Attempt) {
    let base = attempt.base.as_ref();
    let team = Definition::parse_without_files(&attempt.team, "team.toml", base);
    let team = team.unwrap_or_else(|error| panic!("{}: {error}", attempt.name));
    let mut env = Environment::new(&team.team);
    env.idea = "go".into();
    (attempt.change)(&mut env);
    let mut files: BTreeMap<String, Digest> = BTreeMap::new();
    let mut contents = Blobs::new();
    let probe = std::fs::read(probe::component()).unwrap();
    let others = attempt.files.iter();
    let others = others.map(|(path, text)| (path.clone(), text.clone().into_bytes()));
    for (path, bytes) in others.chain([("team/probe.wasm".to_owned(), probe)]) {
        let digest = digest_of(&bytes);
        files.insert(path, digest.clone());
        contents.insert(digest, Arc::from(bytes));
    }
    let definition = SavedDefinition {
        name: "team.toml".into(),
        base: base.into(),
        text: attempt.team.clone(),
        components: attempt.components.clone(),
    };
    let needs = RunNeeds {
        labels: vec![pool.label.clone()],
        secrets: Vec::new(),
    };
    let database = RunDatabase::parse(&pool.url).unwrap();
    let submitted = database.submit(&NewSubmission {
        name: &pool.name(&n.to_string()),
        team: "attempt",
        base: &env,
        definition: &definition,
        blobs: &contents,
        files: &files,
        contents: &contents,
        scope: None,
        identity: SubmissionIdentity::unserved(),
        resume_note: None,
        records: &[],
        needs: &needs,
        tags: &BTreeMap::new(),
        handover: Handover::Queued,
    });
    submitted.unwrap_or_else(|error| panic!("{}: {error}", attempt.name));
}

/// Ways to files.
fn files_of_the_worker(home: &Workspace) -> Vec<Attempt> {
    let secret = home.path("secret.toml").display().to_string();
    let here = home.path("").display().to_string();
    let read = (
        "STEPS",
        "{ read = \"/in/secret.toml\" }, { say = \"{reads}\" }",
    );
    let dirs =
        |host: &str| format!("dirs = [{{ host = \"{host}\", guest = \"/in\", write = true }}]");
    let dir = |name, host: &str| {
        let expected = refused("the directory");
        attempt(name, &[read, ("ALLOW", &dirs(host))], expected)
    };
    let replies =
        |kind: &str, file: &str| format!("[llm]\nprovider = \"{kind}\"\nreplies = \"{file}\"\n");
    let file = |name, part, text: &str| attempt(name, &[(part, text)], refused("read the file"));
    let schema = |file: &str| format!("output_schema = \"{file}\"");
    let mut all = vec![
        dir("a directory of the worker", &here),
        dir("the directory above", ".."),
        dir("two directories above", "../.."),
        dir("a way out through a directory", "a/../../x"),
        file(
            "a component elsewhere",
            "COMPONENT",
            &home.path("probe.wasm").display().to_string(),
        ),
        file("a component above", "COMPONENT", "../../../probe.wasm"),
        file(
            "a script of the worker",
            "COMPONENT",
            &home.path("secret.py").display().to_string(),
        ),
        file("a schema elsewhere", "MORE", &schema(&secret)),
        file("a schema above", "MORE", &schema("../../secret.toml")),
        file("replies elsewhere", "EXTRA", &replies("scripted", &secret)),
        file(
            "recorded replies elsewhere",
            "EXTRA",
            &replies("recorded", &secret),
        ),
        attempt(
            "a way out of a granted directory",
            &[
                ("STEPS", "{ read = \"/in/../../../secret.toml\" }"),
                ("ALLOW", &dirs("in")),
            ],
            Expected::Runs("action-failed"),
        ),
    ];
    let with_override = |name, file: &str| Attempt {
        components: vec![ComponentReplacement::new("A.p", file)],
        ..attempt(name, &[], refused("read the file"))
    };
    all.extend([
        with_override("a replaced component", &secret),
        with_override("a replaced component above", "/bundle/../../secret.wasm"),
    ]);
    let with_file = |name, path: &str| Attempt {
        files: vec![(path.into(), SECRET.into())],
        ..attempt(name, &[], refused("cannot be the path of a file"))
    };
    all.extend([
        with_file("a file of the bundle above", "../escaped"),
        with_file("a file of the bundle far above", "team/../../escaped"),
        with_file(
            "a file of the bundle elsewhere",
            &home.path("escaped").display().to_string(),
        ),
    ]);
    all.push(Attempt {
        base: here,
        ..attempt("a team file elsewhere", &[], refused("was not submitted"))
    });
    all.push(Attempt {
        change: |env| {
            let content = PathContent::File {
                digest: digest_of(b"crown-jewels"),
                bytes: 12,
            };
            let path = "../../escaped".to_owned();
            env.files.intended.insert(path.clone(), content.clone());
            env.files.pending.push(Placement {
                path,
                expected: PathContent::Absent,
                content,
            });
        },
        files: vec![("team/x".into(), SECRET.into())],
        ..attempt(
            "a saved file above the workspace",
            &[("ALLOW", &dirs("."))],
            Expected::Runs(""),
        )
    });
    all
}

/// A component that was replaced in the database after the team was submitted.
fn replaced_component() -> Attempt {
    let lock = format!(
        "version = 1\n[[component]]\nsource = \"../components/0/p.wasm\"\nsha256 = \"{}\"\nsize = 1\n",
        "0".repeat(64)
    );
    Attempt {
        components: vec!["A.p=/bundle/components/0/p.wasm".into()],
        files: vec![
            ("components/0/p.wasm".into(), "(component)".into()),
            ("team/strata.lock".into(), lock),
        ],
        ..attempt("a replaced component", &[], refused("locked is `0000"))
    }
}

/// Ways to variables, secrets, programs and servers.
fn other_things_of_the_worker(web: &Web) -> Vec<Attempt> {
    let port = web.port();
    let grant = |name, allow: &str, part: &str| attempt(name, &[("ALLOW", allow)], refused(part));
    let http = |name, host: &str| {
        let allow = format!("http = [{{ host = \"{host}\" }}]");
        let expected = refused("make requests");
        let steps = format!("{{ http = \"http://{host}/v1/stolen\" }}");
        attempt(name, &[("ALLOW", &allow), ("STEPS", &steps)], expected)
    };
    let extra = |name, text: &str, part: &str| attempt(name, &[("EXTRA", text)], refused(part));
    let model = format!(
        "[llm]\nprovider = \"openai\"\nbase_url = \"http://127.0.0.1:{port}/v1\"\nmodel = \"m\"\n"
    );
    vec![
        grant(
            "a variable",
            "env = [\"TOKEN\"]",
            "read the variable `TOKEN`",
        ),
        grant(
            "a secret",
            "secrets = [\"TOKEN\"]",
            "use the secret `TOKEN`",
        ),
        grant(
            "a secret for a server",
            "http = [{ host = \"example.com\", secrets = [\"TOKEN\"] }]",
            "TOKEN",
        ),
        extra("a model here", &model, "ask the language model"),
        extra(
            "a model with a key",
            "[llm]\nprovider = \"openai\"\nbase_url = \"https://example.com/v1\"\nmodel = \"m\"\napi_key = { env = \"TOKEN\" }\n",
            "TOKEN",
        ),
        extra(
            "a program",
            "[env.external]\nkind = \"stdio\"\ncommand = [\"sh\", \"-c\", \"echo > escaped\"]\n",
            "start the program",
        ),
        extra(
            "a server for messages",
            &format!(
                "[env.external]\nkind = \"http\"\nurl = \"http://127.0.0.1:{port}/v1/stolen\"\n"
            ),
            "send messages to",
        ),
        Attempt {
            files: vec![(
                "team/src/Cargo.toml".into(),
                "[package]\nname = \"x\"\n".into(),
            )],
            ..attempt(
                "a build",
                &[("COMPONENT", "src")],
                refused("build the source"),
            )
        },
        http("this machine", &format!("127.0.0.1:{port}")),
        http("this machine by name", &format!("localhost:{port}")),
        http("this machine as a number", &format!("2130706433:{port}")),
        http("this machine in hexadecimal", &format!("0x7f.1:{port}")),
        http("this machine with IPv6", &format!("[::1]:{port}")),
        http(
            "this machine as IPv4 in IPv6",
            &format!("[::ffff:127.0.0.1]:{port}"),
        ),
        http("a private network", "10.0.0.1"),
        http("the credentials of a cloud", "169.254.169.254"),
        attempt(
            "this machine with a grant for all public servers",
            &[
                ("ALLOW", "http = [{ host = \"*\" }]"),
                (
                    "STEPS",
                    &format!("{{ http = \"http://127.0.0.1:{port}/v1/stolen\" }}"),
                ),
            ],
            Expected::Runs("action-failed"),
        ),
        attempt(
            "a variable that is not granted",
            &[("STEPS", "{ getenv = \"TOKEN\" }")],
            Expected::Runs("action-failed"),
        ),
        attempt(
            "a secret that is not granted",
            &[("STEPS", "{ secret = \"TOKEN\" }")],
            Expected::Runs("action-failed"),
        ),
    ]
}

#[test]
fn a_submitted_team_reaches_nothing_of_the_worker_in_any_known_way() {
    let Some(pool) = Pool::new() else { return };
    let (home, web) = (Workspace::empty(), Web::new());
    home.write("secret.toml", format!("[[reply]]\ntext = \"{SECRET}\"\n"));
    home.write("secret.py", format!("# {SECRET}\n"));
    home.write("secret.wasm", SECRET);
    let mut all = files_of_the_worker(&home);
    all.extend(other_things_of_the_worker(&web));
    all.push(replaced_component());
    assert!(all.len() >= 30, "{}", all.len());
    for (n, attempt) in all.iter().enumerate() {
        submit(&pool, n, attempt);
    }
    let mut command = pool.worker_command(&home, &["--room", "3"]);
    command.env("TOKEN", SECRET);
    let worker = crate::process::Process::spawn(command);
    for (n, attempt) in all.iter().enumerate() {
        let (run, name) = (n.to_string(), attempt.name);
        let location = pool.location(&run);
        let mut problem = None;
        wait_until(|| {
            let state = location.submission_state().unwrap().unwrap();
            problem = state.problem;
            !state.is_owned && state.schedule == Some(RunSchedule::OnRequest)
        });
        let url = pool.run(&run);
        match &attempt.expected {
            Expected::Refused(part) => {
                let problem = problem.unwrap_or_default();
                assert!(problem.contains(part.as_str()), "{name}: {problem}");
                assert!(!problem.contains(SECRET), "{name}: {problem}");
            }
            Expected::Runs(part) => {
                assert_eq!(problem, None, "{name}");
                let events = home.host(&["events", &url]).expect(0).stdout;
                assert!(events.contains(part), "{name}: {events}");
                assert!(!events.contains(SECRET), "{name}: {events}");
            }
        }
    }
    worker.signal(Signal::TERM);
    let ended = worker.end().expect(0);
    assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
    assert_eq!(web.lines(), Vec::<String>::new());
    let escaped = [home.path("escaped"), home.path("../escaped")];
    assert!(escaped.iter().all(|file| !file.exists()));
    assert!(!home.path("workspaces/escaped").exists());
}

#[test]
fn a_policy_grants_what_it_names_and_nothing_else() {
    let Some(pool) = Pool::new() else { return };
    let (home, web) = (Workspace::empty(), Web::new());
    let host = format!("127.0.0.1:{}", web.port());
    home.write(
        "policy.toml",
        format!("schema = \"strata.policy/1\"\n[allow]\nhttp = [{{ host = \"{host}\" }}]\nenv = [\"PUBLIC\"]\n"),
    );
    // The run's own directory need not be named.
    let own = "dirs = [{ host = \"out\", guest = \"/out\", write = true }]";
    let allow = format!("http = [{{ host = \"{host}\" }}]\nenv = [\"PUBLIC\", \"TOKEN\"]\n{own}\n");
    let steps = format!(
        "{{ write = \"/out/own.txt\", text = \"own\" }}, {{ http = \"http://{host}/v1/granted\" }}, {{ getenv = \"PUBLIC\" }}, {{ getenv = \"TOKEN\" }}"
    );
    let granted = attempt(
        "what is granted and more",
        &[("ALLOW", &allow), ("STEPS", &steps)],
        Expected::Runs("action-failed"),
    );
    submit(&pool, 0, &granted);
    let mut command = pool.worker_command(&home, &["--policy", "policy.toml"]);
    command.env("TOKEN", SECRET).env("PUBLIC", "yes");
    let worker = crate::process::Process::spawn(command);
    pool.until_event(&home, "0", "run-ended");
    let events = home.host(&["events", &pool.run("0")]).expect(0).stdout;
    assert!(
        events.contains("action-failed") && !events.contains(SECRET),
        "{events}"
    );
    assert_eq!(web.lines().len(), 1);
    worker.signal(Signal::TERM);
    worker.end().expect(0);
}
