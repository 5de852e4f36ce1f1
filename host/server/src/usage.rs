//! How much may be under way at once: requests and streams of each token, and streams of the process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::caller::Caller;
use crate::problem::Problem;

/// How many requests and how many streams of one token may be under way.
const MAX_REQUESTS: usize = 64;
const MAX_STREAMS: usize = 32;
/// How many streams of the process may be open.
const MAX_ALL_STREAMS: usize = 1000;

/// Counts what is under way.
#[derive(Debug, Default)]
pub struct Usage {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    tokens: BTreeMap<TokenKey, TokenCounts>,
    streams: usize,
}

/// Tells tokens apart: the tenant and the name.
type TokenKey = (Option<String>, String);

#[derive(Clone, Copy, Debug, Default)]
struct TokenCounts {
    requests: usize,
    streams: usize,
}

/// Counts as one request or stream until it is dropped.
#[derive(Debug)]
pub struct UsagePermit {
    usage: Arc<Usage>,
    token: TokenKey,
    kind: PermitKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PermitKind {
    Request,
    Stream,
}

impl Usage {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many requests and how many streams are under way.
    pub fn totals(&self) -> (usize, usize) {
        let counts = self.lock();
        let requests = counts.tokens.values().map(|count| count.requests).sum();
        (requests, counts.streams)
    }

    /// Begins a request of a token. Fails if too many are under way.
    pub fn begin_request(self: &Arc<Self>, caller: &Caller) -> Result<UsagePermit, Problem> {
        let token = (caller.tenant.clone(), caller.name.clone());
        let mut counts = self.lock();
        let count = counts.tokens.entry(token.clone()).or_default();
        if count.requests >= MAX_REQUESTS {
            return Err(Problem::too_many(format!(
                "at most {MAX_REQUESTS} requests of a token are carried out at once"
            )));
        }
        count.requests += 1;
        Ok(UsagePermit {
            usage: Arc::clone(self),
            token,
            kind: PermitKind::Request,
        })
    }

    /// Begins a stream of a token. Fails if too many are open.
    pub fn begin_stream(self: &Arc<Self>, caller: &Caller) -> Result<UsagePermit, Problem> {
        let token = (caller.tenant.clone(), caller.name.clone());
        let mut counts = self.lock();
        if counts.streams >= MAX_ALL_STREAMS {
            return Err(Problem::unavailable(format!(
                "at most {MAX_ALL_STREAMS} streams are open at once"
            )));
        }
        let count = counts.tokens.entry(token.clone()).or_default();
        if count.streams >= MAX_STREAMS {
            return Err(Problem::too_many(format!(
                "at most {MAX_STREAMS} streams of a token are open at once"
            )));
        }
        count.streams += 1;
        counts.streams += 1;
        Ok(UsagePermit {
            usage: Arc::clone(self),
            token,
            kind: PermitKind::Stream,
        })
    }
}

impl Drop for UsagePermit {
    fn drop(&mut self) {
        let mut counts = self.usage.lock();
        let Some(count) = counts.tokens.get_mut(&self.token) else {
            return;
        };
        match self.kind {
            PermitKind::Request => count.requests -= 1,
            PermitKind::Stream => count.streams -= 1,
        }
        if count.requests == 0 && count.streams == 0 {
            counts.tokens.remove(&self.token);
        }
        if self.kind == PermitKind::Stream {
            counts.streams -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_a_limited_number_of_requests_and_streams_and_so_has_the_process() {
        let usage = Arc::new(Usage::default());
        let caller = |n: usize| Caller {
            name: n.to_string(),
            tenant: None,
            rights: Vec::new(),
        };
        let one = caller(0);
        let begin = || usage.begin_request(&one);
        let requests: Vec<_> = (0..MAX_REQUESTS).map(|_| begin().unwrap()).collect();
        assert_eq!(begin().unwrap_err().status.as_u16(), 429);
        assert!(usage.begin_request(&caller(1)).is_ok(), "another token");
        let streams: Vec<_> = (0..MAX_STREAMS)
            .map(|_| usage.begin_stream(&one).unwrap())
            .collect();
        assert_eq!(usage.begin_stream(&one).unwrap_err().status.as_u16(), 429);
        drop(requests);
        assert!(begin().is_ok());
        drop(streams);
        let all: Vec<_> = (0..MAX_ALL_STREAMS)
            .map(|n| usage.begin_stream(&caller(n)).unwrap())
            .collect();
        assert_eq!(usage.begin_stream(&one).unwrap_err().status.as_u16(), 503);
        drop(all);
        assert!(usage.begin_stream(&one).is_ok());
        assert!(usage.lock().tokens.is_empty());
    }
}
