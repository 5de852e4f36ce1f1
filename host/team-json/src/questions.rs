//! The questions that people were asked, in `strata.questions`: a digest of the question of each
//! request, so that the id of one is never used for another.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use strata_core::record::human_request::QuestionDigest;
use strata_core::record::id::RequestId;
use strata_core::record::questions::AskedQuestions;

use super::located_value::{ImportResult, LocatedValue};

/// The format of the questions.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct QuestionsJson<'a> {
    /// The digests in hex, by the ids of the requests.
    digests: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    count: u64,
    complete_from: u64,
}

/// Returns the questions, if there were any.
pub(super) fn write(questions: &AskedQuestions) -> Option<QuestionsJson<'_>> {
    if *questions == AskedQuestions::default() {
        return None;
    }
    let digests = questions.steps.values().flatten();
    Some(QuestionsJson {
        digests: digests
            .map(|(id, question)| (Cow::Borrowed(&*id.0), Cow::Owned(question.to_hex())))
            .collect(),
        count: questions.count,
        complete_from: questions.complete_from,
    })
}

/// Reads the questions. An id without a step is no id of a request, and is left out.
pub(super) fn read(
    saved: Option<QuestionsJson<'_>>,
    place: &LocatedValue<'_>,
) -> ImportResult<AskedQuestions> {
    let saved = saved.unwrap_or_default();
    let mut questions = AskedQuestions::default();
    for (id, digest) in saved.digests {
        let Some(question) = QuestionDigest::from_hex(&digest) else {
            let digests = place.child("digests");
            let place = digests.child(&id);
            return Err(place.invalid("is not the digest of a question in hexadecimal digits"));
        };
        if let Some(step) = step_in(&id) {
            questions.add(step, RequestId::from(&*id), question);
        }
    }
    questions.count = questions.count.max(saved.count);
    questions.complete_from = questions.complete_from.max(saved.complete_from);
    Ok(questions)
}

/// Returns the step in the id of a request.
fn step_in(id: &str) -> Option<u64> {
    id.strip_prefix("ask-")?.split('-').next()?.parse().ok()
}
