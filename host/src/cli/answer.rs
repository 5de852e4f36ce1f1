//! `answer`: records answers to requests to humans.

use super::edits::look_for_edits;
use super::requests::answer_of;
use super::{AnswerArgs, Failure, note, path_word};
use crate::launch::{Taker, answer as record};

pub(super) fn answer(args: &AnswerArgs) -> Result<u8, Failure> {
    let given = args
        .answers
        .iter()
        .map(|text| answer_of(text))
        .collect::<Result<Vec<_>, _>>()?;
    look_for_edits(&args.path);
    let taken = record(&args.path, &given)?;
    for answered in &taken.answers {
        note(format_args!(
            "request {} of {} is answered",
            answered.request, answered.role
        ));
    }
    if taken.taker == Taker::Saved {
        let path = path_word(&args.path);
        note(format_args!(
            "if the team is not running, resume it with:\n  strata-host run --recover_path {path}"
        ));
    }
    Ok(0)
}
