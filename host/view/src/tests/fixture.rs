//! A run for tests: a team whose actions do what a test says, without components, a driver or a
//! terminal.

use std::path::Path;
use std::sync::Arc;

use strata_core::machine::effect::{Effect, Invocation};
use strata_core::machine::stepper::Stepper;
use strata_core::record::fault::Fault;
use strata_core::record::human_request::HumanRequest;
use strata_core::record::message::Draft;
use strata_core::record::work::CallResult;
use strata_core::state::environment::Environment;
use strata_manifest::Definition;

use crate::provenance::Provenance;

/// What an attempt does.
pub(crate) enum FixtureAttempt {
    /// It returns this text.
    Return(&'static str),
    /// It fails.
    Fail(Fault),
    /// It asks a person.
    Ask(HumanRequest),
}

/// A run of a team.
pub(crate) struct RunFixture {
    pub(crate) stepper: Stepper,
    pub(crate) provenance: Provenance,
}

impl RunFixture {
    /// Starts the team that a team file defines below its `[team]` line, and runs it as far as it
    /// goes. `attempt` says what each attempt does.
    pub(crate) fn new(
        roles: &str,
        mut attempt: impl FnMut(&str, &Invocation) -> FixtureAttempt,
    ) -> Self {
        let text = format!("schema = \"strata.team/1\"\n[team]\nname = \"team\"\n{roles}");
        let definition = Definition::parse_without_files(&text, "team.toml", Path::new("/teams"))
            .unwrap_or_else(|error| panic!("{error}"));
        let provenance = Provenance::new(&definition, Path::to_owned);
        let team = Arc::new(definition.team);
        let mut stepper = Stepper::new(team.clone(), Environment::new(&team));
        let started = stepper.run_started_event("run".into(), "idea".into(), Default::default());
        stepper.apply(&started).expect("the start of a run");
        loop {
            match stepper.next() {
                Effect::Record(event) => stepper.apply(&event).expect("an event of the stepper"),
                Effect::Call(call) => {
                    let started = stepper.call_started_event(&call);
                    stepper.apply(&started).expect("the start of an attempt");
                    let name = team.role(call.role).name.clone();
                    let ended = match attempt(&name, &call) {
                        FixtureAttempt::Return(content) => {
                            let result = CallResult::Returned {
                                output: Draft {
                                    content: content.into(),
                                    ..Draft::default()
                                },
                                emissions: Vec::new(),
                                writes: Vec::new(),
                            };
                            stepper.call_ended_event(call.key(), Ok(result))
                        }
                        FixtureAttempt::Fail(fault) => {
                            stepper.call_ended_event(call.key(), Err(fault))
                        }
                        FixtureAttempt::Ask(request) => {
                            stepper.request_opened_event(call.key(), request)
                        }
                    };
                    let ended = ended.expect("the attempt was started");
                    stepper.apply(&ended).expect("the end of an attempt");
                }
                Effect::Wait | Effect::Halt(_) => break,
            }
        }
        Self {
            stepper,
            provenance,
        }
    }
}
