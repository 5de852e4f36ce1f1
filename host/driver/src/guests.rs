//! The running guests: their attempts, the host calls that these make, and the questions that they
//! ask people. This module carries what one of the three components reports to the others, and to
//! the journal.

mod server_tools;

use strata_base::files::blob::Blobs;
use strata_core::machine::effect::Invocation;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::{AttemptEvent, CallSuspended, Event, SuspendReason};
use strata_core::record::host_call::{ExternalWrite, RecordedCallUse, WriteResult};
use strata_core::record::work::{CallKey, Work};
use strata_services::gateway::{
    AttemptId, GUEST_REQUEST_QUEUE, GuardedCall, GuestRequest, HostAnswer, OutboundRequest,
    PendingGuestRequest, ToolRequest, WASI_CLOCK_START, name_about, question_about,
};
use strata_services::human::HumanQuestion;
use strata_services::models::ModelCaller;
use strata_services::outbound::{OutboundContext, OutboundServices};
use tokio::sync::{mpsc, oneshot};

use super::attempt_runner::{AttemptEnd, AttemptRunner};
use super::attempts::{AttemptSignal, Attempts, GRACE_PERIOD};
use super::files::ActionFiles;
use super::host_calls::{
    AdmissionDecision, CompletedCall, GuestBatch, HostCalls, LocalAnswer, RecordedQuestion,
    ReturnedCall,
};
use super::human_requests::{HumanRequests, RequestExpiry};
use super::nested_calls::{NestedCalls, ToolAccess};
use super::tool_listings::ToolListings;
use super::{DriverError, HostServices, Journal};

/// The running guests.
pub(super) struct Guests {
    pub(super) attempts: Attempts,
    pub(super) calls: HostCalls,
    pub(super) questions: HumanRequests,
    nested: NestedCalls,
    /// The requests of guests that have not been answered yet.
    pub(super) queue: mpsc::Receiver<PendingGuestRequest>,
    pub(super) listings: ToolListings,
    services: OutboundServices,
}

impl Guests {
    pub(super) fn new(services: &HostServices) -> Self {
        let (requests, queue) = mpsc::channel(GUEST_REQUEST_QUEUE);
        Self {
            attempts: Attempts::new(AttemptRunner::new(services, requests)),
            calls: HostCalls::default(),
            questions: HumanRequests::default(),
            nested: NestedCalls::default(),
            queue,
            listings: ToolListings::default(),
            services: OutboundServices {
                http: services.http.clone(),
                models: services.models.clone(),
                model_names: services
                    .models
                    .as_ref()
                    .map(|models| models.names().clone()),
                mcp: services.mcp.clone(),
            },
        }
    }

    /// Ends all attempts and abandons their calls, without recording anything.
    pub(super) fn clear(&mut self) {
        self.attempts.clear();
        self.calls.clear();
        self.questions.clear();
        self.nested.clear();
        self.listings.clear();
    }

    /// Returns whether these attempts run on this thread when they are started: a single one does, which
    /// avoids handing anything over.
    pub(super) fn run_here(&self, invocations: &[Invocation]) -> bool {
        invocations.len() == 1 && self.attempts.is_empty()
    }

    /// Starts attempts. Those that do not run on this thread run in parallel.
    pub(super) fn start(
        &mut self,
        invocations: Vec<Invocation>,
        journal: &Journal,
        files: &ActionFiles,
    ) {
        let run_here = self.run_here(&invocations);
        let stepper = journal.stepper();
        for mut invocation in invocations {
            let activation = invocation.key().activation();
            let view = files.view(stepper.env().files_seen_by(activation));
            let mut prepared = self.attempts.prepare(&invocation, stepper, view);
            let id = prepared.id;
            prepared.end = journal.spans().instrument(id.call, prepared.end);
            if !run_here {
                prepared = prepared.spawn();
            }
            let recorded = std::mem::take(&mut invocation.recorded_calls);
            let unanswered = unanswered_writes(stepper, &invocation);
            let open = stepper.env().open_call(stepper.team(), id.call);
            let asking_call = open.and_then(|open| open.progress.asking.clone());
            self.calls
                .begin_attempt(id, recorded, unanswered, asking_call);
            self.attempts.add(invocation, prepared);
        }
    }

