//! The statements with which the events of several runs are appended, and their arguments.
//!
//! Planning takes several times as long as the rest, so the server has to choose one plan for all arguments. It does if it
//! does not expect less work from a plan for those of each use, so no estimate must depend on them. The plan may be made
//! while the tables are small. So a row is looked up by its run and its key, both from one source: such a plan may otherwise
//! read all of an index.

use std::ops::RangeInclusive;

use strata_base::files::durability::Durability;
use tokio_postgres::types::Type;

use super::append::{AppendRequest, key_and_sum, push_row, synchronous_commit};
use super::mail_text::encode_reply;
use super::overview::{self, OverviewColumns};
use super::session::Argument;

/// What requests store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AppendKind {
    /// Events that name no files. Most requests are such ones, and the server needs half the time for them.
    Events,
    /// Events that name files, and rows of lineages and replies.
    EventsAndOthers,
}

impl AppendKind {
    /// Returns the statement. It returns the numbers of the requests that were accepted, counted from 1; nothing is
    /// stored of the others.
    pub(super) fn sql(self) -> String {
        let (condition, others) = match self {
            Self::Events => (String::new(), String::new()),
            Self::EventsAndOthers => (having_files(), updating_others()),
        };
        format!(
            "WITH durability AS MATERIALIZED (SELECT set_config('synchronous_commit', $1, true)),
                  {accepted} {condition}), {appended}, {listed} {others}
             SELECT request FROM accepted",
            accepted = accepting_requests(),
            appended = appending_events(),
            listed = updating_overviews(),
        )
    }
}

/// Begins to find the requests for runs whose lease is the newest and which have the event before theirs.
fn accepting_requests() -> String {
    format!(
        "lease AS MATERIALIZED (
             SELECT id, epoch, owner FROM strata.run WHERE id = ANY({runs}::bigint[]) ORDER BY id FOR SHARE
         ),
         accepted AS MATERIALIZED (
             SELECT wanted.request, wanted.run
             FROM unnest({numbers}, {owners}) WITH ORDINALITY AS wanted (run, epoch, before, sum, owner, request)
                  JOIN lease ON lease.id = wanted.run AND lease.epoch = wanted.epoch AND lease.owner = wanted.owner
             WHERE (wanted.before < 0
                    OR wanted.sum = (SELECT event.sum FROM strata.event
                                     WHERE event.run = wanted.run AND event.n = wanted.before))",
        runs = arrays(2..=2, "bigint"),
        numbers = arrays(2..=5, "bigint"),
        owners = arrays(6..=6, "text"),
    )
}

/// Excludes requests that name files which their runs do not have.
fn having_files() -> String {
    format!(
        "AND NOT EXISTS (
             SELECT FROM unnest({requests}, {digests}) AS named (request, digest)
             WHERE named.request = wanted.request
               AND (SELECT count(*) FROM strata.blob
                    WHERE blob.run = wanted.run AND blob.digest = named.digest) = 0)",
        requests = arrays(40..=40, "bigint"),
        digests = arrays(41..=41, "text"),
    )
}

/// Inserts the events of what was accepted.
fn appending_events() -> String {
    format!(
        "appended AS (
             INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body)
             SELECT accepted.run, new.n, new.line, new.lines, new.time_ms, new.marks, new.sum, new.body
             FROM unnest({numbers}, {bodies}) AS new (request, n, line, lines, time_ms, marks, sum, body)
                  JOIN accepted USING (request), durability
         )",
        numbers = arrays(7..=13, "bigint"),
        bodies = arrays(14..=14, "bytea"),
    )
}

/// Writes the rows from which the runs are listed.
fn updating_overviews() -> String {
    let columns = [arrays(15..=23, "bigint"), arrays(24..=26, "text")].join(", ");
    format!(
        "listed AS ({})",
        overview::updating(&columns, "SELECT request FROM accepted")
    )
}

/// Writes the rows of lineages and the replies to what became the events.
fn updating_others() -> String {
    format!(
        ", updated AS (
             UPDATE strata.lineage
             SET events = new.events, last = new.last, forgotten = new.forgotten,
                 spent = new.spent, since = new.since, sum = new.sum
             FROM unnest({numbers}) AS new (request, run, id, events, last, forgotten, spent, since, sum)
             WHERE lineage.run = new.run AND lineage.id = new.id
               AND new.request IN (SELECT request FROM accepted)
         ),
         answered AS (
             UPDATE strata.mail SET reply = new.reply
             FROM unnest({mail}, {replies}) AS new (request, run, id, reply)
             WHERE mail.run = new.run AND mail.id = new.id
               AND new.request IN (SELECT request FROM accepted)
         )",
        numbers = arrays(27..=35, "bigint"),
        mail = arrays(36..=38, "bigint"),
        replies = arrays(39..=39, "bytea"),
    )
}

/// Returns arguments that are arrays, separated by commas. Each is in a query of its own, so that the planner does not
/// know how long it is.
fn arrays(numbers: RangeInclusive<u32>, element: &str) -> String {
    let all: Vec<String> = numbers
        .map(|number| format!("(SELECT ${number}::{element}[])"))
        .collect();
    all.join(", ")
}

