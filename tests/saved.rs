//! What is saved, without what differs from run to run.

use serde_json::{Map, Value};

/// A `team.json` without the run's name, the folder it lies in, the counts of attempts and of calls that they were
/// served.
pub fn essence(mut team: Value) -> Value {
    let strata = team["strata"]
        .as_object_mut()
        .expect("`strata` is an object");
    strata.remove("run_id");
    strata.remove("definition");
    strip(&mut team, &["attempts", "attempt", "served", "saved"]);
    team
}

/// The same, and without the checkpoints, which stops add to.
pub fn essence_without_checkpoints(team: Value) -> Value {
    let mut team = essence(team);
    let strata = team["strata"]
        .as_object_mut()
        .expect("`strata` is an object");
    for key in ["checkpoint", "parent", "checkpoints"] {
        strata.remove(key);
    }
    team
}

/// The same, and without what tells lineages apart: their names, and what was spent on others.
pub fn essence_of_lineage(team: Value) -> Value {
    let mut team = essence_without_checkpoints(team);
    let strata = team["strata"]
        .as_object_mut()
        .expect("`strata` is an object");
    for key in ["lineage", "forks", "budget"] {
        strata.remove(key);
    }
    team
}

fn strip(value: &mut Value, keys: &[&str]) {
    match value {
        Value::Object(fields) => {
            *fields = std::mem::take(fields)
                .into_iter()
                .filter(|(key, _)| !keys.contains(&key.as_str()))
                .collect::<Map<_, _>>();
            fields.values_mut().for_each(|value| strip(value, keys));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| strip(value, keys)),
        _ => {}
    }
}
