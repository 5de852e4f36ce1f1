//! One stream for a page: which runs change, which requests to people are opened and answered, and the events of the run
//! that is looked at. Ids say up to when everything was sent, so that another process can continue.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use strata_host::clock::{now_ms, rfc3339, stopwatch};
use strata_host::launch::load_saved;
use strata_host::storage::{ServedFilter, ServedRun, StateSelector};
use strata_host::view::RequestView;
use tokio::sync::broadcast;

use super::hub::NotedChange;
use super::run_events::{AfterEnd, RunEvents};
use super::run_feed::{FeedLine, FeedRead, RequestChange, RunFeed};
use super::sse::{MessageSource, NextMessages, SseMessage};
use crate::caller::{Caller, Deed};
use crate::databases::RunKey;
use crate::problem::Problem;
use crate::query::{decode_cursor, encode_cursor};
use crate::request_view::OpenRequest;
use crate::server::Server;

/// How often a run is told of at most.
const RUN_INTERVAL: Duration = Duration::from_secs(1);
/// For how long a stream can be continued, in milliseconds.
const MAX_AGE_MS: i64 = 24 * 3600 * 1000;
/// How long a change may take until it is seen, in milliseconds: what happened before is known to have been sent.
const SLACK_MS: i64 = 5_000;
/// How soon a run that cannot be read is looked at again, and how late at most if that goes on.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// How many runs' events are kept in memory for one stream.
const MAX_FEEDS: usize = 256;
/// How many runs are looked at that changed while a client was away.
const MAX_MISSED: usize = 10_000;

/// Up to when everything was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Position {
    /// Everything before this time, in milliseconds since 1970.
    time_ms: i64,
    /// The numbers of the last events that were seen of runs that changed later.
    runs: BTreeMap<String, u64>,
    /// The number of the last event that was sent of the run that is looked at.
    event: u64,
}

impl Position {
    /// Returns when it was made at the latest, in milliseconds since 1970.
    fn made_ms(&self) -> i64 {
        self.time_ms.saturating_add(SLACK_MS)
    }
}

/// What is known of a run that has changed.
struct KnownRun {
    feed: Arc<RunFeed>,
    id: String,
    /// The number of the last event that was looked at.
    seen: u64,
    /// When that was recorded.
    seen_ms: i64,
}

/// The changes of all runs that a token sees.
pub struct AllEvents {
    server: Arc<Server>,
    caller: Caller,
    changes: broadcast::Receiver<NotedChange>,
    runs: BTreeMap<RunKey, KnownRun>,
    /// The runs that have changed and are to be told of.
    dirty: BTreeMap<RunKey, DirtyRun>,
    told: BTreeMap<RunKey, Instant>,
    /// From when on requests are told of, and after which events of some runs.
    since: Position,
    events: Option<LookedAt>,
    first: Vec<SseMessage>,
}

/// The events of the run that is looked at.
struct LookedAt {
    events: RunEvents,
    /// When they are read again after they could not be, and after which pause.
    retry: Option<(Instant, Duration)>,
}

impl LookedAt {
    /// Waits for the next ones. While the run cannot be read, that is tried again and again: the stream goes on, and the
    /// position stays.
    async fn next(&mut self) -> Vec<SseMessage> {
        loop {
            if let Some((due, _)) = self.retry {
                tokio::time::sleep_until(due.into()).await;
            }
            match self.events.next().await {
                NextMessages::Some(messages) => {
                    self.retry = None;
                    return messages;
                }
                NextMessages::End => std::future::pending().await,
                NextMessages::Failed => {
                    let pause = match self.retry {
                        Some((_, pause)) => (pause * 2).min(MAX_RETRY_INTERVAL),
                        None => RETRY_INTERVAL,
                    };
                    self.retry = Some((stopwatch() + pause, pause));
                }
            }
        }
    }
}

/// A run that has changed.
#[derive(Clone, Copy)]
struct DirtyRun {
    /// When it may be told of.
    due: Instant,
    /// Since when it is known, in milliseconds since 1970.
    since_ms: i64,
}

impl DirtyRun {
    fn now() -> Self {
        Self {
            due: stopwatch(),
            since_ms: now_ms(),
        }
    }
}

/// The messages of a look at a run that has changed.
#[derive(Default)]
struct RunMessages {
    /// Those about requests, with the numbers of their events.
    requests: Vec<(u64, Value)>,
    run: Option<Value>,
}

