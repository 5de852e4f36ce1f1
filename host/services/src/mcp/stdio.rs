//! A server that is a process: messages are lines on its standard streams.
//!
//! Three threads read its output, write its input and read its standard error, so that a process that
//! neglects one of them blocks nobody; a fourth waits for its end. The process has a group of its own,
//! which ends with the connection.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc as sync};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use strata_base::process::children::{ChildProcess, spawn_external};
use strata_base::text::excerpt::excerpt;
use strata_base::text::units::format_bytes;
use tokio::sync::{mpsc, oneshot};

use super::call_signals::CallSignals;
use super::exchange::{ExchangeResult, LostAnswer, MAX_MESSAGE_BYTES, Request, Signal};
use super::message::{self, Incoming};

/// How many messages may wait until the process reads them. A process that reads nothing is noticed by
/// then.
const QUEUED_MESSAGES: usize = 256;
/// How many of the last lines on standard error are kept.
const STDERR_LINES: usize = 20;
/// How many bytes of them are kept.
const STDERR_BYTES: usize = 4 << 10;
/// How many characters are kept of a line of its output that is no message.
const STRAY_CHARS: usize = 200;
/// How many bytes of such a line are looked at. These characters need fewer.
const STRAY_BYTES: usize = 4 << 10;
/// How long the output of a process is still read after its end. What it wrote before is in the pipe.
const DRAIN_TIME: Duration = Duration::from_millis(200);
/// How often it is checked whether the output has been read meanwhile.
const DRAIN_POLL: Duration = Duration::from_millis(5);

/// What is needed to start a process.
pub(super) struct ProcessStart {
    /// The program and its arguments.
    pub(super) command: Vec<String>,
    /// Its directory.
    pub(super) dir: PathBuf,
    /// All its variables.
    pub(super) variables: Vec<(String, String)>,
}

/// A running server.
pub(super) struct StdioConnection {
    child: SharedChild,
    shared: Arc<Shared>,
}

/// The process; `None` once it was killed.
type SharedChild = Arc<Mutex<Option<ChildProcess>>>;

/// What the threads and the callers share.
struct Shared {
    /// The name of the server, for warnings.
    server: String,
    /// Messages for the thread that writes; `None` once the input was closed.
    outgoing: Mutex<Option<sync::SyncSender<String>>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The requests that wait for answers, by id.
    waiting: BTreeMap<u64, WaitingRequest>,
    /// The calls among them.
    calls: CallSignals,
    /// Why nothing more arrives.
    ended: Option<String>,
    /// Whether all output was read.
    is_drained: bool,
    /// Whether all of standard error was read.
    has_last_words: bool,
    /// Whether the process has ended.
    has_exited: bool,
    /// Whether the server is of an older revision, in which it may send requests.
    has_handshake: bool,
    /// The last lines on standard error.
    stderr: VecDeque<String>,
    /// The first line on its standard output that was no message.
    stray_line: Option<StrayLine>,
    /// Whether a message has arrived.
    has_spoken: bool,
    /// The newest request that was given up without an answer, if it and all later ones have none.
    given_up: Option<u64>,
    /// The stray line of the last request that was given up, if it has one.
    given_up_line: Option<StrayLine>,
    /// How many answers, and notes of progress of open calls, have arrived.
    signs_of_life: u64,
}

/// A request that waits for its answer.
struct WaitingRequest {
    reply: oneshot::Sender<ExchangeResult>,
    /// A line that is no message and arrived meanwhile. It may have been meant as the answer.
    stray_line: Option<StrayLine>,
}

/// A line on its standard output that is no message.
#[derive(Clone)]
struct StrayLine {
    /// The beginning of the line as text.
    text: String,
    is_utf8: bool,
}

impl StrayLine {
    fn new(line: &[u8]) -> Self {
        let start = &line[..line.len().min(STRAY_BYTES)];
        Self {
            text: excerpt(&visible_text(start), STRAY_CHARS),
            is_utf8: std::str::from_utf8(line).is_ok(),
        }
    }

    /// Returns it as a quotation. The text may look like a message although the bytes are none.
    fn quote(&self) -> String {
        let text = &self.text;
        if self.is_utf8 {
            format!("`{text}`")
        } else {
            format!("`{text}` (its bytes are not UTF-8)")
        }
    }

    /// Returns what is said of a line that arrived while an answer was waited for.
    fn describe(&self) -> String {
        format!(
            "the server wrote a line that is no message of the protocol: {}",
            self.quote()
        )
    }
}