/// Requests, as the columns of a statement's arguments.
pub(super) struct AppendColumns<'a> {
    durability: &'static str,
    /// By request: the run, the epoch, the event before and its checksum.
    requests: [Vec<i64>; 4],
    /// By event: the number of the request, and the columns of the event.
    events: [Vec<i64>; 7],
    bodies: Vec<&'a [u8]>,
    /// By run whose row in the list changes.
    overviews: OverviewColumns,
    /// By lineage: the number of the request, the run, the key, and the columns that change.
    rows: [Vec<i64>; 9],
    /// By reply: the number of the request to append, the run, and the key of the request that is answered.
    answered: [Vec<i64>; 3],
    replies: Vec<Vec<u8>>,
    /// By file: the number of the request.
    files: Vec<i64>,
    digests: Vec<&'a str>,
    /// By request.
    owners: Vec<&'a str>,
}

impl<'a> AppendColumns<'a> {
    /// Returns those of requests, which are numbered from 1.
    pub(super) fn of_requests(batch: impl Iterator<Item = &'a AppendRequest>) -> Self {
        let mut columns = Self {
            durability: synchronous_commit(Durability::Process),
            requests: Default::default(),
            events: Default::default(),
            bodies: Vec::new(),
            overviews: OverviewColumns::default(),
            rows: Default::default(),
            answered: Default::default(),
            replies: Vec::new(),
            files: Vec::new(),
            digests: Vec::new(),
            owners: Vec::new(),
        };
        for (number, request) in (1..).zip(batch) {
            columns.add(number, request);
        }
        columns
    }

    fn add(&mut self, number: i64, request: &'a AppendRequest) {
        if request.durability == Durability::Full {
            self.durability = synchronous_commit(Durability::Full);
        }
        let right = &request.right;
        let [key, sum] = key_and_sum(right.before);
        push_row(&mut self.requests, [right.run, right.epoch, key, sum]);
        self.owners.push(&right.owner);
        let new = &request.new;
        for event in new.events.iter() {
            let [n, line, lines, time_ms, marks] = event.numbers;
            let sum = event.sum.into();
            push_row(
                &mut self.events,
                [number, n, line, lines, time_ms, marks, sum],
            );
            self.bodies.push(&event.body);
        }
        if let Some(shown) = &new.shown
            && !request.is_shown
        {
            self.overviews.push(number, right.run, shown);
        }
        if new.writes_row {
            let row = &new.line;
            let values = [
                number,
                right.run,
                row.id,
                row.events,
                row.last_checksum.into(),
                row.forgotten_until,
                row.spent,
                row.bytes_since_snapshot,
                row.checksum().into(),
            ];
            push_row(&mut self.rows, values);
        }
        for reply in &new.replies {
            push_row(&mut self.answered, [number, right.run, reply.id.number]);
            self.replies.push(encode_reply(&reply.reply).into_bytes());
        }
        for digest in &request.files {
            self.files.push(number);
            self.digests.push(&digest.0);
        }
    }

    /// Returns which statement stores them.
    pub(super) fn kind(&self) -> AppendKind {
        let only_events =
            self.rows[0].is_empty() && self.replies.is_empty() && self.files.is_empty();
        if only_events {
            AppendKind::Events
        } else {
            AppendKind::EventsAndOthers
        }
    }

    /// Returns the arguments of that statement.
    pub(super) fn arguments(&self) -> Vec<Argument<'_>> {
        let mut all: Vec<Argument<'_>> = vec![(&self.durability, Type::TEXT)];
        let numbers = |column| (column as _, Type::INT8_ARRAY);
        all.extend(self.requests.iter().map(numbers));
        all.push((&self.owners, Type::TEXT_ARRAY));
        all.extend(self.events.iter().map(numbers));
        all.push((&self.bodies, Type::BYTEA_ARRAY));
        all.extend(self.overviews.arguments());
        if self.kind() == AppendKind::EventsAndOthers {
            all.extend(self.rows.iter().chain(&self.answered).map(numbers));
            all.push((&self.replies, Type::BYTEA_ARRAY));
            all.push((&self.files, Type::INT8_ARRAY));
            all.push((&self.digests, Type::TEXT_ARRAY));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::administer::prepare;
    use crate::database::Database;
    use crate::postgres_server::{create_database, query};
    use strata_records::database_url::DatabaseUrl;

    /// Without PostgreSQL, this is skipped.
    #[test]
    fn the_server_plans_each_statement_for_all_arguments() {
        let Some(database) = create_database(&format!("append-plans-{}", std::process::id()))
        else {
            return;
        };
        prepare(&Database::at(DatabaseUrl::parse(&database).unwrap())).unwrap();
        for kind in [AppendKind::Events, AppendKind::EventsAndOthers] {
            let mut columns = AppendColumns::of_requests([].into_iter());
            if kind == AppendKind::EventsAndOthers {
                columns.files.push(1);
            }
            assert_eq!(columns.kind(), kind);
            let types: Vec<String> = columns
                .arguments()
                .iter()
                .map(|(_, argument)| match argument.name().strip_prefix('_') {
                    Some(element) => format!("{element}[]"),
                    None => argument.name().into(),
                })
                .collect();
            // Arrays of one element are cheaper than those that the planner expects.
            let values = ", '{1}'".repeat(types.len() - 1);
            let uses = format!("EXECUTE append ('on'{values});").repeat(10);
            let (types, sql) = (types.join(", "), kind.sql());
            let found = query(
                &database,
                &format!(
                    "PREPARE append ({types}) AS {sql}; {uses} \
                     SELECT generic_plans, custom_plans FROM pg_prepared_statements"
                ),
            );
            // The server compares five plans for given arguments with one for all.
            assert_eq!(found.lines().last(), Some("5|5"), "{kind:?}: {found}");
        }
    }
}
