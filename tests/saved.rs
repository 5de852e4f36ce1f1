//! The saved state without what differs between runs.

use serde_json::{Map, Value};

/// Returns a `team.json` without the name and the directory of the run, and without the numbers of
/// attempts and of calls that were served from the record.
pub fn essence(mut team: Value) -> Value {
    let strata = team["strata"]
        .as_object_mut()
        .expect("`strata` is an object");
    strata.remove("run_id");
    strata.remove("definition");
    strip(&mut team, &["attempts", "attempt", "served", "saved"]);
    team
}

/// Returns the same without the checkpoints, to which stops add.
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

/// Returns the same without what differs between lineages: their names, and what was spent in
/// others.
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
