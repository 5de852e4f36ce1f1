//! A server of a run: it is started at its first use, and again at the next call after it has died or hangs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use strata_base::text::units::format_duration;
use strata_core::record::event::{Event, ServerChanged, ServerState, ServerToolOmitted};
use strata_core::record::fault::FaultCause;

use super::call::AskingCall;
use super::config::{HintUse, InstructionUse, ServerConfig, ServerTransport, StdioServer};
use super::connection::Connection;
use super::http::HttpConnection;
use super::lock::difference;
use super::revision::Revision;
use super::session::{OpenError, Opening, ServerSession};
use super::stdio::{ProcessStart, StdioConnection};
use super::tool::{OmittedTool, Tool};
use crate::gateway::{HostError, HostErrorKind};
use crate::http::HttpClient;
use crate::plugin::pattern;
use crate::variables::Variables;

/// How often a server is started again after it has died, or was stopped because it hangs.
const MAX_RESTARTS: u32 = 3;
/// How long a server may take to answer a request that asks nothing of it, after a call was given up.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// How long a server may go on after its input was closed, and then after it was asked to end.
const END_TIME: Duration = Duration::from_secs(3);
/// How often it is checked whether a server has ended.
const END_POLL: Duration = Duration::from_millis(10);
/// The variables that every server sees.
const ALWAYS_SEEN: [&str; 2] = ["PATH", "HOME"];

/// Something about a server that is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerNotice {
    /// Its state changed.
    Changed(ServerChanged),
    /// A tool of it is not offered.
    ToolOmitted(ServerToolOmitted),
}

impl From<ServerNotice> for Event {
    fn from(notice: ServerNotice) -> Self {
        match notice {
            ServerNotice::Changed(changed) => Self::ServerChanged(changed),
            ServerNotice::ToolOmitted(omitted) => Self::ServerToolOmitted(omitted),
        }
    }
}

/// What servers are started with.
pub(super) struct ServerHost {
    /// Holds the secrets.
    pub(super) http: Arc<HttpClient>,
    /// The variables of the host.
    pub(super) variables: Variables,
}

/// A server of a run.
pub(super) struct Server {
    pub(super) name: String,
    pub(super) config: ServerConfig,
    host: Arc<ServerHost>,
    /// Locked while the server is started, so that it is started once.
    life: tokio::sync::Mutex<Life>,
    notices: Mutex<Notices>,
    /// The revision that was spoken with it last.
    known_revision: Mutex<Option<Revision>>,
    /// The calls within which it asks people, by number. They stay open until they are answered.
    parked: Mutex<BTreeMap<u64, Box<AskingCall>>>,
}

/// The number of the next parked call. No two of a process have the same, whatever run they belong to.
static NEXT_PARKED: AtomicU64 = AtomicU64::new(1);

#[derive(Default)]
struct Life {
    session: Option<Arc<RunningServer>>,
    /// How often it was started.
    starts: u32,
    /// Whether it is not started again.
    is_gone: bool,
}

/// A server that was started.
pub(super) struct RunningServer {
    pub(super) session: ServerSession,
    /// Whether its list of tools has not been used by a role.
    has_fresh_list: AtomicBool,
}

/// What is to be recorded about the server.
#[derive(Default)]
struct Notices {
    pending: Vec<ServerNotice>,
    /// The omitted tools that were noted before.
    omitted: BTreeSet<(String, String)>,
}

/// What a call of a tool does, as far as the host has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallClass {
    /// It changes nothing.
    Read,
    /// It may change something.
    Write,
    /// It may change something, and a second call changes nothing more.
    RepeatableWrite,
}

impl Server {
    pub(super) fn new(name: String, config: ServerConfig, host: Arc<ServerHost>) -> Self {
        Self {
            name,
            config,
            host,
            life: tokio::sync::Mutex::default(),
            notices: Mutex::default(),
            known_revision: Mutex::default(),
            parked: Mutex::default(),
        }
    }

