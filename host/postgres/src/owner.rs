//! Which process owns a run. The owner's heartbeat rises while it is alive; whoever wants the run and
//! sees it stand still for long enough on its own clock takes the run over. Clocks of different machines are
//! never compared for that.
//!
//! An owner that was taken for dead and is not, learns so from its next change, which is refused. So
//! nothing depends on the times here but how long a run is at rest.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, test_kill_process};
use strata_base::process::boot;
use strata_base::random_id::random_name;
use strata_records::caps::{CapAccounts, CapScope};
use strata_records::error::StoreError;
use strata_records::work::ClaimedRun;
use strata_records::{LEASE_TIME, LeaseStatus, LockHolder, OwnerWait};
use tokio_postgres::types::Type;

use super::connection::Connection;
use super::database::Database;
use super::failures::taking_from_dead;
use super::heartbeat::OwnerHeartbeat;
use super::schema::{RECORD_FORMAT, has_current_tables, require_known_format};
use super::silence::Silence;

/// How often a heartbeat is looked at by those who wait for it.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// The right to change a run, until it is released or taken over.
#[derive(Debug)]
pub(super) struct Ownership {
    /// The name of this owner, which no other has.
    pub(super) owner: Arc<str>,
    pub(super) run: i64,
    pub(super) epoch: i64,
    /// `None` for a run that a worker took: its heartbeat is that of the worker, which also gives the
    /// run up.
    heartbeat: Option<OwnerHeartbeat>,
    pub(super) lease_status: LeaseStatus,
    /// What this process may spend of caps, and which one applies to the run besides that of all runs.
    pub(super) caps: Arc<CapAccounts>,
    pub(super) scope: Option<CapScope>,
}

/// What is known of the owner of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunOwner {
    name: String,
    /// `None` if its process was removed.
    process: Option<OwnerProcess>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct OwnerProcess {
    identity: ProcessIdentity,
    beat: i64,
    /// Whether the heartbeat rose lately, by the server's clock.
    is_recent: bool,
}

impl RunOwner {
    /// Whether its process has certainly ended.
    pub(super) fn is_gone(&self) -> bool {
        self.process
            .as_ref()
            .is_none_or(|process| process.identity.has_ended())
    }

    /// Returns the heartbeat, if the process exists.
    pub(super) fn beat(&self) -> Option<i64> {
        self.process.as_ref().map(|process| process.beat)
    }

    /// Returns its process id, if that is valid on this machine.
    fn pid(&self) -> Option<u32> {
        let process = self.process.as_ref()?;
        let is_here = process.identity.machine == this_machine();
        is_here.then_some(u32::try_from(process.identity.process).ok()?)
    }
}

/// The epoch of a run, and its owner if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnedRun {
    pub(super) epoch: i64,
    /// The newest format in which something may be recorded of it.
    format: i64,
    pub(super) owner: Option<RunOwner>,
}

/// Reads who owns a run.
pub(super) fn read_owner(connection: &Connection, run: i64) -> Result<OwnedRun, StoreError> {
    let sql = "SELECT r.epoch, r.owner, w.beat, w.machine, w.process, w.started, \
                      clock_timestamp() - w.beat_at < make_interval(secs => $2), r.format \
               FROM strata.run r LEFT JOIN strata.worker w ON w.id = r.owner WHERE r.id = $1";
    let lease_time = LEASE_TIME.as_secs_f64();
    let arguments = [(&run as _, Type::INT8), (&lease_time as _, Type::FLOAT8)];
    let row = connection.query_optional(sql, &arguments)?;
    let row = row.ok_or_else(|| StoreError::corrupt(connection.path(), "the run was removed"))?;
    let beat: Option<i64> = row.get(2);
    let owner: Option<String> = row.get(1);
    Ok(OwnedRun {
        epoch: row.get(0),
        format: row.get(7),
        owner: owner.map(|name| RunOwner {
            name,
            process: beat.map(|beat| OwnerProcess {
                identity: ProcessIdentity {
                    machine: row.get(3),
                    process: row.get(4),
                    started: row.get(5),
                },
                beat,
                is_recent: row.get(6),
            }),
        }),
    })
}

/// Returns which process owns a run.
pub fn holder(database: &Database) -> Result<LockHolder, StoreError> {
    let connection = database.connect()?;
    if !has_current_tables(&connection)? {
        return Ok(LockHolder::Nobody);
    }
    let run = super::run_name::find_run(&connection)?;
    let Some(owner) = read_owner(&connection, run)?.owner else {
        return Ok(LockHolder::Nobody);
    };
    let is_recent = owner
        .process
        .as_ref()
        .is_some_and(|process| process.is_recent);
    Ok(if is_recent && !owner.is_gone() {
        LockHolder::Process { pid: owner.pid() }
    } else {
        LockHolder::Nobody
    })
}