    /// Handles a signal and all others that are there by now, so that they are recorded in one
    /// transaction.
    pub(super) async fn handle_signals(
        &mut self,
        first: AttemptSignal,
        journal: &mut Journal,
    ) -> Result<(), DriverError> {
        let mut next = Some(first);
        while let Some(signal) = next {
            match signal {
                AttemptSignal::Ended(end) => self.attempt_ended(end, journal)?,
                AttemptSignal::RetryDue(call) => {
                    journal.stage(Event::Attempt(call, AttemptEvent::RetryDue))?;
                }
                AttemptSignal::GracePeriodOver(id) => self.end_grace_period(id, journal).await?,
            }
            next = self.attempts.signal_now();
        }
        // What was reserved for an ended attempt now counts as spent, so calls that waited for it
        // may never be affordable.
        self.make_calls(journal).await
    }

    /// Handles the end of an attempt. It is kept open while calls that must be awaited are in
    /// flight: a recorded answer need not be paid for twice, and leaves no doubt about a write.
    fn attempt_ended(&mut self, end: AttemptEnd, journal: &mut Journal) -> Result<(), DriverError> {
        let id = end.attempt;
        if !self.attempts.keep_result(end) {
            // It asked a person, or was suspended.
            return Ok(());
        }
        for within in self.attempts.calls_within(id.call) {
            self.calls.abandon_discardable(within);
        }
        if !self.must_await(id.call) {
            return self.conclude(id.call, journal);
        }
        tracing::warn!(
            "an action has ended while calls of it are under way; waiting up to {GRACE_PERIOD:?} for their answers"
        );
        self.attempts.begin_grace_period(id);
        Ok(())
    }

    /// Concludes an attempt whose grace period is over, if it is still open. Answers that are ready
    /// are recorded first.
    async fn end_grace_period(
        &mut self,
        id: AttemptId,
        journal: &mut Journal,
    ) -> Result<(), DriverError> {
        while let Some(returned) = self.calls.returned_now() {
            self.record_returned(returned, journal).await?;
        }
        if self.attempts.is_running(id) {
            self.conclude(id.call, journal)?;
        }
        Ok(())
    }

    /// Returns whether an attempt, or one that it waits for, has calls in flight whose answers must not
    /// be lost.
    fn must_await(&self, call: CallKey) -> bool {
        let within = self.attempts.calls_within(call);
        within.into_iter().any(|call| self.calls.must_await(call))
    }

    /// Records the end of an attempt, and of those that it waits for. Their calls in flight are
    /// abandoned.
    fn conclude(&mut self, call: CallKey, journal: &mut Journal) -> Result<(), DriverError> {
        for within in self.attempts.calls_within(call) {
            self.conclude_one(within, journal)?;
        }
        if matches!(call.work, Work::ToolCall { .. }) {
            self.forget_closed(journal.stepper());
        }
        Ok(())
    }

    /// Forgets the attempts at calls that are not open any more, because the code that led to them has
    /// ended without them.
    fn forget_closed(&mut self, stepper: &Stepper) {
        for call in self.attempts.calls().collect::<Vec<_>>() {
            if stepper.env().open_call(stepper.team(), call).is_none() {
                self.forget(call);
            }
        }
    }

    /// Forgets an attempt. Dropping its reply channels ends the guest, and its result is ignored.
    fn forget(&mut self, call: CallKey) -> Option<u32> {
        self.calls.end_attempt(call, &[]);
        self.nested.end_attempt(call);
        self.attempts.suspend(call)
    }

    /// Forgets the attempt that an event of the core ends, if it ends one: the calls that the attempt
    /// waits for cannot go on.
    pub(super) fn end_blocked(&mut self, event: &Event) {
        if let Event::Attempt(call, AttemptEvent::CallSuspended(_) | AttemptEvent::CallFailed(_)) =
            event
        {
            self.forget(*call);
        }
    }

