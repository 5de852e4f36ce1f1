//! What must be true of each run at its end, whatever happened to the workers.

use std::fs;

use serde_json::Value;

use super::COST;
use super::posts::{MESSAGES, Post, Question, run_name};
use super::teams::{DIRECTORY, LEFT_FILES, TeamKind, written};
use crate::stream;

/// A run that has ended.
pub struct EndedRun<'a> {
    post: &'a Post<'a>,
    run: u64,
    name: String,
    kind: TeamKind,
    events: Vec<Value>,
    /// Whether the database went back to an earlier state, so that what was accepted, and that workers took over
    /// the run, may have been lost.
    went_back: bool,
    /// The run and the seed, for messages.
    context: String,
}

impl<'a> EndedRun<'a> {
    /// Reads the events of a run. `went_back` says whether the database went back to an earlier state.
    pub fn read(post: &'a Post<'a>, run: u64, seed: u64, went_back: bool) -> Self {
        let ended = post.home.host(&["events", &post.place(run)]).expect(0);
        let events = stream::parse(&ended.stdout);
        let name = run_name(run);
        Self {
            post,
            run,
            kind: TeamKind::of(run),
            events,
            went_back,
            context: format!("{name} with seed {seed}"),
            name,
        }
    }

    /// Returns how often it was resumed.
    pub fn resumed(&self) -> usize {
        self.of_kind("run-resumed").len()
    }

    /// Checks that it is like an undisturbed one. `questions` are its own.
    pub fn check(&self, questions: &[&Question]) {
        stream::assert_numbered(&self.events);
        let mut outcomes = Vec::new();
        for question in questions {
            outcomes.push(self.check_answer(question));
        }
        for key in self.kind.keys(&self.name) {
            outcomes.push(self.check_write(&key));
        }
        let context = &self.context;
        let end = self.said("end");
        assert_eq!(end, self.kind.end(&self.name, &outcomes), "{context}");
        self.check_calls();
        if self.kind == TeamKind::Files {
            self.check_files();
        }
        let routed = self.of_kind("message-routed");
        let notes = routed.iter().filter(|line| line["cause_by"] == "Note");
        assert_eq!(notes.count(), MESSAGES, "{context}");
        self.check_money();
        self.check_listed();
    }

    /// Checks that what is listed of it, which changes with its events, is what its state is.
    fn check_listed(&self) {
        let place = self.post.place(self.run);
        let shown = self.post.home.host(&["inspect", &place, "--json"]);
        let shown: Value = serde_json::from_str(&shown.expect(0).stdout).unwrap();
        let (listed, state) = (&shown["run"], &shown["strata"]);
        let context = &self.context;
        assert_eq!(listed["id"], state["run_id"], "{context}");
        for name in ["status", "step"] {
            assert_eq!(listed[name], state[name], "{context}: {name}");
        }
        for name in ["requests", "faults"] {
            let open = state[name].as_array().map(Vec::len);
            let shown = listed[name].as_u64();
            assert_eq!(shown, open.map(|open| open as u64), "{context}: {name}");
        }
        let spent = [&listed["spent"], &state["budget"]["total"]].map(|usd| usd.as_f64().unwrap());
        assert!((spent[0] - spent[1]).abs() < 1e-9, "{context}: {spent:?}");
    }

    fn of_kind(&self, kind: &str) -> Vec<&Value> {
        stream::of_kind(&self.events, kind)
    }

    /// Returns what an action said, which finished once.
    fn said(&self, action: &str) -> String {
        let finished = self.of_kind("action-finished");
        let found = finished.iter().filter(|line| line["action"] == action);
        let found: Vec<&str> = found
            .map(|line| stream::text(&line["output"]["content"]))
            .collect();
        assert_eq!(found.len(), 1, "{}: {action}: {found:?}", self.context);
        found[0].to_owned()
    }

    /// Checks that a question was answered once, with what was accepted, and returns the answer.
    fn check_answer(&self, question: &Question) -> String {
        let text = question.text;
        let recorded = question.answers(&self.events);
        let [answer] = &recorded[..] else {
            panic!("{}: {text}: {recorded:?}", self.context);
        };
        let accepted = &question.accepted;
        assert!(
            question.was_given(answer)
                && (self.went_back || accepted.iter().all(|one| one == answer)),
            "{}: {text}: `{answer}` is recorded, and accepted were {accepted:?}",
            self.context
        );
        answer.clone()
    }