/// Takes the ownership of a run. Fails with `StoreError::Locked` if another process owns it.
pub(super) fn acquire(
    database: &Database,
    connection: &Connection,
    run: i64,
    wait: OwnerWait,
) -> Result<Ownership, StoreError> {
    let owner: Arc<str> = random_name().into();
    ProcessIdentity::current().register(connection, &owner)?;
    let acquired = claim(connection, run, wait, &owner);
    let TakenRun { epoch, scope } = match acquired {
        Ok(taken) => taken,
        Err(error) => {
            // A row that stays behind is that of a process without runs.
            let _ = unregister(connection, &owner);
            return Err(error);
        }
    };
    let heartbeat = OwnerHeartbeat::begin(database.heartbeats()?, &owner);
    Ok(Ownership {
        lease_status: heartbeat.lease_status(connection.path()),
        caps: heartbeat.caps(),
        scope,
        heartbeat: Some(heartbeat),
        owner,
        run,
        epoch,
    })
}

/// A run that has a new owner.
struct TakenRun {
    epoch: i64,
    /// The cap that applies to it besides that of all runs.
    scope: Option<CapScope>,
}

/// Makes `new` the owner of a run.
fn claim(
    connection: &Connection,
    run: i64,
    wait: OwnerWait,
    new: &str,
) -> Result<TakenRun, StoreError> {
    let mut watched: Option<(OwnedRun, Silence)> = None;
    loop {
        let found = read_owner(connection, run)?;
        require_known_format(connection.path(), found.format)?;
        let claimed = match &found.owner {
            None => replace_owner(connection, run, &found, new)?,
            Some(owner) if owner.is_gone() => replace_owner(connection, run, &found, new)?,
            Some(owner) => {
                let locked = || StoreError::Locked {
                    path: connection.path().into(),
                    pid: owner.pid(),
                };
                let is_recent = owner.process.as_ref().is_some_and(|one| one.is_recent);
                if wait == OwnerWait::Brief && is_recent {
                    return Err(locked());
                }
                match &mut watched {
                    Some((before, silence)) if is_same_beat(before, &found) => {
                        silence.note_still(Instant::now());
                        if silence.is_death() {
                            replace_owner(connection, run, &found, new)?
                        } else {
                            None
                        }
                    }
                    Some(_) => return Err(locked()),
                    None => {
                        watched = Some((found.clone(), Silence::begin(Instant::now())));
                        None
                    }
                }
            }
        };
        if let Some(taken) = claimed {
            return Ok(taken);
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// Whether the same owner was seen twice with the same heartbeat.
fn is_same_beat(one: &OwnedRun, other: &OwnedRun) -> bool {
    let key = |found: &OwnedRun| {
        let owner = found.owner.as_ref();
        owner.map(|owner| (found.epoch, owner.name.clone(), owner.beat()))
    };
    key(one) == key(other)
}

/// Takes a run from an owner that counts as dead, unless that is not as it was found any more.
pub(super) fn take_from_dead(
    connection: &Connection,
    run: i64,
    found: &OwnedRun,
) -> Result<(), StoreError> {
    set_owner(connection, run, found, None).map(drop)
}

/// Replaces the owner of a run as it was found. Returns `None` if it changed in the meantime.
fn replace_owner(
    connection: &Connection,
    run: i64,
    found: &OwnedRun,
    new: &str,
) -> Result<Option<TakenRun>, StoreError> {
    set_owner(connection, run, found, Some(new))
}

fn set_owner(
    connection: &Connection,
    run: i64,
    found: &OwnedRun,
    new: Option<&str>,
) -> Result<Option<TakenRun>, StoreError> {
    connection.transact("", || {
        if let Some(owner) = &found.owner
            && let Some(beat) = owner.beat()
        {
            // It owns nothing any more: its other runs can be taken at once.
            let sql = "DELETE FROM strata.worker WHERE id = $1 AND beat = $2";
            let dead = [(&owner.name as _, Type::TEXT), (&beat as _, Type::INT8)];
            if connection.execute(sql, &dead)? == 0 {
                return Ok(None);
            }
            let sql = taking_from_dead("r.owner = $1 AND r.id <> $2");
            connection.execute(&sql, &[(&owner.name, Type::TEXT), (&run, Type::INT8)])?;
        }
        let sql = "UPDATE strata.run SET owner = $2, owned_at = clock_timestamp(), epoch = epoch + 1, format = greatest(format, $5) \
                   WHERE id = $1 AND epoch = $3 AND owner IS NOT DISTINCT FROM $4 RETURNING epoch, scope";
        let former = found.owner.as_ref().map(|owner| owner.name.as_str());
        let arguments = [
            (&run as _, Type::INT8),
            (&new as _, Type::TEXT),
            (&found.epoch as _, Type::INT8),
            (&former as _, Type::TEXT),
            (&RECORD_FORMAT as _, Type::INT8),
        ];
        let row = connection.query_optional(sql, &arguments)?;
        Ok(row.map(|row| TakenRun {
            epoch: row.get(0),
            scope: row.get::<_, Option<&str>>(1).map(CapScope::from_stored),
        }))
    })
}

impl Ownership {
    /// Returns the ownership of a run that a worker took.
    pub(super) fn claimed(run: &ClaimedRun) -> Self {
        Self {
            owner: Arc::clone(&run.owner),
            run: run.key,
            epoch: run.epoch,
            heartbeat: None,
            lease_status: run.lease_status.clone(),
            caps: Arc::clone(&run.caps),
            scope: run.scope.clone(),
        }
    }

    /// Gives the run up, unless it was taken over.
    pub(super) fn release(&self, connection: &Connection) -> Result<(), StoreError> {
        let Some(heartbeat) = &self.heartbeat else {
            return Ok(());
        };
        heartbeat.end();
        let sql = "UPDATE strata.run SET owner = NULL WHERE id = $1 AND epoch = $2";
        connection.execute(sql, &[(&self.run, Type::INT8), (&self.epoch, Type::INT8)])?;
        unregister(connection, &self.owner)
    }
}

pub(super) fn unregister(connection: &Connection, owner: &str) -> Result<(), StoreError> {
    let sql = "DELETE FROM strata.worker WHERE id = $1";
    connection.execute(sql, &[(&owner, Type::TEXT)])?;
    Ok(())
}

/// A process, so that others on the same machine can tell whether it still runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProcessIdentity {
    /// Where the process id is valid: one boot of a machine, and one namespace of it. Empty if that is
    /// not known.
    pub(super) machine: String,
    pub(super) process: i64,
    /// When it started, in the machine's own ticks.
    pub(super) started: String,
}

impl ProcessIdentity {
    pub(super) fn current() -> Self {
        let process = std::process::id();
        Self {
            machine: this_machine(),
            process: process.into(),
            started: ProcessStatus::read(process)
                .map(|status| status.started)
                .unwrap_or_default(),
        }
    }

    /// Stores it as that of an owner.
    pub(super) fn register(&self, connection: &Connection, owner: &str) -> Result<(), StoreError> {
        let sql = "INSERT INTO strata.worker (id, machine, process, started, beat, beat_at) \
                   VALUES ($1, $2, $3, $4, 0, clock_timestamp())";
        let arguments = [
            (&owner as _, Type::TEXT),
            (&self.machine as _, Type::TEXT),
            (&self.process as _, Type::INT8),
            (&self.started as _, Type::TEXT),
        ];
        connection.execute(sql, &arguments)?;
        Ok(())
    }

    /// Whether the process has certainly ended. `false` for one elsewhere.
    pub(super) fn has_ended(&self) -> bool {
        if self.machine.is_empty() || self.machine != this_machine() {
            return false;
        }
        let Ok(process) = u32::try_from(self.process) else {
            return false;
        };
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        let is_absent =
            pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
        let Some(now) = ProcessStatus::read(process) else {
            return is_absent;
        };
        // Another process may have got its id since.
        is_absent || now.has_ended || now.started != self.started
    }
}

/// Returns a name for this boot of this machine, and the namespace of process ids in it. Empty if it is
/// not known.
fn this_machine() -> String {
    let namespace = std::fs::read_link("/proc/self/ns/pid");
    match (boot::id(), namespace) {
        (Some(boot), Ok(namespace)) => format!("{boot} {}", namespace.display()),
        _ => String::new(),
    }
}

/// What the system says of a process.
struct ProcessStatus {
    /// When it started, in ticks since the boot.
    started: String,
    /// Whether it has ended, and only waits for its parent to notice.
    has_ended: bool,
}

impl ProcessStatus {
    /// Returns the status of a process, or `None` if it is not known.
    fn read(process: u32) -> Option<Self> {
        /// The position of the start time behind the name of the program.
        const START_TIME: usize = 19;
        let path = Path::new("/proc").join(process.to_string()).join("stat");
        let stat = std::fs::read_to_string(path).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Self {
            started: (*fields.get(START_TIME)?).to_owned(),
            has_ended: matches!(*fields.first()?, "Z" | "X"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_this_machine_is_known_to_have_ended() {
        let current = ProcessIdentity::current();
        assert!(!current.machine.is_empty() && !current.started.is_empty());
        assert!(!current.has_ended());
        let with = |change: fn(&mut ProcessIdentity)| {
            let mut other = ProcessIdentity::current();
            change(&mut other);
            other.has_ended()
        };
        assert!(
            with(|other| other.started = "1".into()),
            "its id was reused"
        );
        assert!(with(|other| other.process = i64::from(i32::MAX)));
        assert!(!with(|other| {
            other.process = i64::from(i32::MAX);
            other.machine = "elsewhere".into();
        }));
        assert!(!with(|other| {
            other.process = i64::from(i32::MAX);
            other.machine = String::new();
        }));
    }
}
