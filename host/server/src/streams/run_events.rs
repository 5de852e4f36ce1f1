//! The stream of the events of a run: over rests and take-overs, and over changes of its lineage.

use std::sync::Arc;

use serde_json::json;
use strata_host::launch::{EventReader, LaunchError};
use strata_host::storage::{LifecycleState, ServedRun};
use tokio::sync::watch;

use super::run_feed::{FeedLine, FeedRead, LineOrigin, RunFeed, find_line, last_common_line};
use super::sse::{MessageSource, NextMessages, SseMessage};
use crate::problem::Problem;
use crate::server::Server;

/// How many lines are read from the records at once.
const MAX_EARLIER_LINES: usize = 1000;

/// The events of a run, from a position on.
pub struct RunEvents {
    server: Arc<Server>,
    run: ServedRun,
    feed: Arc<RunFeed>,
    version: watch::Receiver<u64>,
    lineage: String,
    /// The number of the last line that was sent.
    position: u64,
    /// What is sent before anything else.
    first: Vec<SseMessage>,
    after_end: AfterEnd,
    is_over: bool,
}

/// What follows once a run has ended and all of its events were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterEnd {
    /// The message `end`, and nothing more.
    Nothing,
    /// The events of the run if somebody resumes it.
    LaterEvents,
}

/// What has happened in a run.
enum Progress {
    Lines(Vec<Arc<FeedLine>>),
    Switched {
        lineage: String,
        after: u64,
    },
    /// Nothing more will happen unless somebody asks for it.
    Over,
    Nothing,
}

impl RunEvents {
    /// Begins after the line of which a client has the number; with the first line without one. Blocks.
    pub fn open(
        server: &Arc<Server>,
        run: ServedRun,
        after: Option<u64>,
        after_end: AfterEnd,
    ) -> Result<Self, Problem> {
        let location = &run.listing.location;
        let key = server.databases.key_of(&run);
        let feed = server.feeds.of_run(key, location, &server.changes);
        let version = feed.changes();
        feed.refresh()?;
        let mut events = Self {
            server: Arc::clone(server),
            lineage: feed.lineage(),
            feed,
            version,
            run,
            position: 0,
            first: Vec::new(),
            after_end,
            is_over: false,
        };
        if let Some(n) = after.filter(|n| *n > 0) {
            events.continue_after(n)?;
        }
        Ok(events)
    }

    /// Continues after a line that was sent before.
    fn continue_after(&mut self, n: u64) -> Result<(), Problem> {
        match find_line(self.feed.location(), n)? {
            LineOrigin::Lineage(lineage) => {
                (self.lineage, self.position) = (lineage, n);
                Ok(())
            }
            LineOrigin::Unknown { first } => {
                let reset = json!({ "first": first }).to_string();
                self.first = vec![SseMessage::named("reset", reset)];
                Ok(())
            }
        }
    }

    /// Whether nothing follows any more: the run has ended, and all of its events were sent. Blocks.
    pub fn is_finished(&self) -> Result<bool, Problem> {
        if !self.first.is_empty() {
            return Ok(false);
        }
        Ok(matches!(self.look()?, Progress::Over))
    }

    /// Looks what has happened. Blocks.
    fn look(&self) -> Result<Progress, Problem> {
        if let Err(error) = self.feed.refresh() {
            // One that was deleted cannot be read, and nothing follows of it.
            return match self.server.reload(&self.run)? {
                Some(_) => Err(error.into()),
                None => Ok(Progress::Over),
            };
        }
        match self.feed.lines_after(&self.lineage, self.position) {
            FeedRead::Lines(lines) if !lines.is_empty() => return Ok(Progress::Lines(lines)),
            FeedRead::Lines(_) => {}
            FeedRead::Earlier => return Ok(self.read_earlier()?),
            FeedRead::Switched(lineage) => {
                let after = last_common_line(self.feed.location(), &self.lineage, &lineage)?;
                return Ok(Progress::Switched {
                    lineage,
                    after: after.min(self.position),
                });
            }
        }
        let state = self.server.reload(&self.run)?.map(|run| run.listing.state);
        if !matches!(state, Some(LifecycleState::Ended) | None) {
            return Ok(Progress::Nothing);
        }
        // What was recorded before it ended may have come after the look.
        if state.is_some() {
            self.feed.refresh_now()?;
        }
        Ok(match self.feed.lines_after(&self.lineage, self.position) {
            FeedRead::Lines(lines) if lines.is_empty() => Progress::Over,
            FeedRead::Lines(lines) => Progress::Lines(lines),
            FeedRead::Earlier | FeedRead::Switched(_) => Progress::Lines(Vec::new()),
        })
    }

