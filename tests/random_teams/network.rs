//! Teams that park faults while other roles continue. When a role gets its messages depends on when
//! others are resumed, but which messages it gets must not. Each role therefore acts once: on the
//! idea, on the output of one role, or on what a join releases. What it writes is combined by
//! reducers that do not depend on the order.

use std::fmt::Write;

use serde_json::{Value, json};

use super::rng::Rng;

const ROLES: u64 = 6;

/// Returns a team file with placeholders `FAULT` among its steps.
pub fn team(dice: &mut Rng) -> String {
    let mut text = format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"network\"\nidea = \"begin\"\non_fault = \"park\"\n\
         [env.scope.list]\nreducer = \"append\"\n[env.scope.sum]\nreducer = \"add\"\n[env.scope.top]\nreducer = \"max\"\n\
         [env.scope.map]\nreducer = \"merge\"\n[run]\nmax_parallel = {}\n",
        1 + dice.below(4)
    );
    for role in 0..ROLES {
        let watch = if role < 2 { "\"UserRequirement\"" } else { "" };
        write!(text, "\n[[role]]\nname = \"R{role}\"\nwatch = [{watch}]\n").unwrap();
        for action in 0..1 + dice.below(2) {
            let (scope, value) = match dice.below(4) {
                0 => ("list", format!("\"R{role}{action}\"")),
                1 => ("map", format!("{{ R{role}{action} = {} }}", dice.below(9))),
                2 => ("sum", dice.below(9).to_string()),
                _ => ("top", dice.below(9).to_string()),
            };
            write!(
                text,
                "[[role.action]]\nname = \"L{role}{action}\"\ncomponent = \"probe.wasm\"\nconfig = {{ steps = [FAULT \
                 {{ set = \"own\", value = {action} }}, {{ set = \"k\", value = {value}, scope = \"{scope}\" }}, FAULT \
                 {{ say = \"L{role}{action} of {{inputs}}\" }}] }}\n"
            )
            .unwrap();
        }
    }
    (2..ROLES).for_each(|role| feed(&mut text, role, dice));
    text
}

/// Connects a role with earlier ones: with one, or with several by a join. The last role may
/// receive their messages one by one.
fn feed(text: &mut String, role: u64, dice: &mut Rng) {
    let mut from: Vec<u64> = (0..role).filter(|_| !dice.one_in(3)).collect();
    if from.is_empty() {
        from.push(dice.below(role));
    }
    let to = if from.len() > 1 {
        format!("j{role}")
    } else {
        format!("R{role}")
    };
    for source in &from {
        writeln!(text, "[[route]]\nfrom = \"R{source}\"\nto = [\"{to}\"]").unwrap();
    }
    if from.len() > 1 {
        let sources: Vec<String> = from
            .iter()
            .rev()
            .map(|source| format!("\"R{source}\""))
            .collect();
        let deliver = if role + 1 == ROLES {
            dice.pick(&["batch", "each"])
        } else {
            "batch"
        };
        writeln!(
            text,
            "[[join]]\nid = \"{to}\"\nfrom = [{}]\nto = \"R{role}\"\ndeliver = \"{deliver}\"",
            sources.join(", ")
        )
        .unwrap();
    }
}

/// Returns the saved state without what depends on the times of events.
pub fn outcome(team: &Value) -> Value {
    let message = |message: &Value| format!("{}: {}", message["cause_by"], message["content"]);
    let messages = |list: &Value| {
        list.as_array()
            .into_iter()
            .flatten()
            .map(message)
            .collect::<Vec<_>>()
    };
    let mut history = messages(&team["env"]["history"]["storage"]);
    history.sort_unstable();
    let roles = team["env"]["roles"].as_object().expect("roles").iter();
    let memories: Vec<_> = roles
        .map(|(name, role)| (name, messages(&role["rc"]["memory"]["storage"])))
        .collect();
    let mut state = team["strata"]["state"].clone();
    if let Some(list) = state
        .pointer_mut("/env/list/k")
        .and_then(Value::as_array_mut)
    {
        list.sort_by_key(Value::to_string);
    }
    let strata = &team["strata"];
    json!([
        history,
        memories,
        state,
        strata["status"],
        strata["joins"],
        strata["buffers"],
        strata["faults"]
    ])
}
