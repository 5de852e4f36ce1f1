//! The statements with which the events of several runs are appended, and their arguments.
//!
//! They are planned once for all arguments, possibly while the tables are small. So a row is looked up by its run and
//! its key, both from one source: a plan that is made for a small table may otherwise read all of an index.

use tokio_postgres::types::Type;

use super::append::{key_and_sum, push_row, synchronous_commit};
use super::connect::Argument;
use super::mail_text::encode_reply;
use super::writer::AppendRequest;
use crate::storage::Durability;

/// What requests store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AppendKind {
    /// Events that name no files. Most requests are such ones, and the server needs half the time for them.
    Events,
    /// Events that name files, and rows of lineages and replies.
    EventsAndOthers,
}

/// Begins a statement: finds the requests for runs whose lease is the newest and which have the event before theirs.
const ACCEPTED: &str = "
    WITH durability AS MATERIALIZED (SELECT set_config('synchronous_commit', $1, true)),
         lease AS MATERIALIZED (
             SELECT id, epoch, owner FROM strata.run WHERE id = ANY($2::bigint[]) ORDER BY id FOR SHARE
         ),
         accepted AS MATERIALIZED (
             SELECT wanted.request, wanted.run
             FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[])
                      WITH ORDINALITY AS wanted (run, epoch, before, sum, owner, request)
             JOIN lease ON lease.id = wanted.run AND lease.epoch = wanted.epoch AND lease.owner = wanted.owner
             WHERE (wanted.before < 0
                    OR wanted.sum = (SELECT event.sum FROM strata.event
                                     WHERE event.run = wanted.run AND event.n = wanted.before))";

/// Excludes requests that name files which their runs do not have.
const HAS_FILES: &str = "
               AND NOT EXISTS (
                    SELECT FROM unnest($28::bigint[], $29::text[]) AS named (request, digest)
                    WHERE named.request = wanted.request
                      AND (SELECT count(*) FROM strata.blob
                           WHERE blob.run = wanted.run AND blob.digest = named.digest) = 0)";

/// Inserts the events of what was accepted.
const APPENDED: &str = "
         appended AS (
             INSERT INTO strata.event (run, n, line, lines, time_ms, marks, sum, body)
             SELECT accepted.run, new.n, new.line, new.lines, new.time_ms, new.marks, new.sum, new.body
             FROM unnest($7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[],
                         $12::bigint[], $13::bigint[], $14::bytea[])
                      AS new (request, n, line, lines, time_ms, marks, sum, body)
                  JOIN accepted USING (request), durability
         )";

/// Writes the rows of lineages and the replies to what became these events.
const UPDATED: &str = ",
         updated AS (
             UPDATE strata.lineage
             SET events = new.events, last = new.last, forgotten = new.forgotten,
                 spent = new.spent, since = new.since, sum = new.sum
             FROM unnest($15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[],
                         $20::bigint[], $21::bigint[], $22::bigint[], $23::bigint[])
                      AS new (request, run, id, events, last, forgotten, spent, since, sum)
             WHERE lineage.run = new.run AND lineage.id = new.id
               AND new.request IN (SELECT request FROM accepted)
         ),
         answered AS (
             UPDATE strata.mail SET reply = new.reply
             FROM unnest($24::bigint[], $25::bigint[], $26::bigint[], $27::bytea[]) AS new (request, run, id, reply)
             WHERE mail.run = new.run AND mail.id = new.id
               AND new.request IN (SELECT request FROM accepted)
         )";

impl AppendKind {
    /// Returns the statement. It returns the numbers of the requests that were accepted, counted from 1; nothing is
    /// stored of the others.
    pub(super) fn sql(self) -> String {
        let (condition, others) = match self {
            Self::Events => ("", ""),
            Self::EventsAndOthers => (HAS_FILES, UPDATED),
        };
        format!("{ACCEPTED}{condition}),{APPENDED}{others} SELECT request FROM accepted")
    }
}

/// Requests, as the columns of a statement's arguments.
pub(super) struct AppendColumns<'a> {
    durability: &'static str,
    /// By request: the run, the epoch, the event before and its checksum.
    requests: [Vec<i64>; 4],
    /// By event: the number of the request, and the columns of the event.
    events: [Vec<i64>; 7],
    bodies: Vec<&'a [u8]>,
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
        for event in request.events.iter() {
            let [n, line, lines, time_ms, marks] = event.numbers;
            let sum = event.sum.into();
            push_row(
                &mut self.events,
                [number, n, line, lines, time_ms, marks, sum],
            );
            self.bodies.push(&event.body);
        }
        if let Some(row) = &request.row {
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
        for reply in &request.replies {
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
        match only_events {
            true => AppendKind::Events,
            false => AppendKind::EventsAndOthers,
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
        if self.kind() == AppendKind::EventsAndOthers {
            all.extend(self.rows.iter().chain(&self.answered).map(numbers));
            all.push((&self.replies, Type::BYTEA_ARRAY));
            all.push((&self.files, Type::INT8_ARRAY));
            all.push((&self.digests, Type::TEXT_ARRAY));
        }
        all
    }
}
