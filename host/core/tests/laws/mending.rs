//! What an operator may change about a team from one resume to the next.

use strata_core::money::Usd;
use strata_core::team::{React, Reducer, Team};

use crate::dice::Dice;

/// The team, mended as its operator may.
pub fn mended(team: &Team, dice: &mut Dice) -> Team {
    let mut team = Team::clone(team);
    team.policy.max_parallel = 1 + dice.below(4);
    team.policy.max_steps = team
        .policy
        .max_steps
        .map(|steps| steps + dice.below(3) as u64);
    team.policy.budget = team
        .policy
        .budget
        .map(|budget| budget + Usd(dice.below(20) as u64));
    for reducer in team.scopes.values_mut() {
        *reducer = *dice.pick(&[
            None,
            Some(Reducer::Append),
            Some(Reducer::Add),
            Some(Reducer::Last),
        ]);
    }
    for role in &mut team.roles {
        role.profile = format!("job {}", dice.below(3));
        if let React::Choose { max_loop, .. } = &mut role.react {
            *max_loop = dice.below(4) as u32;
        }
    }
    team
}