impl AllEvents {
    /// Begins now, or after a message with this id. Blocks.
    pub fn open(
        server: &Arc<Server>,
        caller: &Caller,
        run: Option<ServedRun>,
        last_id: Option<&str>,
    ) -> Result<Self, Problem> {
        let changes = server.changes.subscribe_to_all();
        let now = now_ms();
        let last = last_id
            .map(decode_cursor::<Position>)
            .transpose()
            .ok()
            .flatten();
        let is_known = last
            .as_ref()
            .is_some_and(|last| now - last.time_ms <= MAX_AGE_MS);
        let mut first = Vec::new();
        if last_id.is_some() && !is_known {
            first.push(SseMessage::named(
                "reset",
                json!({ "first": null }).to_string(),
            ));
        }
        let since = last.filter(|_| is_known).unwrap_or(Position {
            time_ms: now,
            ..Position::default()
        });
        let after = (since.event > 0).then_some(since.event);
        let events = run
            .map(|run| RunEvents::open(server, run, after, AfterEnd::LaterEvents))
            .transpose()?;
        let events = events.map(|events| LookedAt {
            events,
            retry: None,
        });
        let mut all = Self {
            server: Arc::clone(server),
            caller: caller.clone(),
            changes,
            runs: BTreeMap::new(),
            dirty: BTreeMap::new(),
            told: BTreeMap::new(),
            since,
            events,
            first,
        };
        if is_known {
            all.note_missed()?;
        }
        Ok(all)
    }

    /// Notes the runs that changed while the client was away.
    fn note_missed(&mut self) -> Result<(), Problem> {
        let Some(visible) = self.caller.visible_requests() else {
            return Ok(());
        };
        let filter = ServedFilter {
            since_ms: Some(self.since.time_ms.saturating_sub(SLACK_MS)),
            ..visible
        };
        for run in self.server.databases.list(&filter, MAX_MISSED)? {
            let key = self.server.databases.key_of(&run);
            self.dirty.entry(key).or_insert_with(DirtyRun::now);
        }
        Ok(())
    }

    fn note_changed(&mut self, changed: NotedChange) {
        match changed {
            NotedChange::Of(key) => {
                self.dirty.entry(key).or_insert_with(DirtyRun::now);
            }
            NotedChange::Unknown => {
                // What was missed is found by its time.
                if let Err(problem) = self.note_missed() {
                    tracing::debug!("runs that changed are not told of: {problem:?}");
                }
            }
        }
    }

    /// Looks at a run that has changed. Blocks.
    fn look(
        server: &Server,
        caller: &Caller,
        known: Option<(Arc<RunFeed>, u64)>,
        key: RunKey,
        since: &Position,
        wants_run: bool,
    ) -> Result<Option<(KnownRun, RunMessages)>, Problem> {
        let Some(run) = server.databases.find_by_key(key)? else {
            return Ok(None);
        };
        if !caller.may(Deed::SeeRequests, &run) {
            return Ok(None);
        }
        let (feed, seen) = match known {
            Some((feed, seen)) => (feed, Some(seen)),
            None => (
                server
                    .feeds
                    .of_run(key, &run.listing.location, &server.changes),
                None,
            ),
        };
        let sent_before = since.runs.get(&run.id).copied();
        let seen = seen.or(sent_before);
        feed.refresh()?;
        let lines = match feed.lines_after(&feed.lineage(), seen.unwrap_or(0)) {
            FeedRead::Lines(lines) => lines,
            // Older lines are in no stream that can be continued.
            FeedRead::Earlier | FeedRead::Switched(_) => Vec::new(),
        };
        let is_new = |line: &&Arc<FeedLine>| seen.is_some() || line.time_ms >= since.time_ms;
        let mut told = RunMessages::default();
        for line in lines.iter().filter(is_new) {
            if let Some(change) = line.request {
                let message = request_message(&run, line, change);
                told.requests.push((line.n, message));
            }
        }
        if wants_run && caller.may(Deed::See, &run) {
            let view = server.view(&run)?;
            told.run = serde_json::to_value(view).ok();
        }
        let last = lines.last();
        let known = KnownRun {
            feed,
            id: run.id,
            seen: last.map_or(seen.unwrap_or(0), |line| line.n),
            seen_ms: match last {
                Some(line) => line.time_ms,
                None if sent_before.is_some() => since.made_ms(),
                None => 0,
            },
        };
        Ok(Some((known, told)))
    }

    /// Returns the messages about the run that is due next. Nothing is lost if the future is dropped.
    async fn tell_next(&mut self) -> Vec<SseMessage> {
        let now = stopwatch();
        let next = self.dirty.iter().min_by_key(|(_, run)| run.due);
        let Some((key, dirty)) = next.map(|(key, dirty)| (*key, *dirty)) else {
            return Vec::new();
        };
        let may_tell = self
            .told
            .get(&key)
            .is_none_or(|told| now.duration_since(*told) >= RUN_INTERVAL);
        let known = self
            .runs
            .get(&key)
            .map(|run| (Arc::clone(&run.feed), run.seen));
        let (caller, since) = (self.caller.clone(), self.since.clone());
        let looked = self
            .server
            .blocking(move |server| Self::look(server, &caller, known, key, &since, may_tell))
            .await;
        let (mut known, told) = match looked {
            Ok(Some(looked)) => looked,
            Ok(None) => {
                self.dirty.remove(&key);
                self.runs.remove(&key);
                return Vec::new();
            }
            Err(problem) => {
                tracing::debug!("a run that changed is told of later: {problem:?}");
                let due = now + RETRY_INTERVAL;
                self.dirty.insert(key, DirtyRun { due, ..dirty });
                return Vec::new();
            }
        };
        if known.seen_ms == 0 {
            known.seen_ms = self.runs.get(&key).map_or(0, |run| run.seen_ms);
        }
        // A request is told of before the run that waits for it, and each message has an id of its own.
        let mut messages = Vec::new();
        for (n, data) in told.requests {
            let id = self.id(self.event(), Some((&known.id, n)));
            messages.push(message("request", id, &data));
        }
        self.runs.insert(key, known);
        while self.runs.len() > MAX_FEEDS {
            self.runs.pop_first();
        }
        if may_tell {
            self.dirty.remove(&key);
            self.told.insert(key, now);
            let id = self.id(self.event(), None);
            messages.extend(told.run.map(|data| message("run", id, &data)));
        } else if let Some(told) = self.told.get(&key) {
            let due = *told + RUN_INTERVAL;
            self.dirty.insert(key, DirtyRun { due, ..dirty });
        }
        self.told
            .retain(|_, told| now.duration_since(*told) < RUN_INTERVAL);
        messages
    }