    /// Answers the attempts whose calls of tools have all ended.
    pub(super) async fn answer_tool_calls(
        &mut self,
        journal: &mut Journal,
    ) -> Result<(), DriverError> {
        let mut answers = Vec::new();
        while let Some(mut answer) = self.nested.next_answer(journal.stepper()) {
            for event in std::mem::take(&mut answer.events) {
                journal.stage(event)?;
            }
            answers.push(answer);
        }
        if !answers.is_empty() {
            journal.flush().await?;
        }
        for answer in answers {
            answer.send();
        }
        Ok(())
    }

    /// Makes calls of tools for an attempt, which then waits for them.
    fn call_tools(
        &mut self,
        id: AttemptId,
        requests: &[ToolRequest],
        reply: oneshot::Sender<HostAnswer>,
        journal: &mut Journal,
    ) -> Result<(), DriverError> {
        let mut calls = Vec::new();
        for request in requests {
            let call = match self.tool_access(id, journal).make(request) {
                Ok((event, call)) => {
                    let name = self.calls.name_tool_call(id, call.digest());
                    journal.stage(event)?;
                    Ok(call.named(name))
                }
                Err(refusal) => Err(refusal),
            };
            calls.push(call);
        }
        self.nested.wait(id, calls, reply);
        Ok(())
    }

    /// Returns what the calls of tools of an attempt are checked against.
    fn tool_access<'a>(&'a self, id: AttemptId, journal: &'a Journal) -> ToolAccess<'a> {
        let plugin = self.attempts.plugin(id).map(|plugin| &**plugin);
        let roles = self.attempts.tool_roles();
        ToolAccess::new(journal.stepper(), roles, plugin, id.call)
    }

    fn conclude_one(&mut self, call: CallKey, journal: &mut Journal) -> Result<(), DriverError> {
        self.nested.end_attempt(call);
        let writes = begun_writes(journal.stepper(), call);
        let unclaimed = self.calls.end_attempt(call, writes);
        let conclusion = self.attempts.conclude(call, journal.stepper(), unclaimed);
        let Some(conclusion) = conclusion else {
            return Ok(());
        };
        journal.stage_blobs(conclusion.blobs);
        for event in conclusion.before {
            journal.stage(event)?;
        }
        journal.stage(conclusion.end)
    }

    /// Records the ends of all attempts.
    pub(super) fn conclude_all(&mut self, journal: &mut Journal) -> Result<(), DriverError> {
        // Those that others wait for come first.
        let calls: Vec<CallKey> = self.attempts.calls().collect();
        for call in calls.into_iter().rev() {
            self.conclude(call, journal)?;
        }
        Ok(())
    }

    /// Ends all attempts without recording it. Only calls that must be awaited go on, and no others
    /// are made.
    pub(super) fn abort(&mut self) {
        self.attempts.abort();
        self.questions.clear();
        self.listings.clear();
        self.calls.abandon_all_discardable();
        if self.calls.must_await_any() {
            tracing::warn!(
                "stopped while calls are under way; waiting up to {GRACE_PERIOD:?} for their answers"
            );
        }
    }

    /// Records a call that has returned, and answers the guest if its batch is complete.
    pub(super) async fn record_returned(
        &mut self,
        returned: ReturnedCall,
        journal: &mut Journal,
    ) -> Result<(), DriverError> {
        let Some((id, completed)) = self.calls.complete(returned) else {
            return Ok(());
        };
        match completed {
            CompletedCall::Recorded(event) => journal.stage(event)?,
            // An attempt that has ended asks nobody: the next one does.
            CompletedCall::Asks { .. } if self.attempts.has_ended(id.call) => {}
            CompletedCall::Asks {
                call: asking,
                before,
            } => {
                let asks = journal.stepper().call_asks_event(id.call, asking, before);
                if let Some(asks) = asks {
                    journal.stage(asks)?;
                    self.forget(id.call);
                }
                return self.make_calls(journal).await;
            }
        }
        for call in self.attempts.calls_around(id.call) {
            if self.attempts.has_ended(call) && !self.must_await(call) {
                // The attempt was kept open for this call.
                self.conclude(call, journal)?;
            }
        }
        // Staging the event released the unused part of the reservation, so waiting calls may fit
        // now.
        self.make_calls(journal).await
    }

