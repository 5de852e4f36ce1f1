//! Native tests of actions: a host in memory, and the calls it makes. No WebAssembly is involved.
//!
//! ```
//! use strata_action::testing::{Call, Host};
//! # use strata_action::{Action, Context, Failure, Output, llm};
//! # struct Shout;
//! # impl Action for Shout {
//! #     type Config = (); type Data = ();
//! #     fn run(cx: &Context<()>) -> Result<Output, Failure> {
//! #         Ok(Output::new(llm::ask(cx.text())?.text.to_uppercase()))
//! #     }
//! # }
//!
//! let mut host = Host::new().reply("fine");
//! let output = host.run::<Shout>(Call::new().news("how are you?")).unwrap();
//! assert_eq!(output.content, "FINE");
//! assert_eq!(host.prompts(), ["how are you?"]);
//! ```
//!
//! As with the real host nothing is granted that was not granted: without a scripted reply the llm is denied, and
//! so are requests without a scripted response and files outside the directories that were granted. Limits are not
//! played; neither are reducers of scopes (a value that is set is the value), nor JSON that a real host would check
//! against the schemas of a team file.

mod call;
mod files;
pub(crate) mod imports;

pub use call::Call;

use crate::environment::Emission;
use crate::http;
use crate::human::{Answer, Question, Source};
use crate::llm::{Reply, Request, Usage};
use crate::log::Level;
use crate::{
    Action, Choice, Failure, HostError, HostErrorKind, Message, Output, Planner, Task, Thinker,
};
use files::Directories;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A host in memory: what it grants and answers, and what an action did with it.
#[derive(Debug)]
pub struct Host {
    scopes: BTreeMap<String, BTreeMap<String, String>>,
    directories: Directories,
    llm: Option<VecDeque<Result<Reply, HostError>>>,
    requests: Vec<Request>,
    answers: VecDeque<Result<Answer, HostError>>,
    questions: Vec<Question>,
    http: Option<VecDeque<Result<http::Response, HostError>>>,
    fetched: Vec<http::Request>,
    secrets: BTreeSet<String>,
    variables: BTreeMap<String, String>,
    emitted: Vec<Emission>,
    log: Vec<(Level, String)>,
    memory: Vec<Message>,
    now_ms: f64,
    slept_ms: f64,
    random_state: u64,
    /// Whether a thinker is asked, which changes nothing.
    choosing: bool,
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl Host {
    /// A host that grants nothing and knows no scope but `role`. Its clock stands at 1970 and moves only when the
    /// action sleeps.
    pub fn new() -> Self {
        Self {
            scopes: BTreeMap::from([("role".to_owned(), BTreeMap::new())]),
            directories: Directories::default(),
            llm: None,
            requests: Vec::new(),
            answers: VecDeque::new(),
            questions: Vec::new(),
            http: None,
            fetched: Vec::new(),
            secrets: BTreeSet::new(),
            variables: BTreeMap::new(),
            emitted: Vec::new(),
            log: Vec::new(),
            memory: Vec::new(),
            now_ms: 0.0,
            slept_ms: 0.0,
            random_state: 0,
            choosing: false,
        }
    }

    /// Grants the llm and adds a reply. Replies are served in order; when none is left the llm fails.
    #[must_use]
    pub fn reply(mut self, text: impl Into<String>) -> Self {
        let usage = Usage {
            input_tokens: 0,
            output_tokens: 0,
        };
        let reply = Reply {
            text: text.into(),
            data: None,
            tool_calls: Vec::new(),
            model: "scripted".to_owned(),
            usage,
        };
        self.llm.get_or_insert_default().push_back(Ok(reply));
        self
    }

    /// Adds a person's answer, by anything that JSON can hold. Answers are given in order; a question without one
    /// panics, where a real run would wait.
    ///
    /// # Panics
    /// If it cannot be written as JSON.
    #[must_use]
    pub fn answer(mut self, value: impl Serialize) -> Self {
        let value = serde_json::to_string(&value).expect("a test's answer is JSON");
        self.answers.push_back(Ok(Answer {
            value,
            source: Source::Person,
        }));
        self
    }

    /// Lets the time of a question pass without an answer: its default is taken, or it fails.
    #[must_use]
    pub fn no_answer(mut self) -> Self {
        let message = "nobody answered in time, and the question has no `default`".to_owned();
        self.answers.push_back(Err(HostError {
            kind: HostErrorKind::Expired,
            message,
        }));
        self
    }

    /// Grants the llm and adds a failure in place of a reply.
    #[must_use]
    pub fn llm_error(mut self, kind: HostErrorKind, message: impl Into<String>) -> Self {
        let error = HostError {
            kind,
            message: message.into(),
        };
        self.llm.get_or_insert_default().push_back(Err(error));
        self
    }

    /// Grants http and adds a response. Responses are served in order; when none is left requests fail.
    #[must_use]
    pub fn response(mut self, status: u16, body: impl Into<Vec<u8>>) -> Self {
        let response = http::Response {
            status,
            headers: Vec::new(),
            body: body.into(),
        };
        self.http.get_or_insert_default().push_back(Ok(response));
        self
    }

    /// Grants http and adds a failure in place of a response.
    #[must_use]
    pub fn http_error(mut self, kind: HostErrorKind, message: impl Into<String>) -> Self {
        let error = HostError {
            kind,
            message: message.into(),
        };
        self.http.get_or_insert_default().push_back(Err(error));
        self
    }

    /// Grants a secret.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>) -> Self {
        self.secrets.insert(name.into());
        self
    }

