//! `answer`: records answers to requests to humans.

use serde_json::json;
use strata_host::launch::{AnswerRecipient, answer as record};

use super::edit_notices::warn_if_edited;
use super::missing_worker::note_missing_worker;
use super::requests::parse_answer;
use super::{AnswerArgs, CommandFailure, Printer, shell_path};

pub(super) fn answer(args: &AnswerArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let replies = args
        .answers
        .iter()
        .map(|text| parse_answer(text))
        .collect::<Result<Vec<_>, _>>()?;
    warn_if_edited(&args.path, printer);
    let accepted = record(&args.path, &replies)?;
    if args.json {
        for answered in &accepted.answers {
            printer.print_json_line(&json!({
                "request": answered.request, "role": answered.role,
                "place": args.path.operand().to_string_lossy(),
            }))?;
        }
        return Ok(0);
    }
    for answered in &accepted.answers {
        printer.note(format_args!(
            "request {} of {} is answered",
            answered.request, answered.role
        ));
    }
    let state = args.path.submission_state()?;
    if state.is_some_and(|state| state.schedule.is_some()) {
        note_missing_worker(&args.path, printer);
    } else if accepted.recipient == AnswerRecipient::Storage {
        let path = shell_path(args.path.path());
        printer.note(format_args!(
            "if the team is not running, resume it with:\n  strata-host run --recover_path {path}"
        ));
    }
    Ok(0)
}