    /// Ends a request that has expired and all others that have expired by now, so that they are
    /// recorded in one transaction.
    pub(super) fn expire_requests(
        &mut self,
        first: RequestExpiry,
        journal: &mut Journal,
    ) -> Result<(), DriverError> {
        let mut next = Some(first);
        while let Some(expiry) = next {
            if let Some(event) = self.questions.expire(&expiry, journal.stepper()) {
                journal.stage(event)?;
            }
            next = self.questions.expiry_now();
        }
        Ok(())
    }

    /// Answers a request of a guest, or begins what will answer it. Nothing is done for an attempt
    /// that has ended. It is no error if the guest is gone and does not receive the answer.
    pub(super) async fn handle_request(
        &mut self,
        request: PendingGuestRequest,
        journal: &mut Journal,
    ) -> Result<(), DriverError> {
        let PendingGuestRequest {
            attempt: id,
            request,
            plugin,
            about,
            allowance,
            reply,
        } = request;
        if !self.attempts.is_running(id) || reply.is_closed() {
            return Ok(());
        }
        let about = about.as_deref();
        let answer = match request {
            GuestRequest::Environment(request) => {
                journal.answer_from_environment(id.call.activation(), request)
            }
            GuestRequest::StoredFile(digest) => {
                HostAnswer::File(journal.store_ref().blob(&digest)?)
            }
            GuestRequest::CurrentTime => self.read_clock(id, about, "", journal).await?,
            GuestRequest::ClockStart => {
                self.read_clock(id, about, WASI_CLOCK_START, journal)
                    .await?
            }
            GuestRequest::Random { length } => {
                let Some(caller) = self.attempts.caller(id, about) else {
                    return Ok(());
                };
                record_local(self.calls.draw_random_bytes(caller, length), journal).await?
            }
            GuestRequest::AskHuman(question) => {
                let question = question_about(about, question);
                match self.calls.ask(id, &question) {
                    RecordedQuestion::Answered(answer) => record_local(answer, journal).await?,
                    RecordedQuestion::Unanswered { earlier } => {
                        return self.open_request(id.call, &question, earlier, journal);
                    }
                }
            }
            GuestRequest::ListTools => {
                HostAnswer::Tools(self.tool_access(id, journal).descriptions())
            }
            GuestRequest::GuardedCalls(requests) => {
                HostAnswer::GuardedCalls(self.tool_access(id, journal).guarded(&requests))
            }
            GuestRequest::CallTools(requests) => {
                return self.call_tools(id, &requests, reply, journal);
            }
            GuestRequest::Servers(request) => {
                self.ask_servers(id, request, reply);
                return Ok(());
            }
            GuestRequest::Outbound(request) => {
                let context = OutboundContext {
                    services: &self.services,
                    caller: ModelCaller::new(
                        journal.stepper().team().role(id.call.role),
                        id.call.work,
                    ),
                    plugin: plugin.as_ref().or_else(|| self.attempts.plugin(id)),
                    blobs: load_media(&request, journal)?,
                };
                let calls = request.into_calls(&context);
                let batch = GuestBatch::new(calls, allowance, reply);
                return self.submit(id, about, batch, journal).await;
            }
        };
        let _ = reply.send(answer);
        Ok(())
    }

    /// Reads the clock for an attempt, or for a guard that decides `about` a call. Returns the time once it is
    /// durable.
    async fn read_clock(
        &mut self,
        id: AttemptId,
        about: Option<&GuardedCall>,
        request: &str,
        journal: &mut Journal,
    ) -> Result<HostAnswer, DriverError> {
        let name = name_about(about, request);
        record_local(self.calls.read_clock(id, &name), journal).await
    }

