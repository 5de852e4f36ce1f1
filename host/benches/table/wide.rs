//! Many roles in one team: all of them active in each step, or one after the other.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use strata_host::storage::Durability;

use super::run::{Place, mean, median, peak_mib, to_its_end};

/// Measures many actions in one step, and a join that waits for all of them. A round consists of
/// this step and the step of the role that receives the messages of the join.
pub(crate) fn wide(place: &Place, roles: usize, rounds: usize) -> anyhow::Result<Value> {
    let mut team = place.head(rounds * 2, roles);
    let names: Vec<String> = (0..roles).map(|n| format!("\"R{n}\"")).collect();
    for n in 0..roles {
        team += &format!("[[role]]\nname = \"R{n}\"\nwatch = [\"UserRequirement\", \"Gather\"]\n");
        team += &place.action("Work");
        team += &format!("[[route]]\nfrom = \"R{n}\"\nto = [\"all\"]\n");
    }
    team += "[[role]]\nname = \"Gatherer\"\nwatch = []\n";
    team += &place.action("Gather");
    team += &format!(
        "[[join]]\nid = \"all\"\nfrom = [{}]\nto = \"Gatherer\"\nmode = \"all\"\n",
        names.join(", ")
    );
    let steps = steps(place, &team, Durability::Full)?;
    let rounds: Vec<f64> = steps
        .times_us
        .chunks_exact(2)
        .map(|round| round.iter().sum())
        .collect();
    // The first round starts the threads.
    Ok(
        json!({ "round_us": median(&rounds[1..]), "mean_us": mean(&rounds[1..]), "rounds": rounds.len() - 1 }),
    )
}

/// Measures many roles, one of which is active at a time.
pub(crate) fn ring(place: &Place, roles: usize, steps: usize) -> anyhow::Result<Value> {
    let team = place.ring(roles, steps);
    let taken = self::steps(place, &team, Durability::Process)?;
    Ok(taken.early_and_late(1.0))
}

/// Measures many roles that are all active in each step, because each receives its own messages.
pub(crate) fn crowd(place: &Place, roles: usize, steps: usize) -> anyhow::Result<Value> {
    let mut team = place.head(steps, 64);
    for n in 0..roles {
        team += &format!("[[role]]\nname = \"R{n}\"\nwatch = [\"UserRequirement\", \"a{n}\"]\n");
        team += &place.action(&format!("a{n}"));
    }
    let taken = self::steps(place, &team, Durability::Process)?;
    Ok(taken.early_and_late(roles as f64))
}

struct Steps {
    times_us: Vec<f64>,
    messages: usize,
}

impl Steps {
    /// The costs per action in the first tenth of the run, without its first step, and in the last
    /// tenth.
    fn early_and_late(&self, actions: f64) -> Value {
        let tenth = (self.times_us.len() / 10).max(2);
        let (early, late) = (
            &self.times_us[1..tenth],
            &self.times_us[self.times_us.len() - tenth..],
        );
        json!({
            "early_us": median(early) / actions, "late_us": median(late) / actions,
            "mean_us": mean(&self.times_us) / actions, "messages": self.messages, "peak_mib": peak_mib(),
        })
    }
}

/// Runs a team, and returns the duration of each step.
fn steps(place: &Place, team: &str, durability: Durability) -> anyhow::Result<Steps> {
    let times = Arc::new(Mutex::new(Vec::new()));
    let (seen, mut step_start) = (times.clone(), Instant::now());
    let driver = place.prepare("team", team, durability, move || {
        seen.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(step_start.elapsed().as_secs_f64() * 1e6);
        step_start = Instant::now();
    })?;
    let driver = to_its_end(driver)?;
    let messages = driver.journal().env().messages.len();
    let times = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Steps {
        times_us: times,
        messages,
    })
}
