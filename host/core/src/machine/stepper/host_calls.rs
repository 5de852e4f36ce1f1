//! Host calls: their start and answer; what the operator decides about calls in doubt; and external
//! writes that a later attempt did not repeat.

use alloc::string::String;

use super::Stepper;
use super::checks::{ApplyResult, ensure};
use crate::record::event::Event;
use crate::record::host_call::{AnswerSource, CallOutcome, DoubtResolution, HostCall, WriteResult};
use crate::record::id::RoleId;
use crate::record::money::Usd;
use crate::record::work::Work;
use crate::state::activation::Phase;
use crate::state::budget::charged_slot;

impl Stepper {
    /// Applies an event about host calls.
    pub(super) fn apply_host_call_event(&mut self, event: &Event) -> ApplyResult {
        match event {
            Event::HostCallBegun { role, work, intent } => self
                .running_activation_mut(*role, *work)?
                .current_call
                .begin_write(intent),
            Event::HostCalled {
                role,
                work,
                call,
                source,
                ..
            } => {
                let activation = self.running_activation_mut(*role, *work)?;
                if *source == AnswerSource::Live {
                    activation.current_call.record_answer(call);
                    activation.release_reservation(&call.request);
                    self.env.spent += call.cost;
                }
                let spending = self
                    .env
                    .ledger
                    .entry(charged_slot(*role, *work))
                    .or_default();
                match source {
                    AnswerSource::Live => spending.add_made_call(call),
                    AnswerSource::Recorded => spending.add_served_call(call),
                }
            }
            Event::MoneyReserved {
                role,
                work,
                reserved,
            } => {
                self.running_activation_mut(*role, *work)?
                    .current_call
                    .reservations
                    .push(reserved.clone());
            }
            Event::DoubtSettled {
                role,
                work,
                index: place,
                resolution: verdict,
                ..
            } => {
                self.apply_doubt_settled(*role, *work, *place, verdict)?;
            }
            Event::WritesUnclaimed { role, work, writes } => {
                self.apply_writes_unclaimed(*role, *work, writes)?
            }
            _ => {}
        }
        Ok(())
    }

    /// Applies the decision of the operator about a call in doubt. After the last one, the action
    /// can continue.
    fn apply_doubt_settled(
        &mut self,
        id: RoleId,
        work: Work,
        place: u32,
        verdict: &DoubtResolution,
    ) -> ApplyResult {
        self.ensure_running()?;
        let team = self.team.clone();
        let activation = self.activation_mut(id)?;
        ensure(
            activation.current_work(team.role(id)) == Some(work),
            "a doubt about a call that is not the open one",
        )?;
        let doubtful = activation
            .writes_in_doubt()
            .any(|(at, _)| at == place as usize);
        ensure(doubtful, "a doubt about a call that is in none")?;
        let current = &mut activation.current_call;
        match verdict {
            DoubtResolution::Redo => {
                current.external_writes.remove(place as usize);
            }
            DoubtResolution::Answer(response) => {
                let begun = &mut current.external_writes[place as usize];
                begun.result = WriteResult::Recorded;
                let (kind, request) = (begun.intent.kind, begun.intent.request.clone());
                let (response, cost, outcome) =
                    (response.clone(), Usd::ZERO, CallOutcome::Answered);
                current.recorded_calls.push(HostCall {
                    kind,
                    request,
                    response,
                    cost,
                    tokens: 0,
                    outcome,
                    finish_reason: None,
                });
            }
        }
        current.keeps_calls = true;
        if !activation.leaves_writes_in_doubt() {
            activation.phase = Phase::Ready;
        }
        Ok(())
    }

    /// Forgets external writes of earlier attempts that the attempt which succeeds did not repeat.
    fn apply_writes_unclaimed(
        &mut self,
        id: RoleId,
        work: Work,
        writes: &[(u32, String)],
    ) -> ApplyResult {
        let begun = &mut self
            .running_activation_mut(id, work)?
            .current_call
            .external_writes;
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
