//! Host calls: their start and answer; what the operator decides about calls in doubt; and external
//! writes that a later attempt did not repeat.

use alloc::string::String;

use super::Stepper;
use super::names::{Applied, ensure};
use crate::activation::Phase;
use crate::budget::spender;
use crate::event::{Event, HostCall, Outcome, Source, Work};
use crate::host_call::{Known, Verdict};
use crate::id::RoleId;
use crate::money::Usd;

impl Stepper {
    /// Applies an event about host calls.
    pub(super) fn host_call(&mut self, event: &Event) -> Applied {
        match event {
            Event::HostCallBegun { role, work, intent } => {
                self.running(*role, *work)?.current.begin(intent)
            }
            Event::HostCalled {
                role,
                work,
                call,
                source,
                ..
            } => {
                let activation = self.running(*role, *work)?;
                if *source == Source::Live {
                    activation.current.answered(call);
                    activation.release(&call.request);
                    self.env.spent += call.cost;
                }
                let spending = self.env.ledger.entry(spender(*role, *work)).or_default();
                match source {
                    Source::Live => spending.made(call),
                    Source::Recorded => spending.served(call),
                }
            }
            Event::MoneyReserved {
                role,
                work,
                reserved,
            } => {
                self.running(*role, *work)?
                    .current
                    .reserved
                    .push(reserved.clone());
            }
            Event::DoubtSettled {
                role,
                work,
                place,
                verdict,
                ..
            } => {
                self.settle(*role, *work, *place, verdict)?;
            }
            Event::WritesUnclaimed { role, work, writes } => {
                self.unclaimed(*role, *work, writes)?
            }
            _ => {}
        }
        Ok(())
    }

    /// Applies the decision of the operator about a call in doubt. After the last one, the action
    /// can continue.
    fn settle(&mut self, id: RoleId, work: Work, place: u32, verdict: &Verdict) -> Applied {
        self.going()?;
        let team = self.team.clone();
        let activation = self.activation(id)?;
        ensure(
            activation.work(team.role(id)) == Some(work),
            "a doubt about a call that is not the open one",
        )?;
        let doubtful = activation.doubts().any(|(at, _)| at == place as usize);
        ensure(doubtful, "a doubt about a call that is in none")?;
        let current = &mut activation.current;
        match verdict {
            Verdict::Redo => {
                current.begun.remove(place as usize);
            }
            Verdict::Answer(response) => {
                let begun = &mut current.begun[place as usize];
                begun.result = Known::Recorded;
                let (kind, request) = (begun.intent.kind, begun.intent.request.clone());
                let (response, cost, outcome) = (response.clone(), Usd::ZERO, Outcome::Answered);
                current.journal.push(HostCall {
                    kind,
                    request,
                    response,
                    cost,
                    tokens: 0,
                    outcome,
                    finish: None,
                });
            }
        }
        current.keep = true;
        if !activation.leaves_doubts() {
            activation.phase = Phase::Ready;
        }
        Ok(())
    }

    /// Forgets external writes of earlier attempts that the attempt which succeeds did not repeat.
    fn unclaimed(&mut self, id: RoleId, work: Work, writes: &[(u32, String)]) -> Applied {
        let begun = &mut self.running(id, work)?.current.begun;
        ensure(
            !writes.is_empty() && writes.is_sorted_by(|a, b| a.0 < b.0),
            "unclaimed calls that are not in order",
        )?;
        let known = writes
            .last()
            .is_some_and(|(last, _)| (*last as usize) < begun.len());
        ensure(known, "an unclaimed call that was not begun")?;
        for (place, _) in writes.iter().rev() {
            begun.remove(*place as usize);
        }
        Ok(())
    }
}
