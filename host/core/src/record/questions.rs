//! Which question each request asked. The id of a request is derived from where in the run it is
//! made, and another question may be asked there later: by a further attempt, by another component,
//! or after a return to an earlier checkpoint. An id must belong to one question, because a human
//! who answers names only the id.

use alloc::collections::BTreeMap;
use alloc::format;

use serde::{Deserialize, Serialize};

use crate::record::human_request::QuestionDigest;
use crate::record::id::RequestId;

/// How many questions are remembered. Each takes about 50 bytes in every snapshot, and nobody
/// answers more.
const MAX_REMEMBERED: usize = 1000;
/// Precedes the number of a question that is not the first one with its id.
const NUMBER_PREFIX: &str = "-r";

/// The questions that were asked in a run, in all its lineages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedQuestions {
    /// The questions by the ids of their requests, by the steps in these ids.
    pub steps: BTreeMap<u64, BTreeMap<RequestId, QuestionDigest>>,
    /// How many questions were added, including those that are not remembered.
    pub count: u64,
    /// Questions of earlier steps may have been asked that are not remembered.
    pub complete_from: u64,
}

impl AskedQuestions {
    /// Returns the id for a request with a question, which `first` is if no other question was
    /// asked under it. `step` is the step in the id.
    pub(crate) fn id_for(
        &self,
        step: u64,
        first: RequestId,
        question: QuestionDigest,
    ) -> RequestId {
        let known = self.steps.get(&step);
        let mut same_place = 0;
        for (id, known_question) in known.into_iter().flat_map(|ids| ids.range(first.clone()..)) {
            if !id.0.starts_with(&first.0) {
                break;
            }
            if first_id(id) != first.0 {
                continue;
            }
            if *known_question == question {
                return id.clone();
            }
            same_place += 1;
        }
        let number = if step < self.complete_from {
            // No id that is not remembered has this number.
            self.count
        } else {
            same_place
        };
        match number {
            0 => first,
            number => RequestId(format!("{}{NUMBER_PREFIX}{number}", first.0)),
        }
    }

    /// Adds the question of a request. `step` is the step in its id.
    pub fn add(&mut self, step: u64, id: RequestId, question: QuestionDigest) {
        let known = self.steps.entry(step).or_default();
        if known.insert(id, question) != Some(question) {
            self.count = self.count.saturating_add(1);
        }
        self.forget_excess();
    }

    /// Adds the questions that another lineage asked.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (step, questions) in &other.steps {
            let known = self.steps.entry(*step).or_default();
            known.extend(
                questions
                    .iter()
                    .map(|(id, question)| (id.clone(), *question)),
            );
        }
        self.count = self.count.max(other.count);
        self.complete_from = self.complete_from.max(other.complete_from);
        self.forget_excess();
    }

    /// Returns whether a request with this id is remembered.
    pub fn contains(&self, id: &str) -> bool {
        let id = RequestId::from(id);
        self.steps
            .values()
            .any(|questions| questions.contains_key(&id))
    }

    /// Forgets the questions of the oldest steps if there are too many.
    fn forget_excess(&mut self) {
        let mut excess = self.steps.values().map(BTreeMap::len).sum::<usize>();
        while excess > MAX_REMEMBERED {
            let Some((step, questions)) = self.steps.pop_first() else {
                return;
            };
            excess -= questions.len();
            self.complete_from = self.complete_from.max(step.saturating_add(1));
        }
    }
}

/// Returns the id that the first question asked in the place of a request has.
pub fn first_id(id: &RequestId) -> &str {
    match id.0.rsplit_once(NUMBER_PREFIX) {
        Some((first, number)) if number.bytes().all(|digit| digit.is_ascii_digit()) => first,
        _ => &id.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(number: usize) -> QuestionDigest {
        let mut bytes = [0; QuestionDigest::BYTES];
        bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
        QuestionDigest::from_bytes(bytes)
    }

    /// Asks a question, and returns the id of the request.
    fn ask(questions: &mut AskedQuestions, step: u64, number: usize) -> RequestId {
        let first = RequestId(format!("ask-{step}-0-0-0"));
        let id = questions.id_for(step, first, question(number));
        questions.add(step, id.clone(), question(number));
        id
    }

    #[test]
    fn each_question_of_a_place_has_one_id() {
        let mut questions = AskedQuestions::default();
        let ids = [7, 8, 7, 9, 8].map(|number| ask(&mut questions, 1, number).0);
        assert_eq!(
            ids,
            [
                "ask-1-0-0-0",
                "ask-1-0-0-0-r1",
                "ask-1-0-0-0",
                "ask-1-0-0-0-r2",
                "ask-1-0-0-0-r1"
            ]
        );
        let longer = RequestId::from("ask-1-0-0-0-0");
        assert_eq!(questions.id_for(1, longer.clone(), question(1)), longer);
        assert_eq!(questions.count, 3);
    }

    #[test]
    fn an_id_is_not_used_again_when_its_question_is_forgotten() {
        let mut questions = AskedQuestions::default();
        ask(&mut questions, 0, 0);
        for number in 0..MAX_REMEMBERED {
            ask(&mut questions, 1, number);
        }
        assert_eq!(questions.complete_from, 1);
        let unknown = ask(&mut questions, 0, 1);
        assert_eq!(unknown.0, format!("ask-0-0-0-0-r{}", MAX_REMEMBERED + 1));
        // A single step with too many questions is forgotten as a whole.
        for number in 0..=MAX_REMEMBERED {
            ask(&mut questions, 2, number);
        }
        assert!(questions.steps.values().map(BTreeMap::len).sum::<usize>() <= MAX_REMEMBERED);
        let count = questions.count;
        assert_eq!(ask(&mut questions, 2, 0).0, format!("ask-2-0-0-0-r{count}"));
    }

    #[test]
    fn a_lineage_knows_the_questions_of_another() {
        let (mut one, mut other) = (AskedQuestions::default(), AskedQuestions::default());
        ask(&mut one, 0, 1);
        ask(&mut other, 0, 1);
        ask(&mut one, 0, 2);
        other.merge(&one);
        assert_eq!(ask(&mut other, 0, 2).0, "ask-0-0-0-0-r1");
        assert_eq!(ask(&mut other, 0, 3).0, "ask-0-0-0-0-r2");
        assert!(other.contains("ask-0-0-0-0-r1") && !one.contains("ask-0-0-0-0-r2"));
    }
}
