//! Numbers equal requests of one attempt. They may be in flight at the same time, and their answers
//! may arrive in any order, so each has a name of its own in the record. Reservations and the keys
//! of writes use this name too.

use std::collections::BTreeMap;

use strata_core::record::host_call::{CallOutcome, HostCall, HostCallKind};

/// Separates the digest of a request from its number.
const NUMBER_SEPARATOR: char = '#';

/// Returns the name in the record of the `nth` request with this digest. The first is named by the
/// digest alone.
fn request_name(digest: &str, nth: u32) -> String {
    if nth == 0 {
        digest.to_owned()
    } else {
        format!("{digest}{NUMBER_SEPARATOR}{nth}")
    }
}

/// Returns the number of the request with this name, if the name belongs to this digest.
pub fn request_number(name: &str, digest: &str) -> Option<u32> {
    match name.strip_prefix(digest)? {
        "" => Some(0),
        rest => rest.strip_prefix(NUMBER_SEPARATOR)?.parse().ok(),
    }
}

/// Returns whether a recorded call can be served again. A call whose answer was lost gets another
/// record once its outcome is known.
pub(super) fn is_answered(call: &HostCall) -> bool {
    call.outcome == CallOutcome::Answered
}

/// The next number for each digest among the requests of an attempt. Numbers only grow, so no two
/// requests of an attempt have the same name.
#[derive(Default)]
pub(super) struct RequestSequence {
    next: BTreeMap<String, u32>,
}

/// A request with its number.
pub(super) struct NumberedRequest {
    /// Its number among equal requests.
    pub number: u32,
    /// The name of the request in the record.
    pub name: String,
    /// The recorded call that answers it.
    pub recorded: Option<HostCall>,
}

impl RequestSequence {
    /// Numbers a request, and removes the record that answers it from `left`, the unserved records
    /// of earlier attempts.
    pub(super) fn number_next(
        &mut self,
        kind: HostCallKind,
        digest: &str,
        is_write: bool,
        left: &mut Vec<HostCall>,
    ) -> NumberedRequest {
        let next = self.next.entry(digest.to_owned()).or_default();
        let nth = *next;
        let own = request_name(digest, nth);
        let mut found = left
            .iter()
            .position(|call| call.kind == kind && call.request == own && is_answered(call))
            .map(|at| (nth, at));
        if found.is_none() && has_failed(left, kind, &own, is_write) {
            // The guest repeated the failed request then, and the answer to the repetition answers
            // this request.
            let rest = left
                .iter()
                .enumerate()
                .filter(|(_, call)| call.kind == kind && is_answered(call));
            found = rest
                .filter_map(|(at, call)| Some((request_number(&call.request, digest)?, at)))
                .min();
        }
        let (number, at) = found.unzip();
        *next = number.unwrap_or(nth).max(nth).saturating_add(1);
        let recorded = at.map(|at| HostCall {
            request: own.clone(),
            ..left.remove(at)
        });
        NumberedRequest {
            number: nth,
            name: own,
            recorded,
        }
    }
}

/// Returns whether the recorded call failed for good. A write with an unknown outcome is made again
/// under its own name instead.
fn has_failed(left: &[HostCall], kind: HostCallKind, name: &str, is_write: bool) -> bool {
    let mut own = left
        .iter()
        .filter(|call| call.kind == kind && call.request == name)
        .peekable();
    own.peek().is_some() && own.all(|call| call.outcome == CallOutcome::Failed || !is_write)
}

#[cfg(test)]
mod tests {
    use strata_core::record::json::Json;
    use strata_core::record::money::Usd;

    use super::*;

    const KIND: HostCallKind = HostCallKind::Http;

    /// Returns a call of an earlier attempt with this name and outcome.
    fn call(name: &str, outcome: CallOutcome, answer: &str) -> HostCall {
        HostCall {
            kind: KIND,
            request: name.to_owned(),
            response: Json::from(serde_json::json!(answer)),
            cost: Usd::ZERO,
            outcome,
            model: None,
        }
    }

    /// Checks the names of successive requests with the digest `d`, and the records that answer
    /// them.
    fn check(
        is_write: bool,
        left: &[(&str, CallOutcome, &str)],
        expected: &[(&str, Option<&str>)],
    ) {
        let mut left: Vec<HostCall> = left
            .iter()
            .map(|(name, outcome, answer)| call(name, *outcome, answer))
            .collect();
        let mut sequence = RequestSequence::default();
        for (name, served) in expected {
            let next = sequence.number_next(KIND, "d", is_write, &mut left);
            let answer = next
                .recorded
                .map(|call| call.response.value().as_str().unwrap().to_owned());
            assert_eq!((next.name.as_str(), answer.as_deref()), (*name, *served));
        }
    }

    #[test]
    fn each_is_served_what_it_was_answered_in_whatever_order_the_answers_came() {
        use CallOutcome::Answered;
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
    fn one_that_failed_and_was_tried_again_is_served_what_that_brought() {
        use CallOutcome::{Answered, Failed, Unknown};
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
        // The write may have taken effect: it is made again with its own key.
        check(true, &again(Unknown), &[("d", None), ("d#1", Some("yes"))]);
    }

    #[test]
    fn what_was_made_behind_such_an_answer_is_served_behind_it_again() {
        use CallOutcome::{Answered, Failed};
        let first = [
            ("d", Failed, "no"),
            ("d#1", Failed, "no"),
            ("d#2", Answered, "yes"),
        ];
        // The next attempt was served one answer and made two more calls, which were answered in
        // this order.
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
        use CallOutcome::Answered;
        check(
            false,
            &[("e", Answered, "e"), ("d2", Answered, "d2")],
            &[("d", None)],
        );
        let mut left = vec![call("d", Answered, "web")];
        let next = RequestSequence::default().number_next(HostCallKind::Llm, "d", false, &mut left);
        assert!(next.recorded.is_none() && left.len() == 1);
        assert_eq!(
            ["d", "d#12", "de", "d#e"].map(|name| request_number(name, "d")),
            [Some(0), Some(12), None, None]
        );
    }
}