impl Shared {
    /// Queues a message. Fails if the process does not read, or its input was closed.
    fn send_line(&self, line: String) -> Result<(), ()> {
        let outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = outgoing.as_ref().ok_or(())?;
        sender.try_send(line).map_err(|_| ())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that nothing more arrives, and fails all requests that wait. The last words are added to the reason.
    fn end(&self, reason: &str) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        for (_, waiting) in std::mem::take(&mut state.waiting) {
            // What was written before a request, or while another one waited, is not meant as its answer.
            let words = state.last_words(waiting.stray_line.as_ref());
            let lost = LostAnswer::unknown(format!("{reason}{words}"));
            // It is no error if nobody waits any more.
            let _ = waiting.reply.send(Err(lost));
        }
        state.ended = Some(format!("{reason}{}", state.last_words(None)));
    }
}

impl State {
    /// Returns what it wrote instead of messages, and the last lines on standard error, to follow a message. `meant`
    /// is the line that may have been meant as the answer that the message is about: who has sent a message is a
    /// server, and its other lines do not matter.
    fn last_words(&self, meant: Option<&StrayLine>) -> String {
        let mut words = String::new();
        if let (Some(line), false) = (&self.stray_line, self.has_spoken) {
            words = format!(
                "; its standard output has no messages, but {}",
                line.quote()
            );
        } else if let Some(line) = meant {
            words = format!("; {}", line.describe());
        }
        if !self.stderr.is_empty() {
            words += "; the last lines of its standard error:";
            for line in &self.stderr {
                words += "\n";
                words += line;
            }
        }
        words
    }
}

impl StdioConnection {
    /// Starts a server. Fails with a description if that is not possible.
    pub(super) fn start(server: &str, start: &ProcessStart) -> Result<Self, String> {
        let Some((name, arguments)) = start.command.split_first() else {
            return Err("its command is empty".into());
        };
        let program = if name.contains('/') {
            start.dir.join(name)
        } else {
            PathBuf::from(name)
        };
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .current_dir(&start.dir)
            .env_clear()
            .envs(start.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = spawn_external(&mut command, None)
            .map_err(|error| format!("cannot start `{}`: {error}", program.display()))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (stderr, pid) = (child.stderr.take(), child.id());
        let child = Arc::new(Mutex::new(Some(child)));
        let (outgoing, lines) = sync::sync_channel(QUEUED_MESSAGES);
        let shared = Arc::new(Shared {
            server: server.to_owned(),
            outgoing: Mutex::new(Some(outgoing)),
            state: Mutex::default(),
        });
        let connection = Self {
            child: child.clone(),
            shared: shared.clone(),
        };
        let threads = || {
            spawn_thread("mcp stdin", move || write_lines(stdin, &lines))?;
            let reading = shared.clone();
            spawn_thread("mcp stdout", move || {
                if let Some(stdout) = stdout {
                    read_output(stdout, &reading, &child);
                }
            })?;
            let noting = shared.clone();
            spawn_thread("mcp stderr", move || {
                if let Some(stderr) = stderr {
                    note_lines(stderr, &noting);
                }
                noting.lock().has_last_words = true;
            })?;
            spawn_thread("mcp end", move || watch_end(pid, &shared))
        };
        threads().map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(connection)
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn exchange(
        &self,
        request: &Request,
        signals: mpsc::Sender<Signal>,
    ) -> ExchangeResult {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.shared.lock();
            if let Some(reason) = &state.ended {
                return Err(LostAnswer::not_taken(reason.clone()));
            }
            match request.method {
                "initialize" => state.has_handshake = true,
                "server/discover" => state.has_handshake = false,
                _ => {}
            }
            if request.method == "tools/call" {
                state.calls.insert(request.id, signals);
            }
            let waiting = WaitingRequest {
                reply,
                stray_line: None,
            };
            state.waiting.insert(request.id, waiting);
        }
        let _forget = ForgetOnDrop {
            shared: &self.shared,
            id: request.id,
        };
        let line = message::request(request.id, request.method, &request.params);
        if self.shared.send_line(line).is_err() {
            return Err(LostAnswer::not_taken("it does not read its standard input"));
        }
        answer
            .await
            .unwrap_or_else(|_| Err(LostAnswer::unknown("the connection was closed")))
    }

    /// Sends a notification.
    pub(super) fn notify(&self, method: &str, params: &Value) {
        // A server that is gone needs none.
        let _ = self.shared.send_line(message::notification(method, params));
    }

    /// Answers a request of the server.
    pub(super) fn respond(&self, id: &Value, result: &Value) {
        self.shared.lock().calls.note_answer(id);
        // A server that is gone needs none.
        let _ = self.shared.send_line(message::answer(id, result));
    }

    /// Returns whether messages can still arrive.
    pub(super) fn is_alive(&self) -> bool {
        self.shared.lock().ended.is_none()
    }

    /// Returns whether its process has ended.
    pub(super) fn has_exited(&self) -> bool {
        self.shared.lock().has_exited
    }

    /// Returns whether a request was given up, and nothing has shown since that the server still answers.
    pub(super) fn may_hang(&self) -> bool {
        self.shared.lock().given_up.is_some()
    }

    /// Returns how many answers, and notes of progress of open calls, have arrived.
    pub(super) fn signs_of_life(&self) -> u64 {
        self.shared.lock().signs_of_life
    }

    /// Returns a line that is no message, arrived while this request waited, and may have been meant as its answer.
    /// What is returned is a description of it, for people.
    pub(super) fn stray_line(&self, id: u64) -> Option<String> {
        let state = self.shared.lock();
        Some(state.waiting.get(&id)?.stray_line.as_ref()?.describe())
    }

    /// Fails all requests that wait, for this reason, and kills it with all its descendants.
    pub(super) fn stop(&self, reason: &str) {
        self.shared.end(reason);
        self.kill();
    }

    /// Closes its input, which asks it to end.
    pub(super) fn close_input(&self) {
        let outgoing = self.shared.outgoing.lock();
        *outgoing.unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Asks it and all its descendants to end.
    pub(super) fn terminate(&self) {
        if let Some(child) = &*lock_child(&self.child) {
            child.terminate_group();
        }
    }

    /// Kills it with all its descendants.
    pub(super) fn kill(&self) {
        kill_child(&self.child);
    }

    /// Returns its last words, for a request that was just given up. They are empty if it has ended: the reason
    /// has them.
    pub(super) fn last_words(&self) -> String {
        let state = self.shared.lock();
        match &state.ended {
            Some(_) => String::new(),
            None => state.last_words(state.given_up_line.as_ref()),
        }
    }
}

impl Drop for StdioConnection {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Forgets a request when nobody waits for its answer any more.
struct ForgetOnDrop<'a> {
    shared: &'a Shared,
    id: u64,
}

impl Drop for ForgetOnDrop<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Some(waiting) = state.waiting.remove(&self.id) {
            state.given_up = state.given_up.max(Some(self.id));
            state.given_up_line = waiting.stray_line;
        }
        state.calls.remove(self.id);
    }
}

