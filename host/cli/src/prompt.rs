//! The prompt: asks the human at the terminal the questions that a team waits for.

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use strata_host::clock::now_ms;
use strata_host::driver::{HumanReply, ReplyError, StopSignal};
use strata_host::launch::RunHandle;
use strata_host::view::RequestView;
use tokio::task::JoinHandle;

use super::CommandFailure;
use super::printer::Printer;
use super::requests::{describe_arguments, describe_asker, describe_said, other_terms};
use super::sanitize::{sanitize, sanitize_line};

/// Asks at the terminal. A prompt outlives a question, because reading a line cannot be cancelled.
pub(super) struct Prompt {
    printer: Printer,
    /// The task that reads the line being typed.
    typing: Option<JoinHandle<std::io::Result<Vec<u8>>>>,
    /// The question that was shown last. What was typed since then is meant for it.
    shown: Option<String>,
}

/// How long a line that was completed at the terminal takes at most to arrive here.
const MAX_ARRIVAL_DELAY: Duration = Duration::from_millis(20);

/// The result of asking all open questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromptOutcome {
    /// The team can continue: a question was answered or expired.
    Continue,
    /// All questions were left open.
    LeftOpen,
    /// The operator stopped the run.
    Stopped,
}

/// The result of asking one question.
enum QuestionOutcome {
    Answered,
    /// It expired, or something else was answered or sent: the team can continue.
    Superseded,
    LeftOpen,
    /// The input has ended.
    InputEnded,
    Stopped,
}

impl Prompt {
    /// Creates a prompt if stdin and stderr are a terminal.
    pub(super) fn at_terminal(printer: &Printer) -> Option<Self> {
        let attended = std::io::stdin().is_terminal() && printer.is_stderr_terminal();
        attended.then(|| Self {
            printer: printer.clone(),
            typing: None,
            shown: None,
        })
    }

    /// Asks all open questions until one expires. Each answer is recorded immediately.
    pub(super) async fn ask(
        &mut self,
        run: &mut RunHandle,
        stop: &mut StopSignal,
    ) -> Result<PromptOutcome, CommandFailure> {
        let open = RequestView::all(run.stepper());
        let mut outcome = PromptOutcome::LeftOpen;
        let _bare = self.printer.suspend_live_view();
        self.printer
            .note("\nthe team waits for a person; an empty line leaves a question open");
        for request in &open {
            show_request(request, &self.printer);
            match self.ask_one(run, request, stop).await? {
                QuestionOutcome::Answered => outcome = PromptOutcome::Continue,
                // The remaining questions are asked again when the team waits again.
                QuestionOutcome::Superseded => return Ok(PromptOutcome::Continue),
                QuestionOutcome::LeftOpen => {}
                QuestionOutcome::InputEnded => break,
                QuestionOutcome::Stopped => return Ok(PromptOutcome::Stopped),
            }
        }
        Ok(outcome)
    }

    /// Discards what was typed before the current question was shown: it was meant for another
    /// question or for none.
    async fn discard_typed(&mut self) {
        // If this fails, reading the terminal fails too, and that error is reported.
        let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
        if self.typing.is_some() {
            tokio::time::sleep(MAX_ARRIVAL_DELAY).await;
        }
        // A read in progress continues with what is typed from now on.
        self.typing.take_if(|typing| typing.is_finished());
    }

    /// Asks one question until it has a valid answer or is left open.
    async fn ask_one(
        &mut self,
        run: &mut RunHandle,
        request: &RequestView,
        stop: &mut StopSignal,
    ) -> Result<QuestionOutcome, CommandFailure> {
        if self.shown.as_ref() != Some(&request.id) {
            self.discard_typed().await;
            self.shown = Some(request.id.clone());
        }
        loop {
            self.printer.prompt("> ");
            let typing = self
                .typing
                .get_or_insert_with(|| tokio::task::spawn_blocking(read_line));
            let line = tokio::select! {
                biased;
                Ok(_) = stop.wait_for(|stop| *stop) => {
                    self.printer.note("");
                    return Ok(QuestionOutcome::Stopped);
                }
                attended = run.wait_for_input() => {
                    attended?;
                    self.printer.note("\nthe team continues with what came from elsewhere");
                    return Ok(QuestionOutcome::Superseded);
                }
                () = wait_for_expiry(request) => {
                    self.printer.note("\nthe time to answer is over");
                    return Ok(QuestionOutcome::Superseded);
                }
                line = typing => line,
            };
            self.typing = None;
            let line = match line.map_err(std::io::Error::other).flatten() {
                Ok(line) if line.is_empty() => {
                    self.printer.note("");
                    return Ok(QuestionOutcome::InputEnded);
                }
                Ok(line) => line,
                Err(error) => {
                    self.printer.warn(format_args!(
                        "nothing more is asked: the terminal cannot be read: {error}"
                    ));
                    return Ok(QuestionOutcome::InputEnded);
                }
            };
            let Ok(line) = String::from_utf8(line) else {
                self.printer.note("this is not valid UTF-8");
                continue;
            };
            if line.trim().is_empty() {
                return Ok(QuestionOutcome::LeftOpen);
            }
            let (text, choice) = resolve_choice(request, line.trim());
            if let Some(choice) = choice {
                self.printer
                    .note(format_args!("  the answer is `{}`", sanitize_line(choice)));
            }
            let reply = HumanReply::from_user(request.id.clone(), text);
            match run.answer(&[reply]) {
                Ok(_) => return Ok(QuestionOutcome::Answered),
                Err(ReplyError::Refused(why)) => self.printer.note(why),
                Err(ReplyError::Driver(error)) => return Err(error.into()),
            }
        }
    }
}