    /// Returns the number of the last event that was sent of the run that is looked at.
    fn event(&self) -> u64 {
        let looked_at = self.events.as_ref();
        looked_at.map_or(0, |looked_at| looked_at.events.position())
    }

    /// Returns the id that says what was sent up to now: these events of the run that is looked at, and of another run, if it
    /// is given, those up to a number.
    fn id(&self, event: u64, other: Option<(&String, u64)>) -> String {
        // A client that continues elsewhere is told of what is still to be told of here.
        let untold_ms = self.dirty.values().map(|run| run.since_ms).min();
        let time_ms = untold_ms.unwrap_or_else(now_ms) - SLACK_MS;
        let time_ms = time_ms.max(self.since.time_ms);
        let mut runs = if time_ms <= self.since.made_ms() {
            self.since.runs.clone()
        } else {
            BTreeMap::new()
        };
        let recent = self.runs.values().filter(|run| run.seen_ms >= time_ms);
        runs.extend(recent.map(|run| (run.id.clone(), run.seen)));
        runs.extend(other.map(|(id, n)| (id.clone(), n)));
        encode_cursor(&Position {
            time_ms,
            runs,
            event,
        })
    }

    /// Returns when the next run may be told of.
    fn next_due(&self) -> Option<Instant> {
        self.dirty.values().map(|run| run.due).min()
    }
}

fn message(name: &'static str, id: String, data: &Value) -> SseMessage {
    SseMessage {
        name: Some(name),
        id: Some(id),
        data: data.to_string(),
    }
}

/// Returns what is told of a request to a person.
fn request_message(run: &ServedRun, line: &FeedLine, change: RequestChange) -> Value {
    let event: Value = serde_json::from_str(&line.json).unwrap_or_default();
    let id = event["request"].as_str().unwrap_or_default();
    let time = rfc3339(line.time_ms);
    let open = || -> Option<Value> {
        let saved = load_saved(&run.listing.location, &StateSelector::Head).ok()?;
        let views = RequestView::all(&saved.stepper);
        let view = views.into_iter().find(|view| view.id == id)?;
        let request = OpenRequest::new(run, &saved.stepper, view, Some(line.time_ms));
        serde_json::to_value(request).ok()
    };
    let mut message = match change {
        RequestChange::Opened => open(),
        RequestChange::Answered => None,
    }
    .unwrap_or_else(|| {
        json!({
            "id": id, "run": run.name(), "run_id": run.id, "role": event["role"], "question": event["question"],
        })
    });
    match change {
        RequestChange::Opened => message["opened"] = json!(time),
        RequestChange::Answered => {
            message["answered"] = json!(time);
            message["by"] = event["person"].clone();
            message["answer"] = event["answer"].clone();
        }
    }
    message
}

impl MessageSource for AllEvents {
    async fn next(&mut self) -> NextMessages {
        if !self.first.is_empty() {
            return NextMessages::Some(std::mem::take(&mut self.first));
        }
        loop {
            let is_due = self.next_due().is_some_and(|due| due <= stopwatch());
            if is_due {
                let messages = self.tell_next().await;
                if !messages.is_empty() {
                    return NextMessages::Some(messages);
                }
                continue;
            }
            let due = self.next_due();
            let pause = async move {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            let events = async {
                match &mut self.events {
                    Some(events) => events.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = self.changes.recv() => match changed {
                    Ok(changed) => self.note_changed(changed),
                    Err(broadcast::error::RecvError::Lagged(_)) => self.note_changed(NotedChange::Unknown),
                    Err(broadcast::error::RecvError::Closed) => return NextMessages::Failed,
                },
                mut messages = events => {
                    for message in &mut messages {
                        // A client that has only some of them continues with the others.
                        let own = message.id.as_ref().and_then(|id| id.parse().ok());
                        message.id = Some(self.id(own.unwrap_or(self.event()), None));
                    }
                    return NextMessages::Some(messages);
                }
                () = pause => {}
            }
        }
    }
}
