//! Host calls: their start and answer; what the operator decides about calls in doubt; and external
//! writes that a later attempt did not repeat.

use alloc::string::String;

use super::Stepper;
use super::checks::{ApplyResult, ensure};
use crate::record::event::{AttemptEvent, DoubtSettled, HostCalled, MoneyReserved};
use crate::record::host_call::{AnswerSource, CallOutcome, DoubtResolution, HostCall, WriteResult};

use crate::record::money::Usd;
use crate::record::work::CallKey;
use crate::state::activation::Phase;
use crate::state::budget::charged_slot;

impl Stepper {
    /// Applies an event about host calls.
    pub(super) fn apply_host_call_event(
        &mut self,
        call: CallKey,
        event: &AttemptEvent,
    ) -> ApplyResult {
        match event {
            AttemptEvent::HostCallBegun(begun) => self
                .running_activation_mut(call)?
                .current_call
                .begin_write(&begun.intent),
            AttemptEvent::HostCalled(called) => self.apply_host_called(call, called)?,
            AttemptEvent::MoneyReserved(MoneyReserved { reserved }) => {
                self.running_activation_mut(call)?
                    .current_call
                    .reservations
                    .push(reserved.clone());
            }
            AttemptEvent::DoubtSettled(settled) => self.apply_doubt_settled(call, settled)?,
            AttemptEvent::WritesUnclaimed(unclaimed) => {
                self.apply_writes_unclaimed(call, &unclaimed.writes)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn apply_host_called(&mut self, call: CallKey, called: &HostCalled) -> ApplyResult {
        let HostCalled {
            call: host_call,
            source,
            ..
        } = called;
        let activation = self.running_activation_mut(call)?;
        if *source == AnswerSource::Live {
            activation.current_call.record_answer(host_call);
            activation.release_reservation(&host_call.request);
            self.env.spent += host_call.cost;
        }
        let spending = self
            .env
            .ledger
            .entry(charged_slot(call.role, call.work))
            .or_default();
        match source {
            AnswerSource::Live => spending.add_made_call(host_call),
            AnswerSource::Recorded => spending.add_served_call(host_call),
        }
        Ok(())
    }

    /// Applies the decision of the operator about a call in doubt. After the last one, the action
    /// can continue.
    fn apply_doubt_settled(&mut self, call: CallKey, settled: &DoubtSettled) -> ApplyResult {
        let DoubtSettled {
            index, resolution, ..
        } = settled;
        let index = *index as usize;
        self.ensure_running()?;
        let team = self.team.clone();
        let activation = self.activation_mut(call.role)?;
        ensure(
            activation.current_work(team.role(call.role)) == Some(call.work),
            "a doubt about a call that is not the open one",
        )?;
        let doubtful = activation.writes_in_doubt().any(|(at, _)| at == index);
        ensure(doubtful, "a doubt about a call that is in none")?;
        let current = &mut activation.current_call;
        match resolution {
            DoubtResolution::Redo => {
                current.external_writes.remove(index);
            }
            DoubtResolution::Answer(response) => {
                let begun = &mut current.external_writes[index];
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
    fn apply_writes_unclaimed(&mut self, call: CallKey, writes: &[(u32, String)]) -> ApplyResult {
        let begun = &mut self
            .running_activation_mut(call)?
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
