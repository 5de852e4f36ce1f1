//! Tests of what processes may spend of the caps that they share.

use tokio::sync::Notify;

use super::memory::MemoryCap;
use super::*;

/// Charges a call, for which it draws if necessary. `None` if the cap does not allow it.
async fn charge(caps: &RunCaps, usd: Usd) -> Option<CapCharge> {
    loop {
        match caps.charge(usd) {
            CapAdmission::Charged(charge) => return Some(charge),
            CapAdmission::Blocked => return None,
            CapAdmission::Short => {
                if caps.draw(usd).await.is_some() {
                    return None;
                }
            }
        }
    }
}

#[test]
fn a_scope_has_a_name_and_a_run_belongs_to_one_besides_all() {
    let named = |name: &str| Ok(CapScope::Named(name.into()));
    assert_eq!(CapScope::parse("all"), Ok(CapScope::All));
    assert_eq!(
        CapScope::parse("tenant-7.eu_west"),
        named("tenant-7.eu_west")
    );
    for wrong in ["", "two words", "a/b", "ä", &"x".repeat(101)] {
        assert!(CapScope::parse(wrong).is_err(), "{wrong}");
    }
    assert!(CapScope::parse_named("all").is_err());
    assert_eq!(CapScope::parse_named("other"), named("other"));
}

#[tokio::test]
async fn processes_that_share_a_cap_never_exceed_it() {
    let cap = MemoryCap::new(Usd(100));
    let processes = [cap.accounts(), cap.accounts()];
    let runs = [0, 0, 1].map(|n: usize| processes[n].join(None));
    let (mut spent, mut refused) = (0, 0);
    for n in 0..60 {
        match charge(&runs[n % runs.len()], Usd(5)).await {
            Some(mut charge) => {
                charge.note_sent();
                spent += 3;
                charge.complete(Usd(3));
            }
            None => refused += 1,
        }
        assert!(spent <= 100 && cap.used() <= 100, "{spent}");
    }
    assert!(spent > 90 && refused > 0, "{spent}, {refused}");
    for run in &runs {
        run.leave();
    }
    assert_eq!(cap.used(), spent);
}

#[tokio::test]
async fn an_answer_that_was_lost_counts_in_full_and_a_call_that_was_not_sent_does_not_count() {
    let cap = MemoryCap::new(Usd(100));
    let run = cap.accounts().join(None);
    let mut lost = charge(&run, Usd(20)).await.unwrap();
    lost.note_sent();
    drop(lost);
    drop(charge(&run, Usd(30)).await);
    run.leave();
    assert_eq!(cap.used(), 20);
}

#[tokio::test]
async fn a_cap_that_is_used_up_is_named_and_one_that_does_not_exist_limits_nothing() {
    let cap = MemoryCap::new(Usd(10));
    let run = cap.accounts().join(CapScope::parse("tenant").ok());
    let charged = charge(&run, Usd(8)).await.unwrap();
    assert!(charge(&run, Usd(8)).await.is_none(), "a call is under way");
    charged.complete(Usd(8));
    assert!(matches!(run.charge(Usd(8)), CapAdmission::Short));
    let reached = CapReached {
        scope: "all".into(),
        cap: Usd(10),
    };
    assert_eq!(run.draw(Usd(8)).await, Some(reached));
    let free = matches!(run.charge(Usd::ZERO), CapAdmission::Charged(_));
    assert!(free, "what costs nothing is not limited");
    let unlimited = RunCaps::default();
    assert!(charge(&unlimited, Usd(u64::MAX)).await.is_some());
}

#[tokio::test]
async fn one_process_learns_with_its_heartbeat_that_a_cap_exists() {
    let cap = MemoryCap::new(Usd(10));
    let all = cap.accounts();
    let run = all.join(None);
    all.note_heartbeat(all.report(), &BTreeMap::new());
    assert!(charge(&run, Usd(1_000)).await.is_some());
    all.note_heartbeat(all.report(), &[(CapScope::All, 1)].into());
    assert!(charge(&run, Usd(1_000)).await.is_none());
    run.leave();
}

#[tokio::test]
async fn what_is_known_of_the_cap_of_all_runs_is_kept_and_that_of_a_scope_without_runs_is_not() {
    let all = MemoryCap::new(Usd(10)).accounts();
    let tenant = CapScope::Named("tenant".into());
    let run = all.join(Some(tenant.clone()));
    assert_eq!(all.report().scopes, [CapScope::All, tenant]);
    all.note_heartbeat(all.report(), &BTreeMap::new());
    run.leave();
    assert_eq!(all.report().scopes, [CapScope::All]);
    let next = all.join(None);
    assert!(matches!(next.charge(Usd(1_000)), CapAdmission::Charged(_)));
}

#[tokio::test]
async fn what_could_not_be_given_back_is_given_back_with_the_next_heartbeat() {
    let cap = MemoryCap::new(Usd(100));
    let all = cap.accounts();
    let run = all.join(None);
    charge(&run, Usd(20)).await.unwrap().complete(Usd(5));
    cap.take_nothing_back(true);
    run.leave();
    assert_eq!(cap.used(), 20);
    cap.take_nothing_back(false);
    for _ in 0..2 {
        all.note_heartbeat(all.report(), &[(CapScope::All, 1)].into());
        assert_eq!(cap.used(), 5);
    }
}

#[tokio::test]
async fn a_heartbeat_says_what_was_drawn_unless_a_draw_is_under_way() {
    let all = MemoryCap::new(Usd(100)).accounts();
    let run = all.join(None);
    let charged = charge(&run, Usd(20)).await;
    assert_eq!(all.report().drawn, [Some(20)]);
    let asking = all.asking.lock().await;
    assert_eq!(all.report().drawn, [None]);
    drop((asking, charged));
}

/// A store that answers a draw only when it is told to.
struct SlowStore(Arc<Notify>);

impl CapStore for SlowStore {
    fn draw(&self, _: &CapScope, usd: Usd) -> BoxFuture<'static, Result<CapDraw, StoreError>> {
        let answers = Arc::clone(&self.0);
        Box::pin(async move {
            answers.notified().await;
            Ok(CapDraw::Drawn { usd, generation: 1 })
        })
    }

    fn give_back(&self, _: &CapScope, _: CapReturn) -> BoxFuture<'static, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        drop(tokio::spawn(work));
    }
}

#[tokio::test]
async fn a_draw_that_takes_long_blocks_the_call_and_serves_a_later_one() {
    let answers = Arc::new(Notify::new());
    let store = SlowStore(Arc::clone(&answers));
    let all = Arc::new(CapAccounts::new(Box::new(store)));
    let run = all.join(None);
    assert_eq!(run.draw(Usd(5)).await, None);
    assert!(matches!(run.charge(Usd(5)), CapAdmission::Blocked));
    answers.notify_one();
    // The draw is over when another one could begin.
    drop(all.asking.lock().await);
    assert!(matches!(run.charge(Usd(5)), CapAdmission::Charged(_)));
}
