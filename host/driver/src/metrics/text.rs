//! Writes metrics in the text format of Prometheus (version 0.0.4), with names, units and types as
//! it recommends.

use std::fmt::{Display, Write};

use super::{ATTEMPT_BUCKETS_SECONDS, COMMIT_BUCKETS_SECONDS, Counts, Histogram, OTHER_ROLES};

/// The name of a label and its value.
pub type MetricLabel<'a> = (&'a str, &'a str);

impl Counts {
    /// Returns all metrics.
    pub(super) fn to_text(&self) -> String {
        let mut out = MetricsWriter::default();
        self.write_run(&mut out);
        self.write_work(&mut out);
        self.write_calls(&mut out);
        self.write_messages(&mut out);
        self.write_storage(&mut out);
        out.into_text()
    }

    fn write_run(&self, out: &mut MetricsWriter) {
        let Some(run) = &self.run else { return };
        out.family(
            "strata_run_info",
            "gauge",
            "The run that these metrics are of.",
        );
        out.sample(
            "strata_run_info",
            &[
                ("run", &run.id),
                ("team", &run.team),
                ("status", run.status),
            ],
            1,
        );
        out.family("strata_step", "gauge", "The open or next step of the run.");
        out.sample("strata_step", &[], run.step);
        out.family(
            "strata_spent_dollars",
            "gauge",
            "What the run spent in all, over its resumes.",
        );
        out.sample("strata_spent_dollars", &[], run.spent.to_dollars());
        if let Some(budget) = run.budget {
            out.family(
                "strata_budget_dollars",
                "gauge",
                "What the run may spend in all.",
            );
            out.sample("strata_budget_dollars", &[], budget.to_dollars());
        }
    }

    fn write_work(&self, out: &mut MetricsWriter) {
        out.family("strata_steps_total", "counter", "Steps begun.");
        out.sample("strata_steps_total", &[], self.steps);
        out.family(
            "strata_activations_total",
            "counter",
            "Activations begun or gone on with, by role.",
        );
        for (role, count) in &self.activations {
            out.sample("strata_activations_total", &[("role", role)], count);
        }
        out.family(
            "strata_actions_total",
            "counter",
            "Attempts of actions that ended, by how they did.",
        );
        for ([role, action, outcome], count) in &self.attempts {
            let labels = [
                ("role", role.as_str()),
                ("action", action),
                ("outcome", outcome),
            ];
            out.sample("strata_actions_total", &labels, count);
        }
        out.family(
            "strata_faults_total",
            "counter",
            "Attempts that failed, by the kind of fault.",
        );
        for ([role, action, kind], count) in &self.faults {
            let labels = [("role", role.as_str()), ("action", action), ("kind", kind)];
            out.sample("strata_faults_total", &labels, count);
        }
        out.family("strata_actions_running", "gauge", "Attempts under way.");
        out.sample("strata_actions_running", &[], self.attempt_starts_ms.len());
        out.family(
            "strata_action_duration_seconds",
            "histogram",
            "How long attempts took, host calls included.",
        );
        out.histogram(
            "strata_action_duration_seconds",
            &[],
            &ATTEMPT_BUCKETS_SECONDS,
            &self.attempt_durations,
        );
    }

    fn write_calls(&self, out: &mut MetricsWriter) {
        out.family(
            "strata_host_calls_total",
            "counter",
            "Host calls of attempts, made or served from the journal.",
        );
        for ([kind, source, outcome], count) in &self.calls {
            let labels = [("kind", *kind), ("source", source), ("outcome", outcome)];
            out.sample("strata_host_calls_total", &labels, count);
        }
        out.family(
            "strata_tokens_total",
            "counter",
            "Tokens of language models, of requests and replies.",
        );
        for ([role, action], count) in &self.tokens {
            out.sample(
                "strata_tokens_total",
                &[("role", role), ("action", action)],
                count,
            );
        }
        out.family(
            "strata_cost_dollars_total",
            "counter",
            "What calls cost that were made.",
        );
        for ([role, action], usd) in &self.spent {
            out.sample(
                "strata_cost_dollars_total",
                &[("role", role), ("action", action)],
                usd.to_dollars(),
            );
        }
        out.family(
            "strata_saved_dollars_total",
            "counter",
            "What calls had cost that the journal served again.",
        );
        out.sample("strata_saved_dollars_total", &[], self.saved.to_dollars());
    }

