//! What models write, as it arrives. It is not durable: a reader gets what has been written of the calls that are under
//! way, and then what follows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use strata_core::record::host_call::HostCallKind;
use strata_host::services::models::{
    ObservedCall, StreamEvent, StreamListener, StreamObserverFactory,
};
use strata_host::storage::{LifecycleState, RunDatabase, RunListing, ServedRun, StorageLocation};
use tokio::sync::watch;

use super::sse::{MessageSource, NextMessages, SseMessage};
use crate::server::Server;

/// How much is kept of the text of a call, and how many calls of a run are kept that are over.
const MAX_TEXT_BYTES: usize = 1 << 20;
const MAX_ENDED: usize = 16;

/// What the models of all runs write.
#[derive(Debug, Default)]
pub struct ModelTexts {
    /// By where the run is kept.
    runs: Mutex<BTreeMap<PathBuf, Arc<RunTexts>>>,
    /// The ids that the worker of this process has, by the names of the databases in which it is registered.
    workers: Mutex<BTreeMap<String, String>>,
}

/// What the models of a run write.
#[derive(Debug)]
struct RunTexts {
    calls: Mutex<Calls>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Calls {
    next: u64,
    calls: BTreeMap<u64, CallText>,
}

/// What a model writes in reply to a call.
#[derive(Clone, Debug)]
struct CallText {
    role: String,
    turn: Option<u32>,
    attempt: u32,
    text: String,
    /// How often the text began anew.
    restarts: u32,
    is_ended: bool,
}

impl RunTexts {
    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self) {
        self.changed.send_modify(|version| *version += 1);
    }
}

impl ModelTexts {
    fn of_run(&self, run: &StorageLocation) -> Arc<RunTexts> {
        let place = run.path();
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody writes or reads the others.
        runs.retain(|other, texts| other == place || Arc::strong_count(texts) > 1);
        let texts = runs.entry(place.to_owned()).or_insert_with(|| {
            Arc::new(RunTexts {
                calls: Mutex::default(),
                changed: watch::Sender::new(0),
            })
        });
        Arc::clone(texts)
    }

    /// Notes the id that the worker has in a database whose runs are observed.
    pub fn set_worker(&self, database: &RunDatabase, id: &str) {
        self.workers().insert(database.to_string(), id.to_owned());
    }

