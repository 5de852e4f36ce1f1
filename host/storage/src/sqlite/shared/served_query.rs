//! The statement that reads the runs of a list, the newest first.
//!
//! A page of a list is read without the rest of it: the runs of each tenant come in their order from an index, and are
//! merged. What is asked for often and found rarely has indexes of its own: runs with a status, those that have not begun,
//! and those with open requests; a beginning of names that few runs have is looked up among the names. Every other filter
//! is checked by the statement, so that a run that is not listed costs a look at its row.
//!
//! The statement may return runs that the filter does not accept, because their state depends on who owns them. It leaves
//! out none that it accepts.

#[cfg(test)]
mod tests;

use rusqlite::Connection;
use rusqlite::types::Value;
use strata_records::overview::LifecycleState;
use strata_records::served::{ServedFilter, stored_run_name};

use super::owner_note::OWNER_NOTE;
use super::submission_row::{COLUMNS, LATER, NEVER, NOW, ON_REQUEST};

/// How many parts are merged at most. If there were more, all runs that fit are read and sorted.
const MAX_PARTS: usize = 100;
/// How many runs are looked up by the beginning of their names, and sorted. If there are more, a page is soon found among
/// the newest runs.
const MAX_NAMED_RUNS: i64 = 500;

/// The statement, and the values of its parameters.
#[derive(Debug)]
pub(super) struct ServedQuery {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

/// A statement that is being written.
#[derive(Default)]
struct Writing {
    values: Vec<Value>,
}

/// Where a part of the statement finds its runs in their order.
struct Part {
    index: &'static str,
    condition: String,
}

impl ServedQuery {
    /// Returns the statement for a filter, which reads the runs of these tenants.
    pub(super) fn new(
        conn: &Connection,
        filter: &ServedFilter,
        tenants: &[String],
    ) -> rusqlite::Result<Self> {
        let mut writing = Writing::default();
        let owner_note = writing.bind(OWNER_NOTE.to_owned());
        let conditions = writing.conditions(filter, tenants);
        let read = |from: &str, condition: &str| {
            format!(
                "SELECT {COLUMNS}, r.name, w.text IS NOT NULL FROM {from} \
                 LEFT JOIN note w ON w.run = s.run AND w.name = {owner_note} WHERE {condition}{conditions}"
            )
        };
        let parts = match named_runs(conn, filter, tenants)? {
            Some(names) => {
                let condition = writing.one_of_names(&names);
                // The order of the tables is that of the search.
                let from = "run r CROSS JOIN submission s ON s.run = r.id";
                vec![read(from, &condition)]
            }
            None => {
                let parts = writing.parts(filter, tenants);
                let from = |part: &Part| {
                    format!(
                        "submission s INDEXED BY {} JOIN run r ON r.id = s.run",
                        part.index
                    )
                };
                let read_part = |part: &Part| read(&from(part), &part.condition);
                match parts.len() {
                    1..=MAX_PARTS => parts.iter().map(read_part).collect(),
                    _ => vec![read("submission s JOIN run r ON r.id = s.run", "true")],
                }
            }
        };
        Ok(Self {
            sql: format!(
                "{} ORDER BY created_ms DESC, code DESC",
                parts.join(" UNION ALL ")
            ),
            values: writing.values,
        })
    }
}

impl Writing {
    /// Adds a value, and returns the parameter that stands for it.
    fn bind(&mut self, value: impl Into<Value>) -> String {
        self.values.push(value.into());
        format!("?{}", self.values.len())
    }

    /// Returns the condition that a column has one of these values.
    fn one_of(&mut self, column: &str, values: &[String]) -> String {
        let parameters: Vec<String> = values.iter().map(|one| self.bind(one.clone())).collect();
        format!("{column} IN ({})", parameters.join(", "))
    }

    /// Returns the conditions that hold for all parts, each after `AND`.
    fn conditions(&mut self, filter: &ServedFilter, tenants: &[String]) -> String {
        let mut all = Vec::new();
        if let Some(after) = &filter.after {
            let (created_ms, id) = (self.bind(after.created_ms), self.bind(after.id.clone()));
            all.push(format!("(s.created_ms, s.code) < ({created_ms}, {id})"));
        }
        if let Some(owner) = &filter.owner {
            all.push(format!("s.submitter = {}", self.bind(owner.clone())));
        }
        for (column, values) in [
            ("s.submitter", &filter.submitters),
            ("s.team", &filter.teams),
        ] {
            if !values.is_empty() {
                all.push(self.one_of(column, values));
            }
        }
        for (time_ms, order) in [(filter.since_ms, ">="), (filter.until_ms, "<=")] {
            if let Some(time_ms) = time_ms {
                all.push(format!("s.changed_ms {order} {}", self.bind(time_ms)));
            }
        }
        if !filter.statuses.is_empty() {
            let has_status = self.one_of("s.status", &filter.statuses);
            all.push(if wants_unbegun(filter) {
                format!("({has_status} OR s.started = '')")
            } else {
                has_status
            });
        }
        if filter.is_asking {
            all.push(IS_ASKING.into());
        }
        if !filter.states.is_empty() {
            let any: Vec<String> = filter
                .states
                .iter()
                .map(|state| may_be_in(*state))
                .collect();
            all.push(format!("({})", any.join(" OR ")));
        }
        if !filter.prefixes.is_empty() {
            let any = names_of(filter, tenants).into_iter().map(|name| {
                let begin = self.bind(name);
                format!("substr(r.name, 1, length({begin})) = {begin}")
            });
            let any: Vec<String> = any.collect();
            all.push(format!("({})", any.join(" OR ")));
        }
        for (key, _) in &filter.tags {
            let values = filter.tags.iter().filter(|(other, _)| other == key);
            let any = values.map(|(key, value)| {
                format!("instr(s.tags, {}) > 0", self.bind(tag_text(key, value)))
            });
            let any: Vec<String> = any.collect();
            all.push(format!("({})", any.join(" OR ")));
        }
        all.iter().map(|one| format!(" AND {one}")).collect()
    }

