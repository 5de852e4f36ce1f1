//! Compares the JSON Schema of team files with the parser.
//!
//! First whole files; then every table gets every key of the schema and an unknown one, and every
//! key gets values of all kinds. A file that is parsed must match the schema. A file that is
//! refused for a key, type, word or range must not. So a key that is missing in one of the two is
//! found.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use strata_manifest::operator::OperatorPolicy;
use strata_manifest::schema::{self, FileKind};
use strata_services::plugin::{LimitAdvice, Plugin};
use toml::{Table, Value};

use super::*;

/// Parts of the messages about problems that a schema detects too. Other problems concern names,
/// targets, files and conditions.
const SEEN_BY_SCHEMAS: [&str; 13] = [
    "has no key `",
    "help: expected a string",
    "help: expected a list",
    "help: expected a table",
    "help: expected `true` or `false`",
    "help: expected a whole number",
    "help: expected an amount",
    "help: one of `",
    "cannot be the size `",
    "cannot be the duration `",
    "` cannot be zero",
    "is not the name of an environment variable",
    "is listed twice in",
];

/// Returns values of all kinds, and all keywords, but no dates, which are strings in JSON.
fn values() -> Vec<Value> {
    let values = "v = [
        true, -1, 0, 1, 7, 101, 1025, 4294967295, 4294967296, -0.5, 1.5,
        '', 'x', '/x', 'GET', '0s', '10s', '1.5 s', '10', 's', '0MiB', '64MiB', '64 mib', '.5KB', '1..5MB', 'x@1.0.0', 'x@1', 'A=B',
        'agent', 'human', 'by_order', 'react', 'plan_and_act', 'stop', 'park', 'append', 'add', 'max', 'merge', 'last',
        'full', 'process', 'all', 'any', 'active', 'batch', 'each', 'stdio', 'http', 'openai', 'scripted', 'recorded',
        [], ['x'], ['x', 'x'], ['x', 1], [[]], {}, { x = 1 }, [{}], [{ x = 1 }],
    ]";
    let mut table: Table = values.parse().unwrap();
    table
        .remove("v")
        .and_then(|values| values.as_array().cloned())
        .unwrap()
}

/// A step of a path in a file.
#[derive(Clone)]
enum PathStep {
    Key(String),
    Index(usize),
}

fn at<'a>(value: &'a mut Value, path: &[PathStep]) -> &'a mut Value {
    path.iter().fold(value, |value, at| match at {
        PathStep::Key(key) => &mut value[key.as_str()],
        PathStep::Index(index) => &mut value[*index],
    })
}

/// Collects the paths of all tables whose keys the host defines.
fn tables(value: &Value, path: &[PathStep], found: &mut Vec<Vec<PathStep>>) {
    let below = |at: PathStep| [path, &[at]].concat();
    match value {
        Value::Table(table) => {
            let theirs = |key: &str| matches!(key, "config" | "groups");
            let names = matches!(path.last(), Some(PathStep::Key(key)) if key == "scope");
            if !names {
                found.push(path.to_vec());
            }
            let ours = table.iter().filter(|(key, _)| !theirs(key));
            ours.for_each(|(key, value)| tables(value, &below(PathStep::Key(key.clone())), found));
        }
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, value)| tables(value, &below(PathStep::Index(index)), found));
        }
        _ => {}
    }
}

/// Returns the tables of all good files with their files, once for each kind of table and set of
/// keys.
fn kinds_of_tables() -> Vec<(Value, Vec<PathStep>)> {
    let mut seen = BTreeSet::new();
    let mut kinds = Vec::new();
    for file in files("good") {
        let mut team = toml_of(&file).unwrap();
        let mut places = Vec::new();
        tables(&team, &[], &mut places);
        for place in places {
            let path: Vec<String> = place
                .iter()
                .filter_map(|at| {
                    if let PathStep::Key(key) = at {
                        Some(key.clone())
                    } else {
                        None
                    }
                })
                .collect();
            let keys: Vec<String> = at(&mut team, &place)
                .as_table()
                .unwrap()
                .keys()
                .cloned()
                .collect();
            if seen.insert((path, keys)) {
                kinds.push((team.clone(), place));
            }
        }
    }
    kinds
}

