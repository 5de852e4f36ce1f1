//! Teams that stop at faults: roles that watch earlier ones, send along routes with conditions, and
//! wait for each other in joins. Messages go only from earlier to later roles, so every run ends.

use std::fmt::Write;

use super::rng::Rng;

const ROLES: u64 = 5;

/// A join that is to be written into the team file.
struct Join {
    id: &'static str,
    from: Vec<u64>,
    to: String,
}

/// Returns a team file with placeholders `FAULT` among its steps.
pub fn team(dice: &mut Rng) -> String {
    let mut text = format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"random\"\nidea = \"begin\"\n[env]\n[env.groups]\nlast = [\"R{last}\"]\n\
         [env.scope.list]\nreducer = \"append\"\n[env.scope.sum]\nreducer = \"add\"\n[env.scope.top]\nreducer = \"max\"\n\
         [env.scope.map]\nreducer = \"merge\"\n[env.scope.newest]\nreducer = \"last\"\n\
         [limits]\nretries = 1\nbackoff = \"2ms\"\n[run]\nmax_parallel = {parallel}\n",
        parallel = 1 + dice.below(4),
        last = ROLES - 1,
    );
    let joins = joins(dice);
    for role in 0..ROLES {
        let react = dice.pick(&["by_order", "by_order", "react", "plan_and_act"]);
        let actions = 1 + dice.below(3) + u64::from(react == "plan_and_act");
        let watch = watched(role, dice);
        write!(
            text,
            "\n[[role]]\nname = \"R{role}\"\naddresses = [\"alias{role}\"]\nreact = \"{react}\"\nwatch = [{watch}]\n"
        )
        .unwrap();
        if react == "react" {
            let choices: Vec<String> = (0..3).map(|_| dice.below(actions).to_string()).collect();
            let choices = choices.join(", ");
            write!(
                text,
                "max_react_loop = 3\nthink = {{ component = \"probe.wasm\", config = {{ steps = [FAULT {{ choose = \
                 [{choices}, -1] }}] }} }}\n"
            )
            .unwrap();
        }
        for action in 0..actions {
            let plans = react == "plan_and_act" && action == 0;
            let steps = if plans {
                "FAULT { plan = [\"t1\", \"t2\", \"t3\"] }".into()
            } else {
                steps(role, &joins, dice)
            };
            write!(
                text,
                "[[role.action]]\nname = \"L{role}{action}\"\ncomponent = \"probe.wasm\"\nconfig = {{ steps = [{steps}] }}\n"
            )
            .unwrap();
        }
    }
    for join in &joins {
        write_join(&mut text, join, dice);
    }
    for role in 0..ROLES - 1 {
        if dice.one_in(6) {
            let to = later(role, dice);
            writeln!(
                text,
                "[[route]]\nfrom = \"R{role}\"\nto = [\"{to}\"]\nlabel = \"onward\""
            )
            .unwrap();
        }
    }
    text
}

/// Returns the name of a random later role.
fn later(role: u64, dice: &mut Rng) -> String {
    let later = role + 1 + dice.below(ROLES - role - 1);
    format!("{}{later}", dice.pick(&["R", "alias"]))
}

/// Returns up to two joins. The first of two may lead to the second.
fn joins(dice: &mut Rng) -> Vec<Join> {
    let mut joins = Vec::new();
    for id in ["j0", "j1"].into_iter().take(dice.below(4) as usize) {
        let mut from: Vec<u64> = (0..ROLES - 1).filter(|_| dice.one_in(2)).collect();
        if from.is_empty() {
            from.push(0);
        }
        if dice.one_in(2) {
            from.reverse();
        }
        let to = later(from.iter().copied().max().unwrap_or_default(), dice);
        joins.push(Join { id, from, to });
    }
    if let [first, second] = joins.as_mut_slice()
        && dice.one_in(2)
    {
        first.to = "j1".into();
        let more: Vec<u64> = first
            .from
            .iter()
            .copied()
            .filter(|role| !second.from.contains(role))
            .collect();
        second.from.extend(more);
        second.to = "last".into();
    }
    joins
}