    /// Returns the parts of which the list is merged. No run is in two of them.
    fn parts(&mut self, filter: &ServedFilter, tenants: &[String]) -> Vec<Part> {
        let mut parts = Vec::new();
        for tenant in tenants {
            let of_tenant = format!("s.tenant = {}", self.bind(tenant.clone()));
            let mut add = |index, condition: String| {
                parts.push(Part {
                    index,
                    condition: format!("{of_tenant}{condition}"),
                });
            };
            if filter.is_asking {
                add("submission_asking", format!(" AND {IS_ASKING}"));
                continue;
            }
            if filter.statuses.is_empty() {
                add("submission_order", String::new());
                continue;
            }
            let mut statuses = filter.statuses.clone();
            statuses.sort_unstable();
            statuses.dedup();
            for status in &statuses {
                let status = self.bind(status.clone());
                add("submission_status", format!(" AND s.status = {status}"));
            }
            if wants_unbegun(filter) {
                let found = self.one_of("s.status", &statuses);
                let rest = format!(" AND s.started = '' AND ({found}) IS NOT TRUE");
                add("submission_unbegun", rest);
            }
        }
        parts
    }

    /// Returns the condition that a run has one of these names.
    fn one_of_names(&mut self, names: &[NameRange]) -> String {
        let any = names.iter().map(|range| {
            let (first, end) = (self.bind(range.first.clone()), self.bind(range.end.clone()));
            format!("r.name >= {first} AND r.name < {end}")
        });
        let any: Vec<String> = any.collect();
        format!("({})", any.join(" OR "))
    }
}

/// The runs with open requests, and those whose state has to be read. The text is that of the index.
const IS_ASKING: &str = "(s.status IS NULL OR s.requests > 0)";

/// Whether runs are asked for that have not begun: their status is not shown as what it is.
fn wants_unbegun(filter: &ServedFilter) -> bool {
    let queued = LifecycleState::Queued.name();
    filter.statuses.iter().any(|status| status == queued)
}

/// Returns what holds for each run that is in a state, whoever owns it.
fn may_be_in(state: LifecycleState) -> String {
    match state {
        LifecycleState::Running => "s.is_taken = 1 OR w.text IS NOT NULL".into(),
        LifecycleState::Refused => "s.problem IS NOT NULL".into(),
        LifecycleState::Queued => format!("s.schedule = {NOW}"),
        LifecycleState::Resting => format!("s.schedule >= {LATER}"),
        LifecycleState::Ended => format!("s.schedule = {NEVER} OR s.schedule >= {ON_REQUEST}"),
        LifecycleState::Detached => format!("s.schedule = {NEVER}"),
    }
}

/// Returns a tag as it is in the column of all tags.
fn tag_text(key: &str, value: &str) -> String {
    format!("{}:{}", serde_json::json!(key), serde_json::json!(value))
}

/// Returns what the stored names of the runs begin with whose names begin as a filter says.
fn names_of(filter: &ServedFilter, tenants: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for prefix in &filter.prefixes {
        // A name without that of its tenant is one as it is.
        names.push(prefix.clone());
        names.extend(tenants.iter().map(|tenant| stored_run_name(tenant, prefix)));
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// All texts from the first on that come before the end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NameRange {
    first: String,
    end: String,
}

impl NameRange {
    /// Returns the range of the texts with a beginning; `None` if it has no end.
    fn beginning_with(first: &str) -> Option<Self> {
        let mut end = first.to_owned();
        while let Some(last) = end.pop() {
            if let Some(next) = (last..=char::MAX).nth(1) {
                end.push(next);
                return Some(Self {
                    first: first.to_owned(),
                    end,
                });
            }
        }
        None
    }
}

/// Returns where the runs are among the names that a filter asks for by the beginnings of their names. Returns `None` if
/// it does not, or if these are many.
fn named_runs(
    conn: &Connection,
    filter: &ServedFilter,
    tenants: &[String],
) -> rusqlite::Result<Option<Vec<NameRange>>> {
    let mut names = names_of(filter, tenants);
    if names.is_empty() || names.len() > MAX_PARTS {
        return Ok(None);
    }
    // What is in one range must not be found in another one.
    let mut last: Option<String> = None;
    names.retain(|name| {
        let is_inside = last
            .as_ref()
            .is_some_and(|last| name.starts_with(last.as_str()));
        if !is_inside {
            last = Some(name.clone());
        }
        !is_inside
    });
    let sql = "SELECT count(*) FROM (SELECT 1 FROM run WHERE name >= ?1 AND name < ?2 LIMIT ?3)";
    let mut ranges = Vec::new();
    let mut count = 0;
    for name in &names {
        let Some(range) = NameRange::beginning_with(name) else {
            return Ok(None);
        };
        let mut statement = conn.prepare_cached(sql)?;
        let limits = rusqlite::params![range.first, range.end, MAX_NAMED_RUNS + 1];
        count += statement.query_row(limits, |row| row.get::<_, i64>(0))?;
        if count > MAX_NAMED_RUNS {
            return Ok(None);
        }
        ranges.push(range);
    }
    Ok(Some(ranges))
}