/// Collects all keys of the schema's tables.
fn keys(schema: &Json, found: &mut BTreeSet<String>) {
    match schema {
        Json::Object(map) => {
            let properties = map.get("properties").and_then(Json::as_object);
            found.extend(properties.into_iter().flatten().map(|(key, _)| key.clone()));
            map.values().for_each(|value| keys(value, found));
        }
        Json::Array(items) => items.iter().for_each(|item| keys(item, found)),
        _ => {}
    }
}

struct Judge {
    validator: jsonschema::Validator,
    here: PathBuf,
}

impl Judge {
    fn new(here: PathBuf) -> Self {
        Self {
            validator: jsonschema::validator_for(&schema::document(FileKind::Team)).unwrap(),
            here,
        }
    }

    fn fits(&self, file: &Value) -> Result<(), String> {
        let file = json(file);
        // Much faster than collecting the errors.
        if self.validator.is_valid(&file) {
            return Ok(());
        }
        let errors = self
            .validator
            .iter_errors(&file)
            .map(|error| format!("{}: {error}", error.instance_path()));
        let errors: Vec<String> = errors.collect();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors.join("\n"))
        }
    }

    /// Fails if the parser and the schema disagree about a file.
    fn compare(&self, file: &Value) {
        let text = toml::to_string(file).unwrap();
        let read =
            Definition::parse(&text, "team.toml", &self.here).map_err(|error| error.to_string());
        match (read, self.validator.is_valid(&json(file))) {
            (Ok(_), false) => panic!(
                "read, but refused by the schema:\n{text}\n{:?}",
                self.fits(file)
            ),
            (Err(why), true) => {
                let seen = SEEN_BY_SCHEMAS.iter().find(|sign| why.contains(*sign));
                assert_eq!(seen, None, "refused, but not by the schema:\n{text}\n{why}");
            }
            _ => {}
        }
    }
}

/// Converts a file to JSON, in which dates are strings.
fn json(value: &Value) -> Json {
    match value {
        Value::Datetime(date) => date.to_string().into(),
        Value::Array(items) => items.iter().map(json).collect(),
        Value::Table(table) => Json::Object(
            table
                .iter()
                .map(|(key, value)| (key.clone(), json(value)))
                .collect(),
        ),
        plain => serde_json::to_value(plain).unwrap(),
    }
}

fn toml_of(file: &Path) -> Option<Value> {
    fs::read_to_string(file)
        .unwrap()
        .trim_start_matches('\u{feff}')
        .parse::<Table>()
        .ok()
        .map(Value::Table)
}

/// Returns every team file of the project that is meant to be good.
fn good_files() -> Vec<PathBuf> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap();
    let mut found = files("good");
    for dir in ["plugins/teams", "tests/fixtures"] {
        for entry in fs::read_dir(project.join(dir)).unwrap() {
            let inside = fs::read_dir(entry.unwrap().path())
                .unwrap()
                .map(|entry| entry.unwrap().path());
            found.extend(inside.filter(|file| {
                let team = |text: String| {
                    text.starts_with("schema = \"strata.team/1\"") || text.contains("\nschema = \"")
                };
                file.extension() == Some("toml".as_ref()) && team(fs::read_to_string(file).unwrap())
            }));
        }
    }
    assert!(found.len() > 8, "{found:?}");
    found
}

#[test]
fn every_team_file_of_the_project_fits_the_schema() {
    let judge = Judge::new(folder("good"));
    for file in good_files() {
        let team = toml_of(&file).unwrap();
        judge
            .fits(&team)
            .unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    }
}

#[test]
fn bad_files_of_the_kinds_that_a_schema_can_tell_do_not_fit_it() {
    let judge = Judge::new(folder("bad"));
    let mut refused = 0;
    for file in files("bad") {
        let Some(team) = toml_of(&file) else { continue };
        let why = fs::read_to_string(file.with_extension("stderr")).unwrap();
        if SEEN_BY_SCHEMAS.iter().any(|sign| why.contains(sign)) {
            refused += 1;
            assert!(judge.fits(&team).is_err(), "{} fits", file.display());
        }
    }
    assert!(refused > 8, "{refused}");
}