/// Writes a join with routes into it, which are unconditional, conditional, or one of two cases.
fn write_join(text: &mut String, Join { id, from, to }: &Join, dice: &mut Rng) {
    for role in from {
        let way = match dice.below(4) {
            0 => format!("to = [\"{id}\"]\nwhen = \"size(content) % 2 == 0\""),
            1 => format!(
                "case = [{{ when = \"size(content) % 2 == 0\", to = [\"{id}\"] }}]\ndefault = [\"{}\", \"{id}\"]",
                later(*role, dice)
            ),
            _ => format!("to = [\"{id}\"]"),
        };
        writeln!(text, "[[route]]\nfrom = \"R{role}\"\n{way}").unwrap();
    }
    let from: Vec<String> = from.iter().map(|role| format!("\"R{role}\"")).collect();
    let (from, mode) = (from.join(", "), dice.pick(&["all", "all", "any", "active"]));
    let deliver = dice.pick(&["batch", "each"]);
    writeln!(
        text,
        "[[join]]\nid = \"{id}\"\nfrom = [{from}]\nto = \"{to}\"\nmode = \"{mode}\"\ndeliver = \"{deliver}\""
    )
    .unwrap();
}

/// Returns the labels that a role watches: those of earlier roles, and often the idea.
fn watched(role: u64, dice: &mut Rng) -> String {
    let mut labels = Vec::new();
    if role < 2 || dice.one_in(3) {
        labels.push("\"UserRequirement\"".to_owned());
    }
    for earlier in 0..role {
        labels.extend(
            (0..3)
                .filter(|_| dice.one_in(2))
                .map(|action| format!("\"L{earlier}{action}\"")),
        );
    }
    labels.join(", ")
}

/// Returns the steps of an action.
fn steps(role: u64, joins: &[Join], dice: &mut Rng) -> String {
    let mut steps = Vec::new();
    for _ in 0..dice.below(5) {
        steps.push(match dice.below(8) {
            0 => format!("{{ set = \"k\", value = {} }}", dice.below(100)),
            1 => "{ get = \"k\" }".into(),
            2 => {
                let scope = dice.pick(&["list", "newest"]);
                format!("{{ set = \"k\", value = \"R{role}\", scope = \"{scope}\" }}")
            }
            3 => format!(
                "{{ set = \"k\", value = {}, scope = \"{}\" }}",
                dice.below(9),
                dice.pick(&["sum", "top"])
            ),
            4 => format!(
                "{{ set = \"k\", value = {{ R{role} = {} }}, scope = \"map\" }}",
                dice.below(9)
            ),
            5 => {
                let scope = dice.pick(&["list", "sum", "top", "map", "newest"]);
                format!("{{ get = \"k\", scope = \"{scope}\" }}")
            }
            6 if role + 1 < ROLES => {
                let join = joins
                    .iter()
                    .find(|join| join.from.contains(&role))
                    .filter(|_| dice.one_in(2));
                let to = join.map_or_else(|| later(role, dice), |join| join.id.into());
                format!("{{ emit = \"aside\", to = [\"{to}\"], cause = \"Aside\" }}")
            }
            _ => "{ sleep = \"2ms\" }".into(),
        });
    }
    let at = dice.below(steps.len() as u64 + 1) as usize;
    steps.insert(at, "FAULT".into());
    let to = match dice.below(6) {
        0 if role + 1 < ROLES => ", to = [\"last\"]",
        1 => ", to = [\"Nobody\"]",
        _ => "",
    };
    steps.push(format!("{{ say = \"{{inputs}}+{{reads}}\"{to} }}"));
    // The placeholder is already followed by a comma.
    steps.join(", ").replace("FAULT, ", "FAULT ")
}
