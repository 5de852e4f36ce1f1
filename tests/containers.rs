//! The files for containers in `docs/deploy`: what they describe is consistent, and each command of theirs
//! and of their page does what it should. Without PostgreSQL, the commands are not run, which is said.

use std::fs;

use yaml_rust2::{Yaml, YamlLoader};

use crate::database_commands::new_database;
use crate::live::GREETER;
use crate::probe::project;
use crate::process::Process;
use crate::workers::stop_workers;
use crate::workspace::Workspace;

/// The name of the image in all files.
const IMAGE: &str = "strata-host";
/// How long an orderly stop may take after the time of `--drain`.
const STOP_SECONDS: u64 = 20;

/// What runs in a container of the program.
struct Container {
    /// Its name, with that of the file.
    name: String,
    /// The arguments of the program.
    arguments: Vec<String>,
    /// For how long it may take to stop.
    grace_s: u64,
}

impl Container {
    fn is_worker(&self) -> bool {
        self.arguments[0] == "worker"
    }
}

fn read(file: &str) -> String {
    fs::read_to_string(project().join("docs/deploy").join(file)).unwrap()
}

pub fn documents(file: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

fn texts(list: &Yaml) -> Vec<String> {
    let list = list.as_vec().expect("a list of arguments");
    let texts = list
        .iter()
        .map(|text| text.as_str().expect("a text").to_owned());
    texts.collect()
}

/// Returns the containers of the compose file.
fn composed() -> Vec<Container> {
    let documents = documents("compose.yaml");
    let services = documents[0]["services"].as_hash().unwrap().iter();
    let own = services.filter(|(_, service)| service["image"].as_str() == Some(IMAGE));
    own.map(|(name, service)| Container {
        name: format!("compose: {}", name.as_str().unwrap()),
        arguments: texts(&service["command"]),
        grace_s: match service["stop_grace_period"].as_str() {
            Some(time) => time.strip_suffix('s').unwrap().parse().unwrap(),
            None => 10,
        },
    })
    .collect()
}

/// Returns the containers of the Kubernetes manifest.
fn orchestrated() -> Vec<Container> {
    let mut all = Vec::new();
    for document in documents("kubernetes.yaml") {
        let pod = &document["spec"]["template"]["spec"];
        for container in pod["containers"].as_vec().into_iter().flatten() {
            assert_eq!(container["image"].as_str(), Some(IMAGE));
            let grace = pod["terminationGracePeriodSeconds"].as_i64();
            all.push(Container {
                name: format!("kubernetes: {}", container["name"].as_str().unwrap()),
                arguments: texts(&container["args"]),
                grace_s: grace.unwrap_or(30) as u64,
            });
        }
    }
    all
}

/// Returns the policy of the Kubernetes manifest.
fn policy() -> String {
    let documents = documents("kubernetes.yaml");
    let policy = documents
        .iter()
        .find(|one| one["kind"].as_str() == Some("ConfigMap"));
    policy.unwrap()["data"]["policy.toml"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Returns the commands of the page that are run outside of containers.
fn commands_of_the_page() -> Vec<String> {
    let page = fs::read_to_string(project().join("docs/src/containers.md")).unwrap();
    let lines = page.lines().filter(|line| line.starts_with("strata-host "));
    lines.map(str::to_owned).collect()
}

/// Returns a text with the URL of a real database instead of those in the files.
fn with_database(text: &str, url: &str) -> String {
    for placeholder in [
        "postgres://strata@database/teams?sslmode=disable",
        "postgres://strata@db.example.com/teams",
        "postgres://strata@127.0.0.1/teams",
    ] {
        if text == placeholder {
            return url.to_owned();
        }
    }
    assert!(
        !text.starts_with("postgres://"),
        "`{text}` is another database"
    );
    text.to_owned()
}

#[test]
fn a_worker_in_a_container_has_the_time_to_drain_and_to_stop() {
    let (composed, orchestrated) = (composed(), orchestrated());
    for containers in [&composed, &orchestrated] {
        assert!(containers.iter().any(Container::is_worker));
        assert!(
            containers
                .iter()
                .any(|one| one.arguments[..2] == ["database", "migrate"])
        );
    }
    for container in composed.iter().chain(&orchestrated) {
        let drain = container
            .arguments
            .iter()
            .skip_while(|one| *one != "--drain");
        let Some(drain) = drain.into_iter().nth(1) else {
            assert!(!container.is_worker(), "{}", container.name);
            continue;
        };
        let needed: u64 = drain.parse::<u64>().unwrap() + STOP_SECONDS;
        assert!(
            needed < container.grace_s,
            "{}: {needed} s are needed",
            container.name
        );
    }
}

#[test]
fn the_image_contains_the_program_and_certificates_and_runs_without_privileges() {
    let file = read("Containerfile");
    let lines = file.lines().filter(|line| !line.starts_with('#'));
    let instructions: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(' ')).collect();
    let value = |name: &str| {
        let found = instructions
            .iter()
            .filter(|(instruction, _)| *instruction == name);
        found.map(|(_, value)| *value).collect::<Vec<_>>()
    };
    assert_eq!(value("FROM"), ["scratch"]);
    assert_eq!(value("ENTRYPOINT"), ["[\"/strata-host\"]"]);
    assert!(value("COPY").contains(&"strata-host /strata-host"));
    let user: Vec<&str> = value("USER")[0].split(':').collect();
    assert!(
        user.iter().all(|id| id.parse::<u32>().unwrap() > 0),
        "{user:?}"
    );
    // What is written to are directories of this user.
    for directory in ["/work", "/cache"] {
        let copied = format!("--chown={} empty {directory}", value("USER")[0]);
        assert!(value("COPY").contains(&&*copied), "{directory}");
        assert!(value("VOLUME")[0].contains(directory));
    }
}

#[test]
fn each_command_of_the_containers_and_of_their_page_works() {
    for containers in [composed(), orchestrated()] {
        let Some(url) = new_database() else {
            return;
        };
        let (place, elsewhere) = (Workspace::with(GREETER), Workspace::empty());
        elsewhere.write("policy.toml", policy());
        let command = |container: &Container| {
            let arguments = container.arguments.iter();
            let arguments: Vec<String> = arguments
                .map(|one| match &**one {
                    "/etc/strata-host/policy.toml" => "policy.toml".into(),
                    one => with_database(one, &url),
                })
                .collect();
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            elsewhere.command(&arguments)
        };
        let (workers, others): (Vec<_>, Vec<_>) = containers
            .iter()
            .partition(|container| container.is_worker());
        for container in others {
            Process::spawn(command(container)).end().expect(0);
        }
        let workers: Vec<Process> = workers
            .into_iter()
            .map(|one| Process::spawn(command(one)))
            .collect();
        let commands = commands_of_the_page();
        assert!(!commands.is_empty());
        for line in commands {
            let words = shell_words(&line);
            let words: Vec<String> = words.iter().map(|word| with_database(word, &url)).collect();
            let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
            let ended = place.host(&words).expect(0);
            assert_eq!(ended.stdout, "re: write a snake game\n");
        }
        stop_workers(workers);
    }
}

/// Splits a command at spaces outside of quotes.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (n, part) in line.split('"').enumerate() {
        match n % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}
