//! Requests to the owner of a run in a database: each becomes events once, whichever process dies.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use strata_base::owner::{ReplyStatus, RunOperation, RunReply, RunRequest};
use strata_postgres::Database;
use strata_postgres::{DatabaseMailbox, receive_requests, request_owner, send_request, tamper};

use super::{DatabaseStorage, TestStorage, fresh};
use crate::tests::script::pseudorandom;
use crate::tests::script::scripted_run;
use crate::{Append, Durability, IncomingRequest, Lease, MailReply, RequestOutcome, StoreError};

/// How long a request is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// An owner who takes requests up and does not answer them.
struct SilentOwner {
    requests: Receiver<IncomingRequest>,
    _mailbox: DatabaseMailbox,
}

impl SilentOwner {
    fn of(url: &Database, lease: &dyn Lease) -> Self {
        let (tell, requests) = channel();
        let handler = move |request| -> futures_util::future::BoxFuture<'static, RunReply> {
            tell.send(request).unwrap();
            Box::pin(std::future::pending())
        };
        Self {
            requests,
            _mailbox: receive_requests(url, lease.epoch(), Arc::new(handler)).unwrap(),
        }
    }

    fn next(&self) -> IncomingRequest {
        self.requests.recv_timeout(PATIENCE).unwrap()
    }
}

fn request(body: &str) -> RunRequest {
    RunRequest {
        operation: RunOperation::Send,
        body: body.into(),
    }
}

fn done(body: &str) -> RunReply {
    RunReply {
        status: ReplyStatus::Done,
        body: body.into(),
    }
}

#[test]
fn a_request_becomes_events_once_whichever_owner_dies() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let (records, _) = scripted_run(&pseudorandom(40, 1000), 9);
    let url = storage.url.clone();
    let reply = send_request(&url, &request("one"));
    let first = SilentOwner::of(&url, storage.lease());
    let taken = first.next();
    assert_eq!(taken.request, request("one"));

    // Its owner counts as dead before the request has become anything.
    let mut owner = storage.take_over();
    let second = SilentOwner::of(&url, owner.as_ref());
    assert_eq!(second.next(), taken);
    let answer = |text: &str| {
        let id = taken.id.unwrap();
        let reply = done(text);
        [MailReply { id, reply }]
    };
    let append = |lease: &mut dyn Lease, replies: &[MailReply]| {
        let append = Append {
            replies,
            ..Append::new(&records, Durability::Full)
        };
        lease.begin_append(append).finish_blocking()
    };
    let refused = append(storage.lease(), &answer("late"));
    assert!(
        matches!(refused, Err(StoreError::Fenced { .. })),
        "{refused:?}"
    );
    assert_eq!(reply(), None);
    append(owner.as_mut(), &answer("done")).unwrap();
    assert_eq!(reply(), Some(done("done")));

    // Its owner dies after that, before it said so.
    let owner = storage.take_over();
    let third = SilentOwner::of(&url, owner.as_ref());
    let other = send_request(&url, &request("two"));
    assert_eq!(third.next().request, request("two"));
    assert_eq!(other(), None);
}

#[test]
fn a_request_that_a_database_takes_for_a_new_one_becomes_events_once() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let (records, _) = scripted_run(&pseudorandom(43, 1000), 12);
    let url = storage.url.clone();
    let reply = send_request(&url, &request("one"));
    let owner = SilentOwner::of(&url, storage.lease());
    let replies = [MailReply {
        id: owner.next().id.unwrap(),
        reply: done("done"),
    }];
    let append = Append {
        replies: &replies,
        ..Append::new(&records[..9], Durability::Full)
    };
    let appended = storage.lease().begin_append(append).finish_blocking();
    appended.unwrap();

    // The database goes back to before the request was taken up.
    tamper(&url, "DELETE FROM strata.event WHERE run = $1");
    tamper(
        &url,
        "UPDATE strata.mail SET epoch = NULL, reply = NULL WHERE run = $1",
    );
    drop(owner);
    let owner = SilentOwner::of(&url, storage.lease());
    let other = send_request(&url, &request("two"));
    assert_eq!(owner.next().request, request("two"));
    assert_eq!((reply(), other()), (None, None));
    storage.lease().ensure_stored().unwrap();
    assert_eq!((reply(), other()), (Some(done("done")), None));
    assert_eq!(storage.lease().records(0, 99).unwrap(), records[..9]);

    // The number of a request that was lost is given to another, which has not been answered.
    tamper(&url, "DELETE FROM strata.event WHERE run = $1");
    tamper(
        &url,
        "UPDATE strata.mail SET sent_at = sent_at + interval '1 s', reply = NULL WHERE run = $1",
    );
    let more = Append::new(&records[9..], Durability::Full);
    storage
        .lease()
        .begin_append(more)
        .finish_blocking()
        .unwrap();
    assert_eq!(reply(), None);
}

#[test]
fn a_request_to_an_owner_who_leaves_is_withdrawn() {
    let Some(mut storage) = DatabaseStorage::new(&fresh()) else {
        return;
    };
    let url = storage.url.clone();
    let owner = SilentOwner::of(&url, storage.lease());
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| request_owner(&url, &request("one")));
        assert_eq!(owner.next().request, request("one"));
        storage.lease = None;
        let outcome = asked.join().unwrap();
        assert!(matches!(outcome, RequestOutcome::Ended), "{outcome:?}");
    });
    storage.reopen();
    let next = SilentOwner::of(&url, storage.lease());
    let other = send_request(&url, &request("two"));
    assert_eq!(next.next().request, request("two"));
    assert_eq!(other(), None);
}