    /// Keeps a call within which the server asks people. Returns its number.
    pub(super) fn park(&self, call: Box<AskingCall>) -> u64 {
        let number = NEXT_PARKED.fetch_add(1, Ordering::Relaxed);
        lock(&self.parked).insert(number, call);
        number
    }

    /// Takes a call that was kept.
    pub(super) fn take_parked(&self, number: u64) -> Option<Box<AskingCall>> {
        lock(&self.parked).remove(&number)
    }

    /// Returns whether it works on a call within which it asks people. One that has died does not.
    pub(super) fn has_asking_calls(&self) -> bool {
        lock(&self.parked).values().any(|call| call.is_alive())
    }

    /// Sets the revision that was spoken with it last, which is tried first.
    pub(super) fn set_known_revision(&self, revision: Option<Revision>) {
        *lock(&self.known_revision) = revision;
    }

    /// Returns the server as it runs. Starts it if it does not, and again if it hangs.
    pub(super) async fn running(&self) -> Result<Arc<RunningServer>, HostError> {
        let mut life = self.life.lock().await;
        if let Some(running) = &life.session {
            if running.session.connection().is_alive() && !self.stop_if_it_hangs(running).await {
                return Ok(running.clone());
            }
            // Its process group ends with it.
            life.session = None;
        }
        if life.starts > MAX_RESTARTS {
            if !std::mem::replace(&mut life.is_gone, true) {
                let reason = format!("it was started again {MAX_RESTARTS} times");
                self.note_state(ServerState::Gone, None, Some(reason));
            }
            let message = format!(
                "the MCP server `{}` has ended or was stopped {} times, and is not started again",
                self.name, life.starts
            );
            return Err(HostError::new(HostErrorKind::Upstream, message));
        }
        life.starts += 1;
        let (running, omitted) = self.start().await?;
        let running = Arc::new(running);
        let state = match life.starts {
            1 => ServerState::Ready,
            _ => ServerState::Restarted,
        };
        self.note_state(state, Some(&running.session), None);
        self.note_omitted(omitted);
        life.session = Some(running.clone());
        Ok(running)
    }

    /// Stops a process in which a request was given up, if it answers nothing any more. Fails the calls that it works on
    /// then. Returns whether it was stopped.
    async fn stop_if_it_hangs(&self, running: &RunningServer) -> bool {
        let Connection::Stdio(stdio) = running.session.connection() else {
            return false;
        };
        // A server that asks a person may read nothing but the answer until then.
        if !stdio.may_hang() || self.has_asking_calls() {
            return false;
        }
        if running.session.is_responsive(stdio, ANSWER_TIME).await {
            return false;
        }
        let time = format_duration(ANSWER_TIME);
        let reason =
            format!("it answered nothing for {time} after a call was given up, and was stopped");
        tracing::warn!("the MCP server `{}` hangs: {reason}", self.name);
        stdio.stop(&reason);
        true
    }

    /// Returns the server if it runs. Starts it if it was never started; `None` if it does not run.
    pub(super) async fn running_or_first_start(&self) -> Option<Arc<RunningServer>> {
        let may_start = {
            let life = self.life.lock().await;
            let session = life.session.as_ref();
            let is_alive = session.is_some_and(|open| open.session.connection().is_alive());
            is_alive || life.starts == 0
        };
        if may_start {
            self.running().await.ok()
        } else {
            None
        }
    }

    /// Starts the server. The error says why it does not start.
    async fn start(&self) -> Result<(RunningServer, Vec<OmittedTool>), HostError> {
        let mut watched = None;
        let opening = self.open(&mut watched);
        let failure = match tokio::time::timeout(self.config.start, opening).await {
            Ok(Ok((session, omitted))) => {
                self.check_lock(&session)?;
                self.set_known_revision(Some(session.revision()));
                let running = RunningServer {
                    session,
                    has_fresh_list: AtomicBool::new(true),
                };
                return Ok((running, omitted));
            }
            Ok(Err(why)) => HostError::new(HostErrorKind::Upstream, self.does_not_start(&why)),
            Err(_) => {
                let time = format_duration(self.config.start);
                let why = format!("it was not ready within {time} (`start` of the server)");
                HostError::new(HostErrorKind::Upstream, self.does_not_start(&why))
                    .caused_by(FaultCause::TimeLimit)
            }
        };
        let words = watched.map_or_else(String::new, |watched: Arc<StdioConnection>| {
            let words = watched.last_words();
            watched.kill();
            words
        });
        Err(HostError {
            message: failure.message + &words,
            ..failure
        })
    }