    /// Takes over calls that leave the host, and makes those that can be made now. `about` is the call
    /// about which a guard decides that makes them.
    async fn submit(
        &mut self,
        id: AttemptId,
        about: Option<&GuardedCall>,
        batch: GuestBatch,
        journal: &mut Journal,
    ) -> Result<(), DriverError> {
        let Some(caller) = self.attempts.caller(id, about) else {
            return Ok(());
        };
        for event in self.calls.submit(caller, batch, journal.env()) {
            journal.stage(event)?;
        }
        self.make_calls(journal).await
    }

    /// Asks a person, which ends the attempt. Dropping the reply channel, as the caller does, ends
    /// the guest and releases its resources; its result is ignored.
    fn open_request(
        &mut self,
        call: CallKey,
        question: &HumanQuestion,
        earlier: u32,
        journal: &mut Journal,
    ) -> Result<(), DriverError> {
        let stepper = journal.stepper();
        let Some(event) = self.questions.open(stepper, call, question, earlier) else {
            return Ok(());
        };
        journal.stage(event)?;
        self.forget(call);
        Ok(())
    }

    /// Makes the calls that may be made now, and answers the batches that are complete. Whatever
    /// must be durable before is flushed.
    pub(super) async fn make_calls(&mut self, journal: &mut Journal) -> Result<(), DriverError> {
        let mut round = self.calls.admission_round();
        while let Some(decision) = self.calls.decide_next(&mut round, journal.stepper()) {
            match decision {
                AdmissionDecision::Reserve(event) => journal.stage(event)?,
                AdmissionDecision::Draw(usd) => {
                    if let Some(reached) = self.calls.caps().draw(usd).await {
                        journal.stage(Event::CapReached(reached))?;
                    }
                }
                AdmissionDecision::Suspend(call) => self.suspend(call, journal)?,
            }
        }
        if self.calls.waits_for_flush() {
            journal.flush().await?;
            let lease = journal.lease_status();
            self.calls
                .send_ready(journal.stepper().team(), journal.spans(), &lease);
        }
        Ok(())
    }

    /// Ends an attempt that cannot continue until the budget is raised. It is then made again and
    /// answered from the record. Dropping the reply channel ends the guest, and its result is
    /// ignored.
    fn suspend(&mut self, call: CallKey, journal: &mut Journal) -> Result<(), DriverError> {
        let Some(attempt) = self.forget(call) else {
            return Ok(());
        };
        let suspended = AttemptEvent::CallSuspended(CallSuspended {
            attempt,
            reason: SuspendReason::Budget,
        });
        journal.stage(Event::Attempt(call, suspended))
    }
}

/// Returns the stored bytes of the images and files that the guest received and passes on.
fn load_media(request: &OutboundRequest, journal: &Journal) -> Result<Blobs, DriverError> {
    let mut blobs = Blobs::new();
    for digest in request.media_to_load() {
        if let Some(bytes) = journal.store_ref().blob(digest)? {
            blobs.insert(digest.clone(), bytes);
        }
    }
    Ok(blobs)
}

/// Records a call that the host answers itself. Returns the answer once that is durable.
async fn record_local(
    local: LocalAnswer,
    journal: &mut Journal,
) -> Result<HostAnswer, DriverError> {
    journal.stage(local.event)?;
    journal.flush().await?;
    Ok(local.answer)
}

/// Returns the external writes that attempts at a call have begun.
fn begun_writes(stepper: &Stepper, call: CallKey) -> &[ExternalWrite] {
    let open = stepper.env().open_call(stepper.team(), call);
    open.map_or(&[], |open| &open.progress.external_writes)
}

/// Returns the requests of writes that earlier attempts began, that have no recorded answer, and
/// that this attempt is expected to make again.
fn unanswered_writes(stepper: &Stepper, call: &Invocation) -> Vec<String> {
    if call.call_reuse != RecordedCallUse::Reuse {
        return Vec::new();
    }
    begun_writes(stepper, call.key())
        .iter()
        .filter(|write| write.result == WriteResult::Unknown)
        .map(|write| write.intent.request.clone())
        .collect()
}