#[test]
fn the_good_files_hold_every_key_of_the_schema() {
    fn collect(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Table(table) => table.iter().for_each(|(key, value)| {
                found.insert(key.clone());
                collect(value, found);
            }),
            Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
            _ => {}
        }
    }
    let (mut known, mut held) = (BTreeSet::new(), BTreeSet::new());
    keys(&schema::document(FileKind::Team), &mut known);
    good_files()
        .iter()
        .for_each(|file| collect(&toml_of(file).unwrap(), &mut held));
    let missing: Vec<&String> = known.difference(&held).collect();
    assert!(
        missing.is_empty(),
        "in no file of host/manifest/tests/manifest/good: {missing:?}"
    );
}

#[test]
fn the_schema_knows_the_keys_that_are_read_and_no_others() {
    let judge = Judge::new(folder("good"));
    let mut names = BTreeSet::from(["no_such_key".to_owned()]);
    keys(&schema::document(FileKind::Team), &mut names);
    for (team, place) in kinds_of_tables() {
        for name in &names {
            let mut changed = team.clone();
            let table = at(&mut changed, &place).as_table_mut().unwrap();
            if table.contains_key(name) {
                continue;
            }
            table.insert(name.clone(), "x".into());
            let text = toml::to_string(&changed).unwrap();
            let read = Definition::parse(&text, "team.toml", &judge.here);
            let unread = format!("has no key `{name}`");
            let known = read
                .err()
                .is_none_or(|error| !error.to_string().contains(&unread));
            let unexpected = format!("'{name}' was unexpected");
            match judge.fits(&changed) {
                Err(why) if known => assert!(
                    !why.contains(&unexpected),
                    "not in the schema:\n{text}\n{why}"
                ),
                Err(_) => {}
                Ok(()) => assert!(known, "in the schema, but not read: `{name}`\n{text}"),
            }
        }
    }
}

#[test]
fn values_of_all_kinds_are_judged_alike() {
    let judge = Judge::new(folder("good"));
    let values = values();
    let mut seen = BTreeSet::new();
    for (mut team, place) in kinds_of_tables() {
        let keys: Vec<String> = at(&mut team, &place)
            .as_table()
            .unwrap()
            .keys()
            .cloned()
            .collect();
        for key in keys {
            let mut changed = team.clone();
            at(&mut changed, &place)
                .as_table_mut()
                .unwrap()
                .remove(&key);
            judge.compare(&changed);
            let path = place
                .iter()
                .map(|at| {
                    if let PathStep::Key(key) = at {
                        key
                    } else {
                        "[]"
                    }
                })
                .collect::<Vec<_>>()
                .join(".");
            let new = seen.insert(format!("{path}.{key}"));
            for value in values.iter().filter(|_| new) {
                at(&mut changed, &place)
                    .as_table_mut()
                    .unwrap()
                    .insert(key.clone(), value.clone());
                judge.compare(&changed);
            }
        }
    }
}