fn lock_child(child: &Mutex<Option<ChildProcess>>) -> MutexGuard<'_, Option<ChildProcess>> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kill_child(child: &SharedChild) {
    let child = lock_child(child).take();
    if let Some(mut child) = child {
        child.kill_group();
    }
}

fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .map(|_| ())
}

/// Writes messages until the connection closes the input, or the process does not read any more.
fn write_lines(stdin: Option<ChildStdin>, lines: &sync::Receiver<String>) {
    let Some(mut stdin) = stdin else { return };
    for line in lines {
        let written = stdin
            .write_all((line + "\n").as_bytes())
            .and_then(|()| stdin.flush());
        if written.is_err() {
            break;
        }
    }
}

/// Reads messages until the output ends. A process that goes on after that is of no use any more.
fn read_output(output: impl Read, shared: &Shared, child: &SharedChild) {
    if let Err(excess) = read_messages(output, shared) {
        let most = format_bytes(MAX_MESSAGE_BYTES as u64);
        let what = match excess {
            Excess::Message => format!("sent a message of more than {most}"),
            Excess::NoMessages => format!("wrote more than {most} without a message"),
        };
        shared.end(&format!("it {what}, and was stopped"));
        kill_child(child);
    }
    shared.lock().is_drained = true;
    // What is said about the end of the process says more.
    thread::sleep(DRAIN_TIME);
    shared.end("it closed its standard output");
}

/// What is longer than a message may be.
enum Excess {
    Message,
    /// What is no message, before the first one or between two.
    NoMessages,
}