    fn workers(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the worker whose runs are observed is another than this one.
    fn is_other_worker(&self, id: &str) -> bool {
        self.workers().values().all(|own| own != id)
    }

    /// Returns what observes the calls of a run.
    pub fn observer(&self, run: &StorageLocation) -> StreamObserverFactory {
        let texts = self.of_run(run);
        Arc::new(move |call: ObservedCall<'_>| {
            if call.kind != HostCallKind::Llm {
                return None;
            }
            let mut writing = WritingCall::begin(&texts, call);
            Some(Box::new(move |event: StreamEvent<'_>| writing.note(event)) as StreamListener)
        })
    }
}

/// A call whose reply is being written. It is over when this is dropped.
struct WritingCall {
    texts: Arc<RunTexts>,
    id: u64,
}

impl WritingCall {
    fn begin(texts: &Arc<RunTexts>, call: ObservedCall<'_>) -> Self {
        let mut calls = texts.lock();
        let id = calls.next;
        calls.next += 1;
        let text = CallText {
            role: call.role.to_owned(),
            turn: call.turn,
            attempt: call.attempt,
            text: String::new(),
            restarts: 0,
            is_ended: false,
        };
        calls.calls.insert(id, text);
        drop(calls);
        Self {
            texts: Arc::clone(texts),
            id,
        }
    }

    fn note(&mut self, event: StreamEvent<'_>) {
        let mut calls = self.texts.lock();
        let Some(call) = calls.calls.get_mut(&self.id) else {
            return;
        };
        match event {
            StreamEvent::Text(text) if call.text.len() + text.len() <= MAX_TEXT_BYTES => {
                call.text.push_str(text);
            }
            // The rest is in the record once the call has ended.
            StreamEvent::Text(_) => return,
            StreamEvent::Restarted => {
                call.text.clear();
                call.restarts += 1;
            }
        }
        drop(calls);
        self.texts.note();
    }
}

impl Drop for WritingCall {
    fn drop(&mut self) {
        let mut calls = self.texts.lock();
        if let Some(call) = calls.calls.get_mut(&self.id) {
            call.is_ended = true;
        }
        let ended = calls.calls.iter().filter(|(_, call)| call.is_ended);
        let ended: Vec<u64> = ended.map(|(id, _)| *id).collect();
        for id in ended.iter().rev().skip(MAX_ENDED) {
            calls.calls.remove(id);
        }
        drop(calls);
        self.texts.note();
    }
}

/// The texts of a run, for one reader.
pub struct TextStream {
    server: Arc<Server>,
    run: ServedRun,
    texts: Arc<RunTexts>,
    changed: watch::Receiver<u64>,
    run_changed: watch::Receiver<u64>,
    /// How much of each call was sent, and after how many restarts.
    sent: BTreeMap<u64, (u32, usize)>,
    /// Whether the reader was told that another process works on the run.
    is_told_elsewhere: bool,
    is_over: bool,
}

impl TextStream {
    /// Begins with what has been written of the calls that are under way.
    pub fn open(server: &Arc<Server>, run: ServedRun) -> Self {
        let texts = server.texts.of_run(&run.listing.location);
        let calls = texts.lock();
        let ended = calls.calls.iter().filter(|(_, call)| call.is_ended);
        let sent = ended
            .map(|(id, call)| (*id, (call.restarts, call.text.len())))
            .collect();
        drop(calls);
        Self {
            server: Arc::clone(server),
            changed: texts.changed.subscribe(),
            run_changed: server.changes.subscribe(server.databases.key_of(&run)),
            texts,
            run,
            sent,
            is_told_elsewhere: false,
            is_over: false,
        }
    }

    /// Returns what says whether this process sees what models write, if that is another than before. While nobody works on
    /// the run there is nothing to see.
    fn new_source(&mut self, run: Option<&RunListing>) -> Option<SseMessage> {
        let owner = run?.owner.as_ref()?;
        let database = self.server.databases.database_of(&self.run);
        // Nobody else has the file of another database.
        let is_elsewhere = !database.is_file() && self.server.texts.is_other_worker(&owner.worker);
        if is_elsewhere == self.is_told_elsewhere {
            return None;
        }
        self.is_told_elsewhere = is_elsewhere;
        let data = json!({ "live": !is_elsewhere });
        Some(SseMessage::named("source", data.to_string()))
    }

    /// Returns what was written since it was last called.
    fn new_text(&mut self) -> Vec<SseMessage> {
        let calls = self.texts.lock();
        let mut messages = Vec::new();
        for (id, call) in &calls.calls {
            let sent = self.sent.entry(*id).or_insert((call.restarts, 0));
            if sent.0 != call.restarts {
                *sent = (call.restarts, 0);
            }
            let offset = sent.1;
            if let Some(text) = call.text.get(offset..).filter(|text| !text.is_empty()) {
                let data = json!({
                    "role": call.role, "turn": call.turn, "attempt": call.attempt, "offset": offset, "text": text,
                });
                messages.push(SseMessage::named("text", data.to_string()));
                sent.1 = call.text.len();
            }
        }
        self.sent.retain(|id, _| calls.calls.contains_key(id));
        messages
    }
}

impl MessageSource for TextStream {
    async fn next(&mut self) -> NextMessages {
        if self.is_over {
            return NextMessages::End;
        }
        loop {
            self.changed.borrow_and_update();
            self.run_changed.borrow_and_update();
            let run = self.run.clone();
            let listing = self
                .server
                .blocking(move |server| Ok(server.reload(&run)?.map(|run| run.listing)));
            let Ok(listing) = listing.await else {
                return NextMessages::Failed;
            };
            let source = self.new_source(listing.as_ref());
            let messages: Vec<SseMessage> = source.into_iter().chain(self.new_text()).collect();
            if !messages.is_empty() {
                return NextMessages::Some(messages);
            }
            if listing.is_none_or(|run| run.state == LifecycleState::Ended) {
                self.is_over = true;
                return NextMessages::Some(vec![SseMessage::named("end", "{}".into())]);
            }
            let changed = tokio::select! {
                changed = self.changed.changed() => changed,
                changed = self.run_changed.changed() => changed,
            };
            if changed.is_err() {
                return NextMessages::Failed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts_of(texts: &RunTexts) -> Vec<(String, bool)> {
        let calls = texts.lock();
        let calls = calls.calls.values();
        calls
            .map(|call| (call.text.clone(), call.is_ended))
            .collect()
    }

    #[test]
    fn what_a_model_writes_is_kept_until_some_calls_later() {
        let all = ModelTexts::default();
        let run = StorageLocation::new("sqlite:runs.db?run=one");
        let observer = all.observer(&run);
        let call = |kind| ObservedCall {
            role: "A",
            kind,
            turn: Some(0),
            attempt: 1,
        };
        assert!(observer(call(HostCallKind::Http)).is_none());
        let mut listener = observer(call(HostCallKind::Llm)).unwrap();
        listener(StreamEvent::Text("Once "));
        listener(StreamEvent::Restarted);
        listener(StreamEvent::Text("Twice"));
        let texts = all.of_run(&run);
        assert_eq!(texts_of(&texts), [("Twice".into(), false)]);
        drop(listener);
        assert_eq!(texts_of(&texts), [("Twice".into(), true)]);
        for _ in 0..MAX_ENDED {
            drop(observer(call(HostCallKind::Llm)));
        }
        assert_eq!(texts_of(&texts).len(), MAX_ENDED);
        assert!(texts_of(&texts).iter().all(|(text, _)| text.is_empty()));
    }
}
