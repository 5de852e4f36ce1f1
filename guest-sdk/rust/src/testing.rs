//! Native tests of actions: an in-memory host, and the calls it makes. No WebAssembly is involved.
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
//! As with the real host, everything must be granted: without a scripted reply the llm is denied,
//! and so are requests without a scripted response and files outside of the granted directories.
//! Limits are not simulated, nor are the reducers of scopes (a new value replaces the old one) and
//! the checks against the schemas of a team file.

mod call;
mod files;
pub(crate) mod imports;

pub use call::Call;

use crate::environment::Emission;
use crate::http;
use crate::human::{Answer, Question, Source};
use crate::llm::{AssistantPart, ChatMessage, EmbedRequest, Embeddings, Reply, Request};
use crate::log::Level;
use crate::mcp;
use crate::tools::ToolCall;
use crate::{
    Action, Choice, Failure, HostError, HostErrorKind, Message, Output, Planner, Task, Thinker,
};
use files::Directories;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An in-memory host: what it grants and answers, and what an action did with it.
#[derive(Debug)]
pub struct Host {
    scopes: BTreeMap<String, BTreeMap<String, String>>,
    directories: Directories,
    llm: Option<VecDeque<Result<Reply, HostError>>>,
    requests: Vec<Request>,
    embeddings: VecDeque<Embeddings>,
    embed_requests: Vec<EmbedRequest>,
    blobs: BTreeMap<String, Vec<u8>>,
    answers: VecDeque<Result<Answer, HostError>>,
    questions: Vec<Question>,
    http: Option<VecDeque<Result<http::Response, HostError>>>,
    fetched: Vec<http::Request>,
    mcp_results: Option<VecDeque<Result<mcp::ToolResult, HostError>>>,
    /// Server, tool and arguments.
    mcp_calls: Vec<(String, String, String)>,
    secrets: BTreeSet<String>,
    tools: BTreeMap<String, VecDeque<Result<String, HostError>>>,
    tool_calls: Vec<ToolCall>,
    variables: BTreeMap<String, String>,
    emitted: Vec<Emission>,
    replaced: Vec<(u32, String)>,
    log: Vec<(Level, String)>,
    memory: Vec<Message>,
    now_ms: f64,
    slept_ms: f64,
    random_state: u64,
    /// Whether a thinker is running, which may not change anything.
    choosing: bool,
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl Host {
    /// Creates a host that grants nothing and has only the scope `role`. Its clock starts in 1970
    /// and advances only when the action sleeps.
    pub fn new() -> Self {
        Self {
            scopes: BTreeMap::from([("role".to_owned(), BTreeMap::new())]),
            directories: Directories::default(),
            llm: None,
            requests: Vec::new(),
            embeddings: VecDeque::new(),
            embed_requests: Vec::new(),
            blobs: BTreeMap::new(),
            answers: VecDeque::new(),
            questions: Vec::new(),
            http: None,
            mcp_results: None,
            mcp_calls: Vec::new(),
            fetched: Vec::new(),
            secrets: BTreeSet::new(),
            tools: BTreeMap::new(),
            tool_calls: Vec::new(),
            variables: BTreeMap::new(),
            emitted: Vec::new(),
            replaced: Vec::new(),
            log: Vec::new(),
            memory: Vec::new(),
            now_ms: 0.0,
            slept_ms: 0.0,
            random_state: 0,
            choosing: false,
        }
    }

    /// Grants the llm and adds a reply that is a text. Replies are used in order; when none is left,
    /// the llm fails.
    #[must_use]
    pub fn reply(self, text: impl Into<String>) -> Self {
        self.full_reply(Reply::new(vec![AssistantPart::Text(text.into())]))
    }

    /// Grants the llm and adds any reply, e.g. one that calls tools or is truncated.
    #[must_use]
    pub fn full_reply(mut self, reply: Reply) -> Self {
        self.llm.get_or_insert_default().push_back(Ok(reply));
        self
    }

    /// Grants the llm and adds the vectors of the next request for embeddings.
    #[must_use]
    pub fn embeddings(mut self, vectors: Vec<Vec<f32>>) -> Self {
        self.llm.get_or_insert_default();
        self.embeddings.push_back(Embeddings {
            vectors,
            model: "scripted".to_owned(),
            input_tokens: 0,
        });
        self
    }

    /// Adds bytes that the action can load by this digest, as if it had received them in a message.
    #[must_use]
    pub fn blob(mut self, digest: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.blobs.insert(digest.into(), bytes.into());
        self
    }

    /// Adds a person's answer: any value that can be serialised as JSON. Answers are used in order;
    /// a question without an answer panics, where a real run would wait.
    ///
    /// # Panics
    /// Panics if it cannot be serialised as JSON.
    #[must_use]
    pub fn answer(mut self, value: impl Serialize) -> Self {
        let value = serde_json::to_string(&value).expect("a test's answer is JSON");
        self.answers.push_back(Ok(Answer {
            value,
            source: Source::Person,
        }));
        self
    }

    /// Lets a question expire: its default is used, or it fails.
    #[must_use]
    pub fn no_answer(mut self) -> Self {
        let message = "nobody answered in time, and the question has no `default`".to_owned();
        self.answers.push_back(Err(HostError {
            kind: HostErrorKind::Expired,
            message,
        }));
        self
    }

    /// Grants the llm and adds an error instead of a reply.
    #[must_use]
    pub fn llm_error(mut self, kind: HostErrorKind, message: impl Into<String>) -> Self {
        let error = HostError {
            kind,
            message: message.into(),
        };
        self.llm.get_or_insert_default().push_back(Err(error));
        self
    }

    /// Grants http and adds a response. Responses are used in order; when none is left, requests
    /// fail.
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

    /// Grants http and adds an error instead of a response.
    #[must_use]
    pub fn http_error(mut self, kind: HostErrorKind, message: impl Into<String>) -> Self {
        let error = HostError {
            kind,
            message: message.into(),
        };
        self.http.get_or_insert_default().push_back(Err(error));
        self
    }

    /// Grants a tool and adds a result. Results of a tool are used in order.
    ///
    /// # Panics
    /// Panics if it cannot be serialised as JSON.
    #[must_use]
    pub fn tool(mut self, name: impl Into<String>, result: impl Serialize) -> Self {
        let result = serde_json::to_string(&result).expect("a test's result is JSON");
        let results = self.tools.entry(name.into()).or_default();
        results.push_back(Ok(result));
        self
    }

    /// Grants a tool and adds an error instead of a result.
    #[must_use]
    pub fn tool_error(mut self, name: impl Into<String>, message: impl Into<String>) -> Self {
        let error = HostError {
            kind: HostErrorKind::Failed,
            message: message.into(),
        };
        self.tools
            .entry(name.into())
            .or_default()
            .push_back(Err(error));
        self
    }

    /// Grants all tools of MCP servers and adds a result with this text. Results are used in order; when none is
    /// left, calls fail.
    #[must_use]
    pub fn mcp_result(mut self, text: impl Into<String>) -> Self {
        let result = mcp::ToolResult {
            text: text.into(),
            data: None,
            content: "[]".into(),
            is_error: false,
        };
        self.mcp_results
            .get_or_insert_default()
            .push_back(Ok(result));
        self
    }

    /// Grants all tools of MCP servers and adds an error instead of a result.
    #[must_use]
    pub fn mcp_error(mut self, kind: HostErrorKind, message: impl Into<String>) -> Self {
        let error = HostError {
            kind,
            message: message.into(),
        };
        self.mcp_results
            .get_or_insert_default()
            .push_back(Err(error));
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

    /// Adds a file and grants reading its directory.
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

    /// Sets a value and declares its scope.
    ///
    /// # Panics
    /// Panics if the value cannot be serialised as JSON.
    #[must_use]
    pub fn state<T: Serialize>(mut self, scope: &str, key: &str, value: T) -> Self {
        let text = serde_json::to_string(&value).expect("a test's value is JSON");
        self.scopes
            .entry(scope.to_owned())
            .or_default()
            .insert(key.to_owned(), text);
        self
    }

    /// Adds a message to the role's memory, as the newest.
    #[must_use]
    pub fn remember(mut self, message: Message) -> Self {
        self.memory.push(message);
        self
    }

    /// Runs an action.
    ///
    /// # Errors
    /// Returns the action's failure, or a failure if its config is invalid.
    pub fn run<A: Action>(&mut self, call: Call) -> Result<Output<A::Data>, Failure> {
        self.within(|| A::run(&call.context()?))
    }

    /// Runs a thinker. `round` is the number of choices that were made before.
    ///
    /// # Errors
    /// Returns the thinker's failure, or a failure if its config is invalid.
    pub fn choose<T: Thinker>(&mut self, call: Call, round: u32) -> Result<Choice, Failure> {
        self.choosing = true;
        let chosen = self.within(|| T::choose(&call.situation(round)?));
        self.choosing = false;
        chosen
    }

    /// Runs a planner.
    ///
    /// # Errors
    /// Returns the planner's failure, or a failure if its config is invalid.
    pub fn plan<P: Planner>(&mut self, call: Call) -> Result<Vec<Task>, Failure> {
        self.within(|| P::plan(&call.context()?))
    }

    /// Runs a function that calls the host outside of an action, e.g. a part of one.
    pub fn within<R>(&mut self, function: impl FnOnce() -> R) -> R {
        imports::serve(self, function)
    }

    /// Returns the requests to the llm, oldest first.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Returns the text of the last message of each request to the llm, oldest request first.
    pub fn prompts(&self) -> Vec<String> {
        let newest = |request: &Request| request.messages.last().map(ChatMessage::text);
        self.requests.iter().filter_map(newest).collect()
    }

    /// Returns the requests for embeddings, oldest first.
    pub fn embed_requests(&self) -> &[EmbedRequest] {
        &self.embed_requests
    }

    /// Returns the calls of tools, oldest first.
    pub fn tool_calls(&self) -> &[ToolCall] {
        &self.tool_calls
    }

    /// Returns the questions to people, oldest first.
    pub fn questions(&self) -> &[Question] {
        &self.questions
    }

    /// Returns the calls of tools of MCP servers, oldest first: server, tool and arguments.
    pub fn mcp_calls(&self) -> &[(String, String, String)] {
        &self.mcp_calls
    }

    /// Returns the http requests, oldest first, with placeholders instead of secrets.
    pub fn fetched(&self) -> &[http::Request] {
        &self.fetched
    }

    /// Returns the messages that were published in addition to outputs, oldest first.
    pub fn emitted(&self) -> &[Emission] {
        &self.emitted
    }

    /// Returns the calls of `memory::replace`: how many messages, and the text.
    pub fn replaced(&self) -> &[(u32, String)] {
        &self.replaced
    }

    /// Returns the log lines, oldest first.
    pub fn logged(&self) -> &[(Level, String)] {
        &self.log
    }

    /// Returns the current value of a key.
    ///
    /// # Panics
    /// Panics if the value is not a `T`.
    pub fn value<T: DeserializeOwned>(&self, scope: &str, key: &str) -> Option<T> {
        let text = self.scopes.get(scope)?.get(key)?;
        Some(serde_json::from_str(text).expect("the value has the type that the test expects"))
    }

    /// Returns the content of a file, whether the test or the action wrote it.
    pub fn content(&self, path: &str) -> Option<&[u8]> {
        self.directories.content(path)
    }

    /// Returns the total time that actions slept, in milliseconds.
    pub fn slept_ms(&self) -> f64 {
        self.slept_ms
    }
}