fn read_messages(output: impl Read, shared: &Shared) -> Result<(), Excess> {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    let mut stray_bytes = 0;
    loop {
        line.clear();
        let most = MAX_MESSAGE_BYTES as u64 + 1;
        match output.by_ref().take(most).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) if line.len() > MAX_MESSAGE_BYTES => return Err(Excess::Message),
            Ok(_) => {}
        }
        match message::parse(&line) {
            Some(incoming) => {
                stray_bytes = 0;
                shared.lock().has_spoken = true;
                dispatch(incoming, shared);
                continue;
            }
            None if line.trim_ascii().is_empty() => {}
            None => note_stray_line(&line, shared),
        }
        // Otherwise a program that is no server would be read as fast as it writes.
        stray_bytes += line.len();
        if stray_bytes > MAX_MESSAGE_BYTES {
            return Err(Excess::NoMessages);
        }
    }
}

/// Keeps a line that is no message for those whose answer it may be, and warns about the first one. The warning does not
/// quote it: unlike a fault, a log is not searched for secrets.
fn note_stray_line(line: &[u8], shared: &Shared) {
    let mut state = shared.lock();
    let is_first = state.stray_line.is_none();
    if !is_first && state.waiting.is_empty() {
        return;
    }
    let line = StrayLine::new(line);
    for waiting in state.waiting.values_mut() {
        // What begins like an answer is not replaced by what does not.
        let is_answer = |line: &StrayLine| line.text.starts_with('{');
        if is_answer(&line) || !waiting.stray_line.as_ref().is_some_and(is_answer) {
            waiting.stray_line = Some(line.clone());
        }
    }
    if is_first {
        state.stray_line = Some(line);
        tracing::warn!(
            "the MCP server `{}` writes lines to its standard output that are no messages; they are skipped",
            shared.server
        );
    }
}

/// Returns what was written as text, without characters that are not seen.
fn visible_text(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line.trim_ascii_end());
    text.replace(strata_core::text::is_invisible, " ")
}

/// Passes a message on to whoever waits for it. What nobody waits for is ignored.
fn dispatch(incoming: Incoming, shared: &Shared) {
    match incoming {
        Incoming::Reply { id, reply } => {
            let mut state = shared.lock();
            state.signs_of_life += 1;
            // The answer to a request that is as new shows that the server does not hang in the other.
            state.given_up.take_if(|given_up| id >= Some(*given_up));
            if let Some(waiting) = id.and_then(|id| state.waiting.remove(&id)) {
                let _ = waiting.reply.send(Ok(reply));
            }
        }
        Incoming::Notification { method, params } if method == "notifications/progress" => {
            let mut state = shared.lock();
            let is_of_open_call = state.calls.note_progress(&params);
            state.signs_of_life += u64::from(is_of_open_call);
        }
        Incoming::Notification { .. } => {}
        Incoming::Request { id, method, params } => {
            if let Some(response) = answer_request(&id, &method, params, &mut shared.lock()) {
                // A server that reads nothing gets no answer.
                let _ = shared.send_line(response);
            }
        }
    }
}

/// Returns the answer to a request of a server, if it gets one at once. A server of the newest revision gets none: it
/// asks by results.
fn answer_request(id: &Value, method: &str, params: Value, state: &mut State) -> Option<String> {
    if !state.has_handshake {
        if method != message::PING {
            state.calls.note_unexpected(method);
        }
        return None;
    }
    match method {
        message::PING => Some(message::answer(id, &json!({}))),
        message::ELICITATION if state.calls.ask(id, params) => None,
        _ => Some(message::refusal(id, method)),
    }
}

/// Keeps the last lines of standard error. It is always read, so that the process is never blocked.
fn note_lines(stderr: impl Read, shared: &Shared) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match stderr
            .by_ref()
            .take(STDERR_BYTES as u64)
            .read_until(b'\n', &mut line)
        {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let mut state = shared.lock();
        state.stderr.push_back(visible_text(&line));
        let bytes =
            |lines: &VecDeque<String>| lines.iter().map(|line| line.len() + 1).sum::<usize>();
        while state.stderr.len() > STDERR_LINES || bytes(&state.stderr) > STDERR_BYTES {
            state.stderr.pop_front();
        }
    }
}

/// Waits for the end of the process, and lets what it wrote before be read.
fn watch_end(pid: u32, shared: &Shared) {
    ChildProcess::wait_for_end(pid);
    shared.lock().has_exited = true;
    let mut left = DRAIN_TIME;
    let is_read = || {
        let state = shared.lock();
        state.is_drained && state.has_last_words
    };
    while !left.is_zero() && !is_read() {
        thread::sleep(DRAIN_POLL);
        left = left.saturating_sub(DRAIN_POLL);
    }
    shared.end("its process has ended");
}
