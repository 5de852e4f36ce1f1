//! Answers that are given again as long as nothing changes. An answer is kept with everything that it follows from: the
//! operation, its path and its query, who asks, and the revision of the databases. So nobody gets what somebody else may
//! see, and no answer is older than what was stored when it was asked for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use strata_host::storage::DatabaseRevisions;

use crate::caller::Caller;
use crate::query::Query;

/// How many bytes are kept at most, and of one answer.
const MAX_BYTES: usize = 16 << 20;
const MAX_ANSWER_BYTES: usize = 1 << 20;
/// About how many bytes an answer takes besides its texts.
const ENTRY_BYTES: usize = 1 << 10;

/// What the answer to a request follows from besides the database.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AnswerKey {
    /// The id of the operation.
    pub operation: &'static str,
    /// The variable parts of its path.
    pub params: Vec<(String, String)>,
    /// Its query.
    pub query: Query,
    /// Who asks.
    pub caller: Caller,
}

impl AnswerKey {
    fn bytes(&self) -> usize {
        let params = self.params.iter();
        let params = params.map(|(name, value)| name.len() + value.len());
        let caller = &self.caller;
        let tenant = caller.tenant.as_ref().map_or(0, String::len);
        params.sum::<usize>() + self.query.bytes() + caller.name.len() + tenant
    }
}

/// An answer that was given.
#[derive(Clone, Debug)]
struct KeptAnswer {
    headers: HeaderMap,
    body: Bytes,
}

/// Answers of one revision.
#[derive(Debug, Default)]
struct RevisionAnswers {
    revision: u64,
    answers: HashMap<AnswerKey, KeptAnswer>,
    bytes: usize,
}

/// Answers that are given again as long as nothing changes.
#[derive(Debug, Default)]
pub struct KeptAnswers {
    /// `None` if it is not known when a database changes; then no answer is kept.
    revisions: Option<Vec<DatabaseRevisions>>,
    kept: Mutex<RevisionAnswers>,
}

impl KeptAnswers {
    /// Returns a store of answers that follow from the databases with these revisions.
    pub fn new(revisions: Option<Vec<DatabaseRevisions>>) -> Self {
        Self {
            revisions,
            kept: Mutex::default(),
        }
    }

    fn kept(&self) -> MutexGuard<'_, RevisionAnswers> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the revision of the databases together. It has to be asked for before the answer is made that is to be kept.
    pub fn revision(&self) -> Option<u64> {
        // As none of them falls, an equal sum means that each is the same.
        let revisions = self.revisions.as_ref()?.iter();
        revisions.map(DatabaseRevisions::current).sum()
    }

    /// Returns an answer that was kept at the revision at which the database is now.
    pub fn find(&self, key: &AnswerKey) -> Option<Response> {
        let revision = self.revision()?;
        let kept = self.kept();
        if kept.revision != revision {
            return None;
        }
        let answer = kept.answers.get(key)?.clone();
        drop(kept);
        let mut response = Body::from(answer.body).into_response();
        *response.headers_mut() = answer.headers;
        Some(response)
    }

    /// Keeps an answer that was made when the database had a revision, or later, and returns it.
    pub async fn keep(&self, key: AnswerKey, revision: u64, response: Response) -> Response {
        let length = response.body().size_hint().exact();
        let is_short = length.is_some_and(|length| length <= MAX_ANSWER_BYTES as u64);
        if !is_short || response.status() != StatusCode::OK {
            return response;
        }
        let (parts, body) = response.into_parts();
        let Ok(body) = axum::body::to_bytes(body, MAX_ANSWER_BYTES).await else {
            // A body whose length is known is in memory.
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let answer = KeptAnswer {
            headers: parts.headers.clone(),
            body: body.clone(),
        };
        self.kept().insert(key, revision, answer);
        Response::from_parts(parts, Body::from(body))
    }
}

impl RevisionAnswers {
    fn insert(&mut self, key: AnswerKey, revision: u64, answer: KeptAnswer) {
        if revision < self.revision {
            return;
        }
        let bytes = ENTRY_BYTES + key.bytes() + answer.body.len();
        if revision > self.revision || self.bytes + bytes > MAX_BYTES {
            *self = Self {
                revision,
                ..Self::default()
            };
        }
        if self.answers.insert(key, answer).is_none() {
            self.bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Right;

    fn key() -> AnswerKey {
        AnswerKey {
            operation: "listRuns",
            params: vec![("run".into(), "one".into())],
            query: Query::parse("limit=1"),
            caller: Caller {
                name: "ann".into(),
                tenant: Some("red".into()),
                rights: vec![Right::View],
            },
        }
    }

    fn answer(bytes: usize) -> KeptAnswer {
        KeptAnswer {
            headers: HeaderMap::new(),
            body: vec![b' '; bytes].into(),
        }
    }

    #[test]
    fn an_answer_is_given_only_to_the_same_request_of_the_same_caller() {
        let mut kept = RevisionAnswers::default();
        kept.insert(key(), 0, answer(1));
        let caller = || key().caller;
        let others = [
            AnswerKey {
                operation: "listRequests",
                ..key()
            },
            AnswerKey {
                params: vec![("run".into(), "two".into())],
                ..key()
            },
            AnswerKey {
                query: Query::parse("limit=2"),
                ..key()
            },
            AnswerKey {
                caller: Caller {
                    name: "bob".into(),
                    ..caller()
                },
                ..key()
            },
            AnswerKey {
                caller: Caller {
                    tenant: Some("blue".into()),
                    ..caller()
                },
                ..key()
            },
            AnswerKey {
                caller: Caller {
                    tenant: None,
                    ..caller()
                },
                ..key()
            },
            AnswerKey {
                caller: Caller {
                    rights: vec![Right::Submit],
                    ..caller()
                },
                ..key()
            },
        ];
        for other in &others {
            assert!(!kept.answers.contains_key(other), "{other:?}");
        }
        assert!(kept.answers.contains_key(&key()));
    }

    #[test]
    fn the_answers_of_an_earlier_revision_are_dropped_and_none_are_added_to_it() {
        let mut kept = RevisionAnswers::default();
        kept.insert(key(), 2, answer(1));
        let other = AnswerKey {
            operation: "getRun",
            ..key()
        };
        kept.insert(other.clone(), 4, answer(1));
        assert!(!kept.answers.contains_key(&key()));
        kept.insert(key(), 2, answer(1));
        assert!(!kept.answers.contains_key(&key()));
        assert!(kept.answers.contains_key(&other));
    }

    #[test]
    fn a_limited_number_of_bytes_is_kept() {
        let mut kept = RevisionAnswers::default();
        for n in 0..40_000 {
            let numbered = AnswerKey {
                query: Query::parse(&format!("after={n}")),
                ..key()
            };
            kept.insert(numbered, 0, answer(n % 50_000));
            let held: usize = kept.answers.values().map(|one| one.body.len()).sum();
            assert!(held + kept.answers.len() * ENTRY_BYTES <= MAX_BYTES);
        }
        let bytes = kept.bytes;
        kept.insert(key(), 0, answer(1));
        let once = kept.bytes;
        kept.insert(key(), 0, answer(1));
        assert!(once > bytes && kept.bytes == once);
    }
}
