//! Joins the reports of token usage that belong to one reply.
//!
//! Endpoints report usage once, in every chunk while it grows, or in parts: the tokens of the
//! request first and those of the reply last. Some write 0 where a report is about something else.

use serde_json::{Map, Value};

use crate::models::tokens::parse_token_count;

/// The reports that have arrived, as one.
#[derive(Default)]
pub(super) struct UsageReports(Map<String, Value>);

/// Which of two counts of the same tokens is used.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Precedence {
    Later,
    Higher,
}

impl UsageReports {
    /// Adds a report, if the value is one. A later report does not lower the counts of an earlier
    /// one, unless it has all of these counts and more: an estimate is thus corrected.
    pub(super) fn add(&mut self, report: Value) {
        let Value::Object(report) = report else {
            return;
        };
        let is_more_complete = covers(&report, &self.0) && !covers(&self.0, &report);
        let precedence = if is_more_complete {
            Precedence::Later
        } else {
            Precedence::Higher
        };
        merge(&mut self.0, report, precedence);
    }

    /// Returns whether there is no count in the reports.
    pub(super) fn is_empty(&self) -> bool {
        covers(&Map::new(), &self.0)
    }

    /// Returns the reports as one, in their own form. Without any, this is `null`.
    pub(super) fn finish(self) -> Value {
        if self.0.is_empty() {
            Value::Null
        } else {
            self.0.into()
        }
    }
}

/// Returns whether `report` has all counts that `other` has. A count of 0 says nothing.
fn covers(report: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let nothing = Map::new();
    other.iter().all(|(name, value)| match value {
        Value::Object(parts) => {
            let known = report.get(name).and_then(Value::as_object);
            covers(known.unwrap_or(&nothing), parts)
        }
        value => count(value).is_none() || report.get(name).and_then(count).is_some(),
    })
}

fn merge(known: &mut Map<String, Value>, report: Map<String, Value>, precedence: Precedence) {
    for (name, value) in report {
        match (known.get_mut(&name), value) {
            (_, Value::Null) => {}
            (Some(Value::Object(known)), Value::Object(parts)) => merge(known, parts, precedence),
            (Some(known), value) => {
                let replaces = match (count(known), count(&value)) {
                    (Some(earlier), Some(later)) => {
                        precedence == Precedence::Later || later > earlier
                    }
                    (Some(_), None) => false,
                    (None, _) => true,
                };
                if replaces {
                    *known = value;
                }
            }
            (None, value) => {
                known.insert(name, value);
            }
        }
    }
}

fn count(value: &Value) -> Option<u64> {
    parse_token_count(value).filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(reports: &[Value], expected: Value) {
        let mut joined = UsageReports::default();
        for report in reports {
            joined.add(report.clone());
        }
        assert_eq!(joined.finish(), expected, "{reports:?}");
    }

    #[test]
    fn a_later_report_lowers_no_count() {
        let first = json!({ "input": 1000, "output": 1, "details": { "cached": 30 } });
        check(
            &[first.clone(), json!({ "input": 0, "output": 5 })],
            json!({ "input": 1000, "output": 5, "details": { "cached": 30 } }),
        );
        check(
            &[
                first.clone(),
                json!({ "output": 5, "details": { "cached": 0 } }),
            ],
            json!({ "input": 1000, "output": 5, "details": { "cached": 30 } }),
        );
        check(
            &[
                first.clone(),
                json!({ "input": 900, "output": 5 }),
                json!({ "input": 1200 }),
            ],
            json!({ "input": 1200, "output": 5, "details": { "cached": 30 } }),
        );
        check(
            &[
                first,
                json!({ "input": -4, "output": "many", "details": null }),
                Value::Null,
            ],
            json!({ "input": 1000, "output": 1, "details": { "cached": 30 } }),
        );
    }

    #[test]
    fn a_report_with_all_counts_and_more_corrects_an_earlier_one() {
        check(
            &[
                json!({ "input": 1000, "output": 1 }),
                json!({ "input": 950, "cached": 50, "output": 5 }),
            ],
            json!({ "input": 950, "cached": 50, "output": 5 }),
        );
        check(
            &[
                json!({ "input": 1000, "output": 1 }),
                json!({ "input": 950, "cached": 0, "output": 5 }),
            ],
            json!({ "input": 1000, "cached": 0, "output": 5 }),
        );
    }

    #[test]
    fn a_count_of_zero_says_nothing() {
        let mut reports = UsageReports::default();
        assert!(reports.is_empty());
        reports.add(json!({ "input": 0, "details": { "cached": 0 }, "tier": "standard" }));
        assert!(reports.is_empty());
        reports.add(json!({ "details": { "cached": "3" } }));
        assert!(!reports.is_empty());
    }
}