    /// Grants a variable and sets it.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Puts a file there and grants reading its directory.
    #[must_use]
    pub fn file(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.directories.put(path, content.as_ref());
        self
    }

    /// Grants reading and writing below a directory.
    #[must_use]
    pub fn writable(mut self, directory: &str) -> Self {
        self.directories.grant_writing(directory);
        self
    }

    /// Declares a scope.
    #[must_use]
    pub fn scope(mut self, name: impl Into<String>) -> Self {
        self.scopes.entry(name.into()).or_default();
        self
    }

    /// Sets a value, declaring its scope.
    ///
    /// # Panics
    /// If the value cannot be written as JSON.
    #[must_use]
    pub fn state<T: Serialize>(mut self, scope: &str, key: &str, value: T) -> Self {
        let text = serde_json::to_string(&value).expect("a test's value is JSON");
        self.scopes
            .entry(scope.to_owned())
            .or_default()
            .insert(key.to_owned(), text);
        self
    }

    /// Adds a message to what the role remembers, as the newest.
    #[must_use]
    pub fn remember(mut self, message: Message) -> Self {
        self.memory.push(message);
        self
    }

    /// Runs an action.
    ///
    /// # Errors
    /// Returns the action's failure, or that its config does not fit.
    pub fn run<A: Action>(&mut self, call: Call) -> Result<Output<A::Data>, Failure> {
        self.within(|| A::run(&call.context()?))
    }

    /// Asks a thinker; `round` is how many choices were made before.
    ///
    /// # Errors
    /// Returns the thinker's failure, or that its config does not fit.
    pub fn choose<T: Thinker>(&mut self, call: Call, round: u32) -> Result<Choice, Failure> {
        self.choosing = true;
        let chosen = self.within(|| T::choose(&call.situation(round)?));
        self.choosing = false;
        chosen
    }

    /// Asks a planner.
    ///
    /// # Errors
    /// Returns the planner's failure, or that its config does not fit.
    pub fn plan<P: Planner>(&mut self, call: Call) -> Result<Vec<Task>, Failure> {
        self.within(|| P::plan(&call.context()?))
    }

    /// Runs a function that calls the host outside of any action, e.g. a part of one.
    pub fn within<R>(&mut self, function: impl FnOnce() -> R) -> R {
        imports::serve(self, function)
    }

    /// What was asked of the llm, oldest first.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// The last turn of each request, oldest request first.
    pub fn prompts(&self) -> Vec<&str> {
        let turns = self
            .requests
            .iter()
            .filter_map(|request| request.messages.last());
        turns.map(|turn| turn.content.as_str()).collect()
    }

    /// What people were asked, oldest first.
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// The http requests, oldest first, with placeholders in place of secrets.
    pub fn fetched(&self) -> &[http::Request] {
        &self.fetched
    }

    /// What was published beyond outputs, oldest first.
    pub fn emitted(&self) -> &[Emission] {
        &self.emitted
    }

    /// What was logged, oldest first.
    pub fn logged(&self) -> &[(Level, String)] {
        &self.log
    }

    /// A value as it is now.
    ///
    /// # Panics
    /// If the value is not a `T`.
    pub fn value<T: DeserializeOwned>(&self, scope: &str, key: &str) -> Option<T> {
        let text = self.scopes.get(scope)?.get(key)?;
        Some(serde_json::from_str(text).expect("the value has the type that the test expects"))
    }

    /// The content of a file, however it came there.
    pub fn content(&self, path: &str) -> Option<&[u8]> {
        self.directories.content(path)
    }

    /// How long actions slept, all in all.
    pub fn slept_ms(&self) -> f64 {
        self.slept_ms
    }
}