    /// Reads lines that the feed does not keep any more.
    fn read_earlier(&self) -> Result<Progress, LaunchError> {
        let mut reader = EventReader::open_lineage(self.feed.location(), Some(&self.lineage))?;
        let mut lines = Vec::new();
        while lines.len() < MAX_EARLIER_LINES
            && let Some(read) = reader.next_lines()?
        {
            let after = read.iter().filter(|line| line.n > self.position);
            lines.extend(after.map(|line| Arc::new(FeedLine::new(line))));
        }
        Ok(Progress::Lines(lines))
    }

    fn messages(&mut self, lines: &[Arc<FeedLine>]) -> Vec<SseMessage> {
        let message = |line: &Arc<FeedLine>| SseMessage {
            name: None,
            id: Some(line.n.to_string()),
            data: line.json.clone(),
        };
        self.position = lines.last().map_or(self.position, |line| line.n);
        lines.iter().map(message).collect()
    }

    /// Returns the number of the last line that was sent.
    pub fn position(&self) -> u64 {
        self.position
    }
}

impl MessageSource for RunEvents {
    async fn next(&mut self) -> NextMessages {
        if !self.first.is_empty() {
            return NextMessages::Some(std::mem::take(&mut self.first));
        }
        if self.is_over {
            return NextMessages::End;
        }
        loop {
            self.version.borrow_and_update();
            // Most readers find what another has read.
            if self.feed.is_fresh()
                && let FeedRead::Lines(lines) = self.feed.lines_after(&self.lineage, self.position)
                && !lines.is_empty()
            {
                return NextMessages::Some(self.messages(&lines));
            }
            // What is read before the future is dropped is read again.
            let now = self.snapshot();
            let looked = tokio::task::spawn_blocking(move || now.look()).await;
            let progress = match looked {
                Ok(Ok(progress)) => progress,
                Ok(Err(problem)) => {
                    tracing::debug!("a stream ends: {problem:?}");
                    return NextMessages::Failed;
                }
                Err(_) => return NextMessages::Failed,
            };
            match progress {
                Progress::Lines(lines) if lines.is_empty() => continue,
                Progress::Lines(lines) => return NextMessages::Some(self.messages(&lines)),
                Progress::Switched { lineage, after } => {
                    let data = json!({ "lineage": lineage, "after": after }).to_string();
                    (self.lineage, self.position) = (lineage, after);
                    return NextMessages::Some(vec![SseMessage::named("lineage", data)]);
                }
                Progress::Over if self.after_end == AfterEnd::Nothing => {
                    self.is_over = true;
                    return NextMessages::Some(vec![SseMessage::named("end", "{}".into())]);
                }
                Progress::Over | Progress::Nothing => {
                    if self.version.changed().await.is_err() {
                        return NextMessages::Failed;
                    }
                }
            }
        }
    }
}

impl RunEvents {
    /// Returns the same position of the same run, to look from another thread.
    fn snapshot(&self) -> Self {
        Self {
            server: Arc::clone(&self.server),
            run: self.run.clone(),
            feed: Arc::clone(&self.feed),
            version: self.version.clone(),
            lineage: self.lineage.clone(),
            position: self.position,
            first: Vec::new(),
            after_end: self.after_end,
            is_over: self.is_over,
        }
    }
}
