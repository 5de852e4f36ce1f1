//! The state of joins: which messages each holds, and which it waits for. The core decides when a
//! join fires.

use serde::Serialize;
use strata_core::machine::stepper::Stepper;
use strata_core::record::id::RoleId;
use strata_core::record::shape::{DeliveryMode, JoinMode};

/// The state of a join.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JoinView {
    /// The id of the join.
    pub id: String,
    /// When it fires.
    pub mode: JoinMode,
    /// The name of the role, the group or the join to which it delivers.
    pub to: String,
    /// How what it delivers is handled.
    pub deliver: DeliveryMode,
    /// The roles from which it takes messages.
    pub sources: Vec<JoinSource>,
    /// The names of the sources that it still waits for; empty if it holds nothing.
    pub missing: Vec<String>,
}

/// A source of a join.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JoinSource {
    /// The name of the role.
    pub role: String,
    /// How many of its messages the join holds.
    pub held: usize,
}

impl JoinView {
    /// Returns the states of all joins of a team.
    pub fn all(stepper: &Stepper) -> Vec<Self> {
        let team = stepper.team();
        let name = |id: RoleId| team.role(id).name.clone();
        let mut joins = Vec::new();
        for (join, state) in team.joins.iter().zip(&stepper.env().joins) {
            let mut sources = Vec::new();
            for (id, queue) in join.from.iter().zip(&state.queues) {
                sources.push(JoinSource {
                    role: name(*id),
                    held: queue.len(),
                });
            }
            let is_waiting = join.mode == JoinMode::All && !state.is_empty();
            let missing = if is_waiting {
                state.missing_sources(join).map(name).collect()
            } else {
                Vec::new()
            };
            joins.push(Self {
                id: join.id.clone(),
                mode: join.mode,
                to: join.to.clone(),
                deliver: join.deliver,
                sources,
                missing,
            });
        }
        joins
    }

    /// Returns whether it holds no messages.
    pub fn is_empty(&self) -> bool {
        self.sources.iter().all(|source| source.held == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::{FixtureAttempt, RunFixture};

    #[test]
    fn a_join_says_what_it_holds_and_what_it_waits_for() {
        let mut roles = String::new();
        for (name, label) in [("A", "UserRequirement"), ("B", "Nothing"), ("C", "Never")] {
            roles += &format!(
                "[[role]]\nname = \"{name}\"\nwatch = [\"{label}\"]\n\
                 [[role.action]]\nname = \"One\"\ncomponent = \"one.wasm\"\n"
            );
        }
        roles += "[[join]]\nid = \"both\"\nfrom = [\"A\", \"B\"]\nto = \"C\"\nmode = \"all\"\n\
                  [[route]]\nfrom = \"A\"\nto = [\"both\"]\n\
                  [[route]]\nfrom = \"B\"\nto = [\"both\"]\n";
        let run = RunFixture::new(&roles, |_, _| FixtureAttempt::Return("done"));
        let joins = JoinView::all(&run.stepper);
        let source = |role: &str, held| JoinSource {
            role: role.into(),
            held,
        };
        assert_eq!(
            joins,
            [JoinView {
                id: "both".into(),
                mode: JoinMode::All,
                to: "C".into(),
                deliver: DeliveryMode::Batch,
                sources: vec![source("A", 1), source("B", 0)],
                missing: vec!["B".into()],
            }]
        );
        assert!(!joins[0].is_empty());
    }
}