    /// Checks that the effect of a write was counted once however often it was sent, and returns what was
    /// answered.
    fn check_write(&self, key: &str) -> String {
        let context = &self.context;
        let requests = self.post.web.requests();
        let sent = requests
            .iter()
            .filter(|request| request.header("idempotency-key") == Some(key));
        let sent: Vec<&[u8]> = sent.map(|request| &request.body[..]).collect();
        self.check_times_made(key, sent.len());
        assert!(sent.iter().all(|body| *body == key.as_bytes()), "{context}");
        let orders = self.post.web.orders();
        let of_key = |order: &&Option<String>| order.as_deref() == Some(key);
        assert_eq!(orders.iter().filter(of_key).count(), 1, "{context}: {key}");
        let order = orders.iter().position(|order| of_key(&order));
        format!("order-{}", order.unwrap())
    }

    /// Checks that each call and write is recorded once, and was made again only by other owners.
    fn check_calls(&self) {
        let (context, prompts) = (&self.context, self.kind.prompts());
        let calls = self.of_kind("host-call");
        let live = |kind: &str| {
            let of_kind = |line: &&&Value| line["source"] == "live" && line["call"] == kind;
            calls.iter().filter(of_kind).count()
        };
        assert_eq!(live("llm"), prompts.len(), "{context}");
        assert_eq!(live("http"), self.kind.keys(&self.name).len(), "{context}");
        for prompt in prompts {
            let text = format!("\"{} {prompt}\"", self.name);
            let asked = self.post.web.requests();
            let asked = asked.iter().filter(|request| request.text.contains(&text));
            self.check_times_made(prompt, asked.count());
        }
    }

    /// Checks how often something was made: again only by other owners, when its owner died meanwhile. Those whose
    /// take-over was lost are not counted.
    fn check_times_made(&self, what: &str, times: usize) {
        let most = if self.went_back {
            usize::MAX
        } else {
            1 + self.resumed()
        };
        assert!(
            (1..=most).contains(&times),
            "{}: {what}: {times}",
            self.context
        );
    }

    /// Checks that the database has the files that the team left behind, and no others.
    fn check_files(&self) {
        let directory = tempfile::tempdir().unwrap();
        let to = directory.path().join("files");
        let place = self.post.place(self.run);
        let files = ["files", &place, "--to", &to.display().to_string()];
        self.post.home.host(&files).expect(0);
        let to = to.join(DIRECTORY);
        let read = |file: &str| fs::read_to_string(to.join(file)).unwrap_or_default();
        for file in LEFT_FILES {
            let expected = written(&self.name, file);
            assert_eq!(read(file), expected, "{}: {file}", self.context);
        }
        let left = fs::read_dir(&to).unwrap().count();
        assert_eq!(left, LEFT_FILES.len(), "{}", self.context);
    }

    /// Checks that the run is listed as it is: it is done, and spent this.
    fn check_listing(&self, spent: f64) {
        let listed = ["runs", &self.post.place(self.run), "--json"];
        let listed = self.post.home.host(&listed).expect(0);
        let row: Value = serde_json::from_str(&listed.stdout).unwrap();
        let shown = (
            &row["state"],
            &row["status"],
            &row["requests"],
            &row["faults"],
        );
        let expected = (&"ended".into(), &"done".into(), &0.into(), &0.into());
        assert_eq!(shown, expected, "{}", self.context);
        assert_eq!(row["spent"].as_f64(), Some(spent), "{}", self.context);
    }

    fn check_money(&self) {
        let context = &self.context;
        let state = ["inspect", &self.post.place(self.run), "--team-json"];
        let state = self.post.home.host(&state).expect(0);
        let state: Value = serde_json::from_str(&state.stdout).unwrap();
        assert_eq!(state["strata"]["status"], "done", "{context}");
        let total = state["strata"]["budget"]["total"].as_f64().unwrap();
        // What was reserved for a call whose answer was lost counts as spent: it may have been paid for.
        let recorded = COST * self.kind.prompts().len() as f64;
        assert!(
            total == recorded || (self.resumed() > 0 && total > recorded),
            "{context}: {total}"
        );
        self.check_listing(total);
    }
}
