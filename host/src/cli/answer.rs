//! `answer`: records answers for what people were asked.

use super::requests::answer_of;
use super::{AnswerArgs, Failure, note, shell_word};
use crate::launch::answer as record;
use crate::narrator::Line;

pub(super) fn answer(args: &AnswerArgs) -> Result<u8, Failure> {
    let given = args.answers.iter().map(|text| answer_of(text)).collect::<Result<Vec<_>, _>>()?;
    let tell = |line: &Line| {
        if line.kind == "request-answered" {
            note(format_args!("request {} of {} is answered", line.text("request"), line.text("role")));
        }
    };
    record(&args.path, &given, Box::new(tell))?;
    let path = shell_word(&args.path.to_string_lossy());
    note(format_args!("go on with:\n  strata-host run --recover_path {path}"));
    Ok(0)
}