#[test]
fn what_the_schema_calls_a_default_changes_nothing() {
    let schema = schema::document(FileKind::Team);
    let defaults = |pointer: &str| -> Table {
        let table = schema
            .pointer(pointer)
            .unwrap_or_else(|| panic!("{pointer}"));
        let properties = table["properties"].as_object().unwrap().iter();
        // It needs a role with another `react`.
        let of = |(key, schema): (&String, &Json)| {
            let default = schema.get("default").filter(|_| key != "max_react_loop")?;
            Some((key.clone(), Value::try_from(default).unwrap()))
        };
        properties.filter_map(of).collect()
    };
    let plain = toml_of(&folder("good/smallest.toml")).unwrap();
    let mut full = plain.clone();
    for (table, pointer) in [
        ("run", "/properties/run"),
        ("limits", "/properties/limits"),
        ("team", "/properties/team"),
    ] {
        let file = full.as_table_mut().unwrap();
        let entry = file.entry(table).or_insert_with(|| Table::new().into());
        entry.as_table_mut().unwrap().extend(defaults(pointer));
    }
    let role = full["role"][0].as_table_mut().unwrap();
    role.extend(defaults("/$defs/role"));
    let action = full["role"][0]["action"][0].as_table_mut().unwrap();
    action.extend(defaults("/$defs/action"));
    action.insert("limits".into(), defaults("/properties/limits").into());
    assert!(full["limits"].as_table().unwrap().len() > 8);
    let read = |team: &Value| {
        let text = toml::to_string(team).unwrap();
        let team = Definition::parse(&text, "team.toml", &folder("good"))
            .unwrap_or_else(|e| panic!("{e}\n{text}"));
        // The location at which a limit can be changed differs.
        let advice = |(slot, plugin): (_, Plugin)| {
            (
                slot,
                Plugin {
                    advice: LimitAdvice::default(),
                    ..plugin
                },
            )
        };
        let plugins: Vec<_> = team.plugins.into_iter().map(advice).collect();
        format!("{:?}", (team.team, plugins, team.run, team.llm))
    };
    assert_eq!(read(&full), read(&plain));
}

#[test]
fn every_key_says_what_it_is_for() {
    fn check(schema: &Json) {
        if let Some(properties) = schema.get("properties").and_then(Json::as_object) {
            // Tables without this key only forbid or require keys that are described elsewhere.
            let own = schema.get("additionalProperties").is_some();
            for (key, value) in properties.iter().filter(|_| own) {
                assert!(value["description"].is_string(), "{key}");
            }
        }
        match schema {
            Json::Object(map) => map.values().for_each(check),
            Json::Array(items) => items.iter().for_each(check),
            _ => {}
        }
    }
    for file in [FileKind::Team, FileKind::Policy, FileKind::Replies] {
        let schema = schema::document(file);
        check(&schema);
        assert!(jsonschema::meta::is_valid(&schema));
        assert_eq!(
            schema["$schema"],
            json!("https://json-schema.org/draft/2020-12/schema")
        );
    }
}

#[test]
fn a_policy_is_read_as_its_schema_says() {
    const POLICY: &str = r#"
        schema = "strata.policy/1"
        limits = { memory = "256MiB", fuel = 0, max_turns = 9, retries = 0, run_memory = "1GiB", max_parallel = 4 }
        budget = { investment = 5.0, tokens = 1000, needs_prices = true }
        [allow]
        env = ["LANG"]
        secrets = ["TOKEN"]
        external = false
        build = true
        [allow.llm]
        models = ["small-*"]
        calls = 50
        options = ["service_tier"]
        endpoints = [{ host = "api.openai.com", path = "/v1/*", secrets = ["KEY"], price = { input = 1.0 } }]
        [[allow.http]]
        host = "*.example.com"
        methods = ["GET"]
        path = "/*"
        secrets = ["TOKEN"]
        headers = ["via"]
        [[allow.dirs]]
        host = "/srv"
        write = true
        max_size = "1GiB"
    "#;
    let validator = jsonschema::validator_for(&schema::document(FileKind::Policy)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy.toml");
    let check = |policy: &Value, fits: bool| {
        let text = toml::to_string(policy).unwrap();
        fs::write(&file, &text).unwrap();
        let read = OperatorPolicy::read(&file);
        assert_eq!(read.is_ok(), fits, "{text}\n{read:?}");
        assert_eq!(validator.is_valid(&json(policy)), fits, "{text}");
    };
    let whole = Value::Table(POLICY.parse().unwrap());
    check(&whole, true);
    let mut places = Vec::new();
    tables(&whole, &[], &mut places);
    assert_eq!(places.len(), 9);
    for place in places {
        let mut changed = whole.clone();
        let table = at(&mut changed, &place).as_table_mut().unwrap();
        table.insert("no_such_key".into(), true.into());
        check(&changed, false);
        for key in at(&mut whole.clone(), &place).as_table().unwrap().keys() {
            let mut changed = whole.clone();
            at(&mut changed, &place)[key.as_str()] = Value::Array(vec![Value::Boolean(true)]);
            check(&changed, false);
        }
    }
}
