//! Tests of the statements about caps. Without PostgreSQL, they are skipped.

use strata_records::caps::CapChange;
use strata_records::database_url::DatabaseUrl;

use super::*;
use crate::cap_settings::{change_cap, read_caps};
use crate::database::Database;
use crate::postgres_server::create_database;

/// A cap of all runs in a database of its own.
struct SharedCap {
    database: Database,
    connection: Connection,
}

impl SharedCap {
    /// Creates it. `None` if there is no server.
    fn new(name: &str, cap: u64) -> Option<Self> {
        let url = create_database(&format!("caps-{name}-{}", std::process::id()))?;
        let database = Database::at(DatabaseUrl::parse(&url).unwrap());
        assert!(change_cap(&database, &CapScope::All, CapChange::Set(Usd(cap))).unwrap());
        let connection = database.connect().unwrap();
        Some(Self {
            database,
            connection,
        })
    }

    fn change(&self, change: CapChange) {
        assert!(change_cap(&self.database, &CapScope::All, change).unwrap());
    }

    fn draw(&self, holder: &str, needed: u64) -> CapDraw {
        draw(&self.connection, holder, &CapScope::All, Usd(needed)).unwrap()
    }

    /// Draws what is there, and returns the generation of the cap.
    #[track_caller]
    fn draw_exactly(&self, holder: &str, needed: u64) -> i64 {
        match self.draw(holder, needed) {
            CapDraw::Drawn { usd, generation } if usd == Usd(needed) => generation,
            other => panic!("{other:?}"),
        }
    }

    fn give_back(&self, holder: &str, generation: i64, unspent: i128) {
        let what = CapReturn {
            generation,
            unspent,
        };
        give_back(&self.connection, holder, &CapScope::All, what).unwrap();
    }

    /// Returns what is spent, and what processes hold.
    fn spent_and_held(&self) -> [u64; 2] {
        let caps = read_caps(&self.database).unwrap();
        [caps[0].spent.0, caps[0].held.0]
    }
}

#[test]
fn a_cap_that_is_lowered_binds_a_process_that_holds_a_slice() {
    let Some(cap) = SharedCap::new("lowered", 1000) else {
        return;
    };
    cap.draw_exactly("a", 2);
    assert_eq!(cap.spent_and_held(), [2, 18]);
    // What it holds of more than there is now is given back first.
    cap.change(CapChange::Set(Usd(10)));
    cap.draw_exactly("a", 3);
    assert_eq!(cap.spent_and_held(), [5, 0]);
    cap.change(CapChange::Set(Usd(1000)));
    cap.draw_exactly("a", 1);
    cap.change(CapChange::Set(Usd(4)));
    assert_eq!(cap.draw("a", 1), CapDraw::UsedUp { cap: Usd(4) });
}

#[test]
fn what_a_live_process_has_drawn_and_may_give_back_is_waited_for() {
    let Some(cap) = SharedCap::new("waits", 10) else {
        return;
    };
    let generation = cap.draw_exactly("a", 8);
    assert_eq!(cap.draw("b", 8), CapDraw::HeldByOthers);
    assert_eq!(cap.draw("b", 11), CapDraw::UsedUp { cap: Usd(10) });
    assert_eq!(cap.draw("a", 8), CapDraw::UsedUp { cap: Usd(10) });
    // The second time has no effect.
    for _ in 0..2 {
        cap.give_back("a", generation, 5);
        assert_eq!(cap.spent_and_held(), [3, 0]);
    }
    assert_eq!(cap.draw("b", 8), CapDraw::UsedUp { cap: Usd(10) });
    cap.draw_exactly("b", 7);

    let died = "UPDATE strata.slice SET beat_at = clock_timestamp() - interval '1 minute'";
    assert_eq!(cap.draw("a", 7), CapDraw::HeldByOthers);
    cap.connection.execute(died, &[]).unwrap();
    assert_eq!(cap.draw("a", 7), CapDraw::UsedUp { cap: Usd(10) });
}

#[test]
fn what_was_drawn_before_a_cap_was_counted_anew_is_not_given_back_to_it() {
    let Some(cap) = SharedCap::new("anew", 1000) else {
        return;
    };
    let changes: [&[CapChange]; 2] = [
        &[CapChange::Restart],
        &[CapChange::Remove, CapChange::Set(Usd(1000))],
    ];
    for changes in changes {
        let before = cap.draw_exactly("a", 10);
        for change in changes {
            cap.change(*change);
        }
        assert_eq!(cap.spent_and_held(), [0, 0]);
        let after = cap.draw_exactly("a", 5);
        assert!(after > before);
        cap.give_back("a", before, 10);
        assert_eq!(cap.spent_and_held(), [5, 15]);
        cap.give_back("a", after, 5);
        assert_eq!(cap.spent_and_held(), [0, 0]);
    }
}

#[test]
fn however_many_processes_take_slices_something_is_left_for_the_next() {
    let Some(cap) = SharedCap::new("many", 100_000) else {
        return;
    };
    for n in 0..150 {
        let drawn = cap.draw(&format!("process-{n}"), 1);
        assert!(matches!(drawn, CapDraw::Drawn { .. }), "{n}: {drawn:?}");
    }
    let [spent, held] = cap.spent_and_held();
    assert!(spent + held < 100_000, "{spent}, {held}");
}
