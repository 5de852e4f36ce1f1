//! The log of a worker for programs that collect logs: a line for each event, with its time, level, worker and run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::ValueEnum;
use serde_json::{Value, json};
use strata_host::clock::{now_ms, rfc3339};
use strata_host::storage::{RunDatabase, StorageLocation};
use strata_host::telemetry::SPANS;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::Printer;
use super::sanitize::{sanitize, sanitize_json};

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A JSON object: `time`, `level`, `worker`, `run`, `message`.
    Json,
    /// A text: time, level, worker, run, and the message.
    Text,
}

/// A line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLine<'a> {
    pub(super) level: Level,
    /// The id of the worker.
    pub(super) worker: Option<&'a str>,
    /// The name of the run.
    pub(super) run: Option<&'a str>,
    pub(super) message: &'a str,
}

impl LogLine<'_> {
    fn format(&self, format: LogFormat, time_ms: i64) -> String {
        let time = rfc3339(time_ms);
        let level = self.level.as_str().to_lowercase();
        match format {
            LogFormat::Json => {
                let line: Value = json!({
                    "time": time, "level": level, "worker": self.worker, "run": self.run, "message": self.message,
                });
                sanitize_json(&line.to_string()).into_owned()
            }
            LogFormat::Text => {
                let field = |name: &str, value: Option<&str>| {
                    value.map_or_else(String::new, |value| format!(" {name}={}", sanitize(value)))
                };
                let lines: Vec<String> = self.message.lines().map(sanitize).collect();
                let message = lines.join("; ");
                format!(
                    "{time} {level}{}{} {message}",
                    field("worker", self.worker),
                    field("run", self.run)
                )
            }
        }
    }
}

/// Writes the lines of a worker.
#[derive(Clone)]
pub(super) struct WorkerLog {
    format: LogFormat,
    printer: Printer,
    /// The ids of the worker, by database.
    ids: Arc<Mutex<BTreeMap<String, String>>>,
}

impl WorkerLog {
    pub(super) fn new(format: LogFormat, printer: &Printer) -> Self {
        Self {
            format,
            printer: printer.clone(),
            ids: Arc::default(),
        }
    }

    /// Notes the id of the worker in a database.
    pub(super) fn set_id(&self, database: &RunDatabase, id: &str) {
        self.ids().insert(database.to_string(), id.to_owned());
    }

    /// Writes a line about the worker in a database.
    pub(super) fn note(&self, level: Level, database: Option<&RunDatabase>, message: &str) {
        let ids = self.ids();
        let worker = match database {
            Some(database) => ids.get(&database.to_string()),
            None => ids.values().next(),
        };
        self.write(LogLine {
            level,
            worker: worker.map(String::as_str),
            run: None,
            message,
        });
    }

    /// Writes a line about a run.
    pub(super) fn note_run(&self, level: Level, run: &StorageLocation, message: &str) {
        let ids = self.ids();
        let name = run.run_name();
        let is_of = |database: &&String| {
            let database = RunDatabase::parse(database).ok();
            database
                .is_some_and(|database| database.location(name.unwrap_or_default()).is_same(run))
        };
        let database = ids.keys().find(is_of);
        self.write(LogLine {
            level,
            worker: database
                .and_then(|database| ids.get(database))
                .map(String::as_str),
            run: name,
            message,
        });
    }

    fn write(&self, line: LogLine<'_>) {
        write_line(line, self.format, &self.printer);
    }

    fn ids(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Each change is a single insertion.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_line(line: LogLine<'_>, format: LogFormat, printer: &Printer) {
    let mut text = line.format(format, now_ms());
    text.push('\n');
    printer.log(text.as_bytes());
}

/// Returns what writes the diagnostics of the library in the same form, with the run in which they arose. Those above
/// `most` are left out.
pub(super) fn traced_lines<S>(
    format: LogFormat,
    most: Level,
    printer: &Printer,
) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let lines = TracedLines {
        format,
        printer: printer.clone(),
    };
    // Spans tell to which run an event belongs.
    lines.with_filter(FilterFn::new(move |metadata: &Metadata<'_>| {
        if metadata.is_span() {
            metadata.target() == SPANS
        } else {
            *metadata.level() <= most
        }
    }))
}

struct TracedLines {
    format: LogFormat,
    printer: Printer,
}

/// To what the events within a span belong.
#[derive(Default)]
struct RunOfSpan {
    worker: Option<String>,
    run: Option<String>,
}

impl Visit for RunOfSpan {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "worker" => self.worker = Some(value.into()),
            "run_name" => self.run = Some(value.into()),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// The text of an event, and its fields.
#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields += &format!(" {name}={value:?}"),
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TracedLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut found = RunOfSpan::default();
        attributes.record(&mut found);
        if (found.worker.is_some() || found.run.is_some())
            && let Some(span) = context.span(id)
        {
            span.extensions_mut().insert(found);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = EventText::default();
        event.record(&mut text);
        let message = text.message + &text.fields;
        let (mut worker, mut run) = (None, None);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(found) = span.extensions().get::<RunOfSpan>() {
                worker = worker.or_else(|| found.worker.clone());
                run = run.or_else(|| found.run.clone());
            }
        }
        let line = LogLine {
            level: *event.metadata().level(),
            worker: worker.as_deref(),
            run: run.as_deref(),
            message: &message,
        };
        write_line(line, self.format, &self.printer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_time_level_worker_and_run_and_remains_one_line() {
        let check = |format: LogFormat, message: &str, expected: &str| {
            let line = LogLine {
                level: Level::WARN,
                worker: Some("w1"),
                run: Some("nightly"),
                message,
            };
            assert_eq!(line.format(format, 0), expected);
        };
        check(
            LogFormat::Json,
            "is \"left\"\nnow",
            r#"{"level":"warn","message":"is \"left\"\nnow","run":"nightly","time":"1970-01-01T00:00:00.000Z","worker":"w1"}"#,
        );
        check(
            LogFormat::Text,
            "is left\nnow",
            "1970-01-01T00:00:00.000Z warn worker=w1 run=nightly is left; now",
        );
    }
}