    /// Fails if the tools are not those that were locked.
    fn check_lock(&self, session: &ServerSession) -> Result<(), HostError> {
        let locked = self.config.locked.as_ref();
        let instructions = self.used_instructions(session);
        match locked.and_then(|locked| difference(locked, &session.tools(), instructions)) {
            None => Ok(()),
            Some(what) => {
                let message = format!(
                    "the MCP server `{}` has other tools than `strata.lock` says: {what}; locking the team again \
                     accepts them",
                    self.name
                );
                Err(HostError::new(HostErrorKind::Upstream, message))
            }
        }
    }

    /// Returns the instructions of the server, if models are told them.
    pub(super) fn used_instructions<'a>(&self, session: &'a ServerSession) -> Option<&'a str> {
        match self.config.instructions {
            InstructionUse::PassedOn => session.info().instructions.as_deref(),
            InstructionUse::Ignored => None,
        }
    }

    fn does_not_start(&self, why: &str) -> String {
        format!("the MCP server `{}` does not start: {why}", self.name)
    }

    /// Opens a session. The connection is put into `watched`.
    async fn open(
        &self,
        watched: &mut Option<Arc<StdioConnection>>,
    ) -> Result<(ServerSession, Vec<OmittedTool>), String> {
        let known = *lock(&self.known_revision);
        let mut opening = match (self.config.revision, known) {
            (Some(revision), _) => Opening::Only(revision),
            (None, Some(known)) if known.has_handshake() => Opening::Known(known),
            (None, _) => Opening::Auto,
        };
        let stdio = match &self.config.transport {
            ServerTransport::Stdio(stdio) => stdio,
            ServerTransport::Http(server) => {
                let connect = || {
                    let http = HttpConnection::new(server.clone(), self.host.http.clone());
                    Connection::Http(Arc::new(http))
                };
                let mut opened = ServerSession::open(connect(), opening).await;
                if matches!(&opened, Err(OpenError::NotAsKnown(_))) {
                    opened = ServerSession::open(connect(), Opening::Auto).await;
                }
                return opened.map_err(OpenError::into_reason);
            }
        };
        let process = self.process(stdio)?;
        loop {
            let connection = Arc::new(StdioConnection::start(&self.name, &process)?);
            *watched = Some(connection.clone());
            match ServerSession::open(Connection::Stdio(connection), opening).await {
                Ok(opened) => return Ok(opened),
                Err(OpenError::EndedAtProbe) => {
                    opening = Opening::Handshake(Revision::NEWEST_WITH_HANDSHAKE);
                }
                // Another server may have been installed since.
                Err(OpenError::NotAsKnown(_)) => opening = Opening::Auto,
                Err(OpenError::Failed(why)) => return Err(why),
            }
        }
    }

    fn process(&self, stdio: &StdioServer) -> Result<ProcessStart, String> {
        let mut variables = Vec::new();
        let host = ALWAYS_SEEN
            .iter()
            .copied()
            .chain(stdio.env.iter().map(String::as_str));
        for name in host {
            if let Ok(value) = self.host.variables.get(name) {
                variables.push((name.to_owned(), value));
            }
        }
        variables.extend(stdio.set.iter().cloned());
        for name in &stdio.secrets {
            let value = self.host.http.secret(name);
            let value = value.ok_or_else(|| format!("the secret `{name}` is not set"))?;
            variables.push((name.clone(), value.to_owned()));
        }
        Ok(ProcessStart {
            command: stdio.command.clone(),
            dir: stdio.dir.clone(),
            variables,
        })
    }

    /// Returns what a call of a tool does.
    pub(super) fn class(&self, tool: &Tool) -> CallClass {
        let config = &self.config;
        if pattern::matches_any(&config.reads, &tool.name) {
            return CallClass::Read;
        }
        if pattern::matches_any(&config.repeatable, &tool.name) {
            return CallClass::RepeatableWrite;
        }
        match (
            config.hints,
            tool.hints.is_read_only,
            tool.hints.is_idempotent,
        ) {
            (HintUse::Trusted, true, _) => CallClass::Read,
            (HintUse::Trusted, false, true) => CallClass::RepeatableWrite,
            _ => CallClass::Write,
        }
    }

    fn lock_notices(&self) -> MutexGuard<'_, Notices> {
        lock(&self.notices)
    }

    /// Returns what is to be recorded about the server, and forgets it.
    pub(super) fn take_notices(&self) -> Vec<ServerNotice> {
        std::mem::take(&mut self.lock_notices().pending)
    }

    /// Notes that the server is in another state.
    pub(super) fn note_state(
        &self,
        state: ServerState,
        session: Option<&ServerSession>,
        reason: Option<String>,
    ) {
        let info = session.map(ServerSession::info);
        let changed = ServerChanged {
            server: self.name.clone(),
            state,
            revision: session.map(|session| session.revision().name().to_owned()),
            name: info.and_then(|info| info.name.clone()),
            version: info.and_then(|info| info.version.clone()),
            reason,
        };
        self.lock_notices()
            .pending
            .push(ServerNotice::Changed(changed));
    }

    /// Notes tools that are not offered. What was noted before is not repeated.
    pub(super) fn note_omitted(&self, tools: impl IntoIterator<Item = OmittedTool>) {
        let mut notices = self.lock_notices();
        for OmittedTool { name, reason } in tools {
            if notices.omitted.insert((name.clone(), reason.clone())) {
                let server = self.name.clone();
                let omitted = ServerToolOmitted {
                    server,
                    tool: name,
                    reason,
                };
                notices.pending.push(ServerNotice::ToolOmitted(omitted));
            }
        }
    }

    /// Lists the tools of the server anew, unless that has just been done.
    pub(super) async fn refresh(&self, running: &RunningServer) -> Result<(), HostError> {
        if running.has_fresh_list.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let failed = |why: &str| {
            let message = format!(
                "the MCP server `{}` gives no list of tools: {why}",
                self.name
            );
            HostError::new(HostErrorKind::Upstream, message)
        };
        let limit = self.config.start;
        match tokio::time::timeout(limit, running.session.list_tools()).await {
            Ok(Ok(omitted)) => {
                self.note_omitted(omitted);
                Ok(())
            }
            Ok(Err(why)) => Err(failed(&why)),
            Err(_) => {
                let limit = format_duration(limit);
                let words = last_words(running.session.connection());
                let why = format!("it took longer than {limit} (`start` of the server){words}");
                Err(failed(&why).caused_by(FaultCause::TimeLimit))
            }
        }
    }

    /// Ends the server with all processes that it started.
    pub(super) async fn close(&self) {
        let parked = std::mem::take(&mut *lock(&self.parked));
        drop(parked);
        let running = self.life.lock().await.session.take();
        let Some(running) = running else { return };
        let Connection::Stdio(stdio) = running.session.connection() else {
            return;
        };
        stdio.close_input();
        if !ends_in_time(stdio).await {
            stdio.terminate();
            ends_in_time(stdio).await;
        }
        // Descendants may be left, whether it has ended or not.
        stdio.kill();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn ends_in_time(stdio: &StdioConnection) -> bool {
    let ended = async {
        while !stdio.has_exited() {
            tokio::time::sleep(END_POLL).await;
        }
    };
    tokio::time::timeout(END_TIME, ended).await.is_ok()
}

/// Returns what a program wrote before it was given up, to follow a message.
fn last_words(connection: &Connection) -> String {
    match connection {
        Connection::Stdio(stdio) => stdio.last_words(),
        Connection::Http(_) => String::new(),
    }
}
