//! What comes from outside: submitted runs, messages, and answers to questions. Each is tried again until it
//! is known to have arrived.

use serde_json::Value;

use super::teams::{GIVEN_FILE, TeamKind};
use crate::stream;
use crate::web::Web;
use crate::workspace::Workspace;

/// How many messages are sent to each run.
pub const MESSAGES: usize = 2;

/// Where runs are sent to, and from where.
pub struct Post<'a> {
    pub home: &'a Workspace,
    pub url: &'a str,
    pub web: &'a Web,
}

/// Returns the name of a run.
pub fn run_name(run: u64) -> String {
    format!("run-{run}")
}

impl Post<'_> {
    /// Returns the URL of a run.
    pub fn place(&self, run: u64) -> String {
        format!("{}&run={}", self.url, run_name(run))
    }

    /// Submits a run. Returns whether it is there.
    pub fn submit(&self, run: u64) -> bool {
        let name = run_name(run);
        let team = TeamKind::of(run).team(&name, self.web.port());
        self.home.write("team.toml", team);
        self.home.write(GIVEN_FILE, "given");
        let submit = [
            "submit",
            "team.toml",
            "--database",
            self.url,
            "--name",
            &name,
        ];
        let ended = self.home.host(&submit);
        // If the answer to the first attempt was lost, the name is taken.
        ended.code == Some(0) || ended.stderr.contains("has a run of the name")
    }

    /// Returns the recorded events of a run, or none if they cannot be read now.
    pub fn events(&self, run: u64) -> Vec<Value> {
        let ended = self.home.host(&["events", &self.place(run)]);
        stream::parse(&ended.stdout)
    }
}

/// A message to a run.
pub struct Note {
    pub run: u64,
    pub n: usize,
}

impl Note {
    /// Sends it, with a key. Returns whether it was accepted.
    pub fn send(&self, post: &Post<'_>) -> bool {
        let (place, key) = (post.place(self.run), format!("note-{}", self.n));
        let send = [
            "send",
            &place,
            "--cause",
            "Note",
            "--idempotency-key",
            &key,
            &key,
        ];
        post.home.host(&send).code == Some(0)
    }
}

/// A question of a run, and what was answered to it. Each attempt to answer gives another answer.
pub struct Question {
    pub run: u64,
    pub text: &'static str,
    /// How often somebody tried to answer it.
    pub attempts: usize,
    /// The answers that were accepted.
    pub accepted: Vec<String>,
    /// Whether it is known to be answered.
    pub is_answered: bool,
}

impl Question {
    /// Returns the questions of a run.
    pub fn all_of(run: u64) -> impl Iterator<Item = Self> {
        let texts = TeamKind::of(run).questions().iter();
        texts.map(move |text| Self {
            run,
            text,
            attempts: 0,
            accepted: Vec::new(),
            is_answered: false,
        })
    }

    /// Answers it, unless it is answered or was not asked yet.
    pub fn answer(&mut self, post: &Post<'_>) {
        let events = post.events(self.run);
        let Some(id) = self.request(&events) else {
            return;
        };
        if !self.answers(&events).is_empty() {
            self.is_answered = true;
            return;
        }
        let answer = self.attempt(self.attempts);
        self.attempts += 1;
        let place = post.place(self.run);
        let ended = post
            .home
            .host(&["answer", &place, &format!("{id}={answer}")]);
        if ended.code == Some(0) {
            self.accepted.push(answer);
            self.is_answered = true;
        }
    }

    /// Returns what an attempt answers.
    fn attempt(&self, n: usize) -> String {
        format!("{} {n}", self.text.trim_end_matches('?'))
    }

    /// Whether one of the attempts gave this answer.
    pub fn was_given(&self, answer: &str) -> bool {
        (0..self.attempts).any(|n| self.attempt(n) == answer)
    }

    /// Returns the id of the request, if it was opened.
    fn request<'a>(&self, events: &'a [Value]) -> Option<&'a str> {
        let opened = stream::of_kind(events, "request-opened");
        let opened = opened.iter().find(|line| line["question"] == self.text)?;
        opened["request"].as_str()
    }

    /// Returns the recorded answers.
    pub fn answers(&self, events: &[Value]) -> Vec<String> {
        let Some(id) = self.request(events) else {
            return Vec::new();
        };
        let answered = stream::of_kind(events, "request-answered");
        let answered = answered.iter().filter(|line| line["request"] == id);
        answered
            .map(|line| stream::text(&line["answer"]).to_owned())
            .collect()
    }
}