    fn write_messages(&self, out: &mut MetricsWriter) {
        out.family(
            "strata_messages_total",
            "counter",
            "Messages that were routed to somebody.",
        );
        out.sample("strata_messages_total", &[], self.messages);
        out.family(
            "strata_dead_letters_total",
            "counter",
            "Recipients of messages that stood for nobody.",
        );
        out.sample("strata_dead_letters_total", &[], self.dead_letters);
        out.family(
            "strata_mailbox_messages",
            "gauge",
            "Messages that a role has not finished with.",
        );
        let names = self
            .role_names
            .iter()
            .map(String::as_str)
            .chain([OTHER_ROLES]);
        for (role, count) in names
            .zip(&self.mailbox_sizes)
            .filter(|(role, count)| *role != OTHER_ROLES || **count > 0)
        {
            out.sample("strata_mailbox_messages", &[("role", role)], count);
        }
        out.family(
            "strata_open_requests",
            "gauge",
            "Questions that wait for a person.",
        );
        out.sample("strata_open_requests", &[], self.open_requests);
    }

    fn write_storage(&self, out: &mut MetricsWriter) {
        out.family(
            "strata_events_total",
            "counter",
            "Events recorded, as many as there are lines of them.",
        );
        out.sample("strata_events_total", &[], self.events);
        let what = "How long it took to make events durable, by what they survive.";
        out.family("strata_commit_duration_seconds", "histogram", what);
        for (durability, commits) in &self.commits {
            let labels = [("durability", *durability)];
            out.histogram(
                "strata_commit_duration_seconds",
                &labels,
                &COMMIT_BUCKETS_SECONDS,
                commits,
            );
        }
    }
}

/// Writes metrics.
#[derive(Debug, Default)]
pub struct MetricsWriter(String);

impl MetricsWriter {
    /// Returns what was written.
    pub fn into_text(self) -> String {
        self.0
    }

    fn write_line(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{text}");
    }

    /// Begins the samples of a metric.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.write_line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    /// Writes a sample of a metric that was begun.
    pub fn sample(&mut self, name: &str, labels: &[MetricLabel<'_>], value: impl Display) {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escape(value)))
            .collect();
        let labels = if labels.is_empty() {
            String::new()
        } else {
            format!("{{{}}}", labels.join(","))
        };
        self.write_line(format_args!("{name}{labels} {value}"));
    }

    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &[MetricLabel<'_>],
        ends: &[f64],
        histogram: &Histogram,
    ) {
        let mut below = 0;
        for (class, end) in ends.iter().enumerate() {
            below += histogram.buckets.get(class).copied().unwrap_or_default();
            let end = end.to_string();
            self.sample(
                &format!("{name}_bucket"),
                &[labels, &[("le", end.as_str())]].concat(),
                below,
            );
        }
        self.sample(
            &format!("{name}_bucket"),
            &[labels, &[("le", "+Inf")]].concat(),
            histogram.count,
        );
        self.sample(&format!("{name}_sum"), labels, histogram.sum);
        self.sample(&format!("{name}_count"), labels, histogram.count);
    }
}

/// Escapes a label value.
fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_as_the_format_has_it() {
        let mut out = MetricsWriter(String::new());
        out.family("x_total", "counter", "What is counted.");
        out.sample("x_total", &[], 3);
        out.sample("x_total", &[("role", "a \"b\" \\ \n"), ("kind", "k")], 0.5);
        let expected = "# HELP x_total What is counted.\n# TYPE x_total counter\nx_total 3\n\
                        x_total{role=\"a \\\"b\\\" \\\\ \\n\",kind=\"k\"} 0.5\n";
        assert_eq!(out.0, expected);
    }

    #[test]
    fn classes_of_a_histogram_hold_all_below() {
        let (mut out, mut histogram) = (MetricsWriter(String::new()), Histogram::default());
        for value in [0.5, 1.0, 1.5, 99.0] {
            histogram.observe(&[1.0, 2.0], value);
        }
        out.histogram("h", &[("a", "b")], &[1.0, 2.0], &histogram);
        let expected = "h_bucket{a=\"b\",le=\"1\"} 2\nh_bucket{a=\"b\",le=\"2\"} 3\nh_bucket{a=\"b\",le=\"+Inf\"} 4\n\
                        h_sum{a=\"b\"} 102\nh_count{a=\"b\"} 4\n";
        assert_eq!(out.0, expected);
    }
}
