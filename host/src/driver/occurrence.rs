//! Equal requests of one attempt, told apart by which of them each is. They may be under way together, and their answers
//! come in any order: each has a name of its own in the record, and so has what is held back for it, and its key if it is
//! a write.

use std::collections::BTreeMap;

use strata_core::event::{HostCall, HostCallKind, Outcome};

/// What stands between the digest of a request and which of its equals it is.
const NTH: char = '#';

/// What the `nth` request with a digest is called in the record. The first has the digest alone.
fn name(digest: &str, nth: u32) -> String {
    if nth == 0 {
        digest.to_owned()
    } else {
        format!("{digest}{NTH}{nth}")
    }
}

/// Which of the requests with a digest has this name, if one has.
pub(super) fn number(name: &str, digest: &str) -> Option<u32> {
    match name.strip_prefix(digest)? {
        "" => Some(0),
        rest => rest.strip_prefix(NTH)?.parse().ok(),
    }
}

/// Whether a recorded call can be served again. One whose answer was lost has another record once that is settled.
pub(super) fn is_answered(call: &HostCall) -> bool {
    call.outcome == Outcome::Answered
}

/// The requests that an attempt has made: by their digest, the number of the next. It only grows, so that no two of one
/// attempt have one name.
#[derive(Default)]
pub(super) struct Occurrences {
    next: BTreeMap<String, u32>,
}

/// A request that is made now.
pub(super) struct Occurrence {
    /// Which of its equals it is.
    pub nth: u32,
    /// What it is called in the record.
    pub name: String,
    /// The record that answers it.
    pub recorded: Option<HostCall>,
}

impl Occurrences {
    /// Numbers a request, and takes the record that answers it out of what earlier attempts have left.
    pub(super) fn next(
        &mut self,
        (kind, digest): (HostCallKind, &str),
        is_write: bool,
        left: &mut Vec<HostCall>,
    ) -> Occurrence {
        let next = self.next.entry(digest.to_owned()).or_default();
        let nth = *next;
        let own = name(digest, nth);
        let place = |name: &str| {
            left.iter()
                .position(|call| call.kind == kind && call.request == name && is_answered(call))
        };
        // Equal requests were not told apart from the beginning: all were called by the digest.
        let mut found = place(&own).or_else(|| place(digest)).map(|at| (nth, at));
        if found.is_none() && is_over(left, (kind, &own), is_write) {
            // The guest tried it again then, and the answer it got is the answer to this.
            let rest = left
                .iter()
                .enumerate()
                .filter(|(_, call)| call.kind == kind && is_answered(call));
            found = rest
                .filter_map(|(at, call)| Some((number(&call.request, digest)?, at)))
                .min();
        }
        let (taken, at) = found.unzip();
        *next = taken.unwrap_or(nth).max(nth).saturating_add(1);
        let recorded = at.map(|at| HostCall {
            request: own.clone(),
            ..left.remove(at)
        });
        Occurrence {
            nth,
            name: own,
            recorded,
        }
    }
}

/// Whether a call failed, and is not still to be heard of: a write of which it is not known whether it took effect is
/// made again under its own name.
fn is_over(left: &[HostCall], (kind, name): (HostCallKind, &str), is_write: bool) -> bool {
    let mut own = left
        .iter()
        .filter(|call| call.kind == kind && call.request == name)
        .peekable();
    own.peek().is_some() && own.all(|call| call.outcome == Outcome::Failed || !is_write)
}

#[cfg(test)]
mod tests {
    use strata_core::json::Json;
    use strata_core::money::Usd;

    use super::*;

    const KIND: HostCallKind = HostCallKind::Http;

    /// A call of an earlier attempt, by its name, with what came of it.
    fn call((name, outcome, answer): &(&str, Outcome, &str)) -> HostCall {
        let response = Json::from(serde_json::json!(answer));
        let (request, cost, outcome) = ((*name).to_owned(), Usd::ZERO, *outcome);
        HostCall {
            kind: KIND,
            request,
            response,
            cost,
            tokens: 0,
            outcome,
            finish: None,
        }
    }

    /// What requests with the digest `d` are called, and are served, one after the other.
    fn check(is_write: bool, left: &[(&str, Outcome, &str)], expected: &[(&str, Option<&str>)]) {
        let mut left: Vec<HostCall> = left.iter().map(call).collect();
        let mut made = Occurrences::default();
        for (name, served) in expected {
            let next = made.next((KIND, "d"), is_write, &mut left);
            let answer = next
                .recorded
                .map(|call| call.response.value().as_str().unwrap().to_owned());
            assert_eq!((next.name.as_str(), answer.as_deref()), (*name, *served));
        }
    }

    #[test]
    fn each_is_served_what_it_was_answered_in_whatever_order_the_answers_came() {
        use Outcome::Answered;
        let both = [("d#1", Answered, "two"), ("d", Answered, "one")];
        check(
            true,
            &both,
            &[("d", Some("one")), ("d#1", Some("two")), ("d#2", None)],
        );
        check(true, &both[..1], &[("d", None), ("d#1", Some("two"))]);
        check(false, &both[..1], &[("d", None), ("d#1", Some("two"))]);
    }

    #[test]
    fn what_was_recorded_under_the_digest_alone_is_served_in_order() {
        use Outcome::Answered;
        let old = [("d", Answered, "one"), ("d", Answered, "two")];
        check(
            true,
            &old,
            &[("d", Some("one")), ("d#1", Some("two")), ("d#2", None)],
        );
    }

    #[test]
    fn one_that_failed_and_was_tried_again_is_served_what_that_brought() {
        use Outcome::{Answered, Failed, Unknown};
        let again = |first| {
            [
                ("d", first, "no"),
                ("d#1", Failed, "no"),
                ("d#2", Answered, "yes"),
            ]
        };
        check(
            true,
            &again(Failed),
            &[("d", Some("yes")), ("d#3", None), ("d#4", None)],
        );
        check(false, &again(Unknown), &[("d", Some("yes")), ("d#3", None)]);
        // It may have taken effect: it is made again, under its own key.
        check(true, &again(Unknown), &[("d", None), ("d#1", Some("yes"))]);
    }

    #[test]
    fn what_was_made_behind_such_an_answer_is_served_behind_it_again() {
        use Outcome::{Answered, Failed};
        let first = [
            ("d", Failed, "no"),
            ("d#1", Failed, "no"),
            ("d#2", Answered, "yes"),
        ];
        // The attempt after that was served one, and made two more, whose answers came in this order.
        let second = [
            &first[..],
            &[("d#4", Answered, "Y"), ("d#3", Answered, "X")],
        ]
        .concat();
        check(
            true,
            &second,
            &[
                ("d", Some("yes")),
                ("d#3", Some("X")),
                ("d#4", Some("Y")),
                ("d#5", None),
            ],
        );
    }

    #[test]
    fn other_kinds_and_other_requests_are_left_alone() {
        use Outcome::Answered;
        check(
            false,
            &[("e", Answered, "e"), ("d2", Answered, "d2")],
            &[("d", None)],
        );
        let mut left = vec![call(&("d", Answered, "web"))];
        let next = Occurrences::default().next((HostCallKind::Llm, "d"), false, &mut left);
        assert!(next.recorded.is_none() && left.len() == 1);
        assert_eq!(
            ["d", "d#12", "de", "d#e"].map(|name| number(name, "d")),
            [Some(0), Some(12), None, None]
        );
    }
}