fn show_request(request: &RequestView, printer: &Printer) {
    printer.note(format_args!(
        "\n{} asks ({}):",
        describe_asker(request),
        request.id
    ));
    for line in sanitize(&request.question).lines() {
        printer.note(format_args!("  {line}"));
    }
    if let Some(arguments) = describe_arguments(request) {
        printer.note(format_args!("  {arguments}"));
    }
    for line in describe_said(request) {
        printer.note(format_args!("  {line}"));
    }
    for (number, choice) in request.choices.iter().enumerate() {
        printer.note(format_args!("  {}) {}", number + 1, sanitize_line(choice)));
    }
    for line in how_to_choose(request)
        .into_iter()
        .chain(other_terms(request))
    {
        printer.note(format_args!("  ({line})"));
    }
}

/// Says how to choose at the prompt, where there are choices. If a choice is the number that is shown beside another
/// one, it says that only the shown number counts.
fn how_to_choose(request: &RequestView) -> Option<String> {
    let count = request.choices.len();
    let is_number_of_another = |(at, choice): (usize, &String)| {
        choice
            .trim()
            .parse::<usize>()
            .is_ok_and(|number| number != at + 1 && (1..=count).contains(&number))
    };
    if count == 0 {
        None
    } else if request.choices.iter().enumerate().any(is_number_of_another) {
        Some(format!(
            "type the number before the `)`, 1 to {count}: it always selects the choice behind it, also where another \
             choice is that number"
        ))
    } else {
        Some("type the number of a choice, or the choice itself".into())
    }
}

/// Reads a line; it is empty at the end of the input.
fn read_line() -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    std::io::stdin()
        .lock()
        .read_until(b'\n', &mut line)
        .map(|_| line)
}

/// Waits until the request has expired.
async fn wait_for_expiry(request: &RequestView) {
    match request.expires_ms {
        None => std::future::pending().await,
        // The clock is polled, since it may be set or stand still while the machine sleeps.
        Some(_) => {
            while !request.is_expired(now_ms()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Returns the answer for a line, and the choice if the line is the number of one. The number shown
/// next to a choice always selects that choice, even if choices are numbers themselves.
fn resolve_choice<'a>(request: &'a RequestView, line: &str) -> (String, Option<&'a str>) {
    let by_number = line
        .parse::<usize>()
        .ok()
        .and_then(|number| request.choices.get(number.checked_sub(1)?));
    match by_number {
        Some(choice) => (
            serde_json::Value::from(choice.as_str()).to_string(),
            Some(choice),
        ),
        None => (line.into(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(choices: &[&str]) -> RequestView {
        RequestView {
            id: "ask-0-0-0-0".into(),
            role: "A".into(),
            index: Some(0),
            action: "One".into(),
            question: "which?".into(),
            arguments: None,
            said: None,
            schema: None,
            fields: Vec::new(),
            choices: choices.iter().map(|&choice| choice.to_owned()).collect(),
            default: None,
            expires_ms: None,
        }
    }

    #[test]
    fn a_number_that_is_shown_selects_the_choice_beside_it() {
        let check = |choices: &[&str], line: &str, expected: &str| {
            let request = request(choices);
            assert_eq!(
                resolve_choice(&request, line).0,
                expected,
                "{line} of {choices:?}"
            );
        };
        check(&["yes", "no"], "2", "\"no\"");
        check(&["yes", "no"], "yes", "yes");
        check(&["yes", "no"], "3", "3");
        check(&["yes", "no"], "0", "0");
        check(&["2", "1"], "1", "\"2\"");
        check(&["2", "1"], "2", "\"1\"");
        // 20 is not the number of a choice, so it is the choice itself.
        check(&["10", "20"], "20", "20");
        check(&[], "1", "1");
    }

    #[test]
    fn what_is_said_about_choosing_leaves_no_doubt_what_a_number_selects() {
        let check = |choices: &[&str], expected: Option<&str>| {
            let text = how_to_choose(&request(choices));
            assert_eq!(text.is_some(), expected.is_some(), "{choices:?}");
            let text = text.unwrap_or_default();
            assert!(text.contains(expected.unwrap_or_default()), "{text}");
        };
        let (either, number_only) = ("or the choice itself", "1 to 3: it always selects");
        check(&["yes", "no"], Some(either));
        check(&["1", "2", "3"], Some(either));
        check(&["10", "20"], Some(either));
        check(&["3", "1", "2"], Some(number_only));
        check(&["2", "yes", "no"], Some(number_only));
        check(&[], None);
    }
}
