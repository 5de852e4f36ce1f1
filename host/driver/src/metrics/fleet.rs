//! What all runs of a process do together, counted: for workers and servers, which have many runs, one after another.
//!
//! Labels come from the teams that others submit, so the number of series is limited.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_core::record::event::{AttemptEvent, Event, HostCalled, RunEnded, Status};
use strata_core::record::host_call::{AnswerSource, CallOutcome, HostCall};
use strata_core::record::money::Usd;
use strata_services::models::ModelTally;
use strata_storage::Record;

use super::{COMMIT_BUCKETS_SECONDS, Histogram, MetricsWriter};

/// The maximum number of pairs of a scope and a model with series of their own. What others cost is counted together.
const MAX_COSTS: usize = 500;
/// The label for these others.
const OTHERS: &str = "other";

/// The counts of a process with many runs. They start with the process.
#[derive(Debug, Default)]
pub struct FleetMetrics {
    counts: Mutex<FleetCounts>,
    models: Arc<ModelTally>,
}

#[derive(Debug, Default)]
struct FleetCounts {
    appends: Histogram,
    events: u64,
    /// By scope and model.
    costs: BTreeMap<[String; 2], Usd>,
    /// Host calls that failed, by kind and outcome.
    failed_calls: BTreeMap<[&'static str; 2], u64>,
    /// By status.
    ended: BTreeMap<&'static str, u64>,
}

/// A run, as far as it matters for what is counted.
#[derive(Clone, Debug)]
pub struct FleetMember {
    /// Where it is counted.
    pub fleet: Arc<FleetMetrics>,
    /// The cap that applies to it besides that of all runs.
    pub scope: Option<String>,
}

impl FleetMember {
    /// Counts events that became durable together after `took`.
    pub fn record_commit(&self, records: &[Record], took: Duration) {
        let scope = self.scope.as_deref().unwrap_or_default();
        let mut counts = self.fleet.counts();
        counts
            .appends
            .observe(&COMMIT_BUCKETS_SECONDS, took.as_secs_f64());
        for record in records {
            counts.events += u64::from(record.lines);
            match &record.event {
                Event::RunEnded(RunEnded { status, .. }) => {
                    *counts.ended.entry(status.name()).or_default() += 1;
                }
                Event::Attempt(
                    _,
                    AttemptEvent::HostCalled(HostCalled {
                        call,
                        source: AnswerSource::Live,
                        ..
                    }),
                ) => counts.add_call(scope, call),
                _ => {}
            }
        }
    }
}

impl FleetMetrics {
    /// Returns where failures of models are counted.
    pub fn models(&self) -> &Arc<ModelTally> {
        &self.models
    }

    /// Writes all counts.
    pub fn write(&self, out: &mut MetricsWriter) {
        self.counts().write(out);
        let providers = self.models.counts();
        let name = "strata_provider_errors_total";
        out.family(
            name,
            "counter",
            "Requests that a model did not answer, by provider.",
        );
        for (provider, counts) in &providers {
            out.sample(name, &[("provider", provider)], counts.errors);
        }
        let name = "strata_provider_retries_total";
        out.family(
            name,
            "counter",
            "Requests to models that were sent again, by provider.",
        );
        for (provider, counts) in &providers {
            out.sample(name, &[("provider", provider)], counts.retries);
        }
    }

    fn counts(&self) -> MutexGuard<'_, FleetCounts> {
        // Numbers have no invariant that a panic could have broken.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FleetCounts {
    fn add_call(&mut self, scope: &str, call: &HostCall) {
        if call.outcome != CallOutcome::Answered {
            let labels = [call.kind.name(), call.outcome.name()];
            *self.failed_calls.entry(labels).or_default() += 1;
        }
        if call.cost == Usd::ZERO {
            return;
        }
        let model = call
            .model
            .as_ref()
            .map_or(call.kind.name(), |model| &model.name);
        let labels = [scope.to_owned(), model.to_owned()];
        let labels = if self.costs.contains_key(&labels) || self.costs.len() < MAX_COSTS {
            labels
        } else {
            [OTHERS.into(), OTHERS.into()]
        };
        *self.costs.entry(labels).or_default() += call.cost;
    }

    fn write(&self, out: &mut MetricsWriter) {
        let name = "strata_append_duration_seconds";
        out.family(
            name,
            "histogram",
            "How long it took to make events durable.",
        );
        out.histogram(name, &[], &COMMIT_BUCKETS_SECONDS, &self.appends);
        let name = "strata_appended_events_total";
        out.family(
            name,
            "counter",
            "Events recorded, as many as there are lines of them.",
        );
        out.sample(name, &[], self.events);
        let name = "strata_model_cost_dollars_total";
        out.family(
            name,
            "counter",
            "What calls cost, by the scope of the run and the model.",
        );
        for ([scope, model], usd) in &self.costs {
            out.sample(
                name,
                &[("scope", scope), ("model", model)],
                usd.to_dollars(),
            );
        }
        let name = "strata_failed_calls_total";
        out.family(
            name,
            "counter",
            "Host calls without an answer, by kind; `unknown` ones may have taken effect.",
        );
        for ([kind, outcome], count) in &self.failed_calls {
            out.sample(name, &[("kind", kind), ("outcome", outcome)], count);
        }
        let name = "strata_ended_runs_total";
        out.family(
            name,
            "counter",
            "Runs that ended or came to rest in this process, by status.",
        );
        for (status, count) in &self.ended {
            out.sample(name, &[("status", status)], count);
        }
        let name = "strata_doubts_total";
        out.family(
            name,
            "counter",
            "Runs that ended because the result of a write is not known.",
        );
        let doubts = self.ended.get(Status::InDoubt.name());
        out.sample(name, &[], doubts.copied().unwrap_or_default());
    }
}
