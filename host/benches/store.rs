//! The cost of the store, compared with that of the disk:
//! `cargo bench -p strata-host --bench store`. With `STRATA_TEST_POSTGRES`, the cost of a store in
//! that database.
//!
//! Ratios are those of the medians of one run. Both sides are measured in turns, so that
//! disturbances affect both equally.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use strata_core::machine::effect::Effect;
use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Event;
use strata_core::record::message::Draft;
use strata_core::record::shape::DeliveryMode;
use strata_core::record::work::CallResult;
use strata_core::state::environment::Environment;
use strata_core::team::{
    Action, ExternalEnvironment, OnFault, Policy, React, RetryPolicy, Role, Team,
};
use strata_host::storage::{
    Durability, Lease, Record, ReplacePolicy, SavedDefinition, StateSelector, StorageLocation,
};
use strata_host::team_json;

/// The content of each output. The message has about 400 bytes.
const CONTENT: usize = 300;
/// The variable with the URL of a database. With it, appends there are measured instead.
const DATABASE_VARIABLE: &str = "STRATA_TEST_POSTGRES";
/// The size of a page of the disk.
const PAGE: usize = 4096;
/// The number of pages after which the raw log is overwritten from its beginning, like the store's
/// log.
const LOG_PAGES: u64 = 2000;

fn main() -> anyhow::Result<()> {
    let temp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    if let Ok(url) = std::env::var(DATABASE_VARIABLE) {
        return database(temp.path(), &url);
    }
    durable(temp.path())?;
    process(temp.path())?;
    growth(temp.path())?;
    loading(temp.path())?;
    creating(temp.path())?;
    files()
}

/// Returns a role that receives its own messages.
fn team() -> Arc<Team> {
    let retry = RetryPolicy {
        retries: 0,
        backoff_ms: 0,
    };
    let role = Role {
        answer_form: Default::default(),
        name: "Echo".into(),
        profile: "Echo".into(),
        goal: String::new(),
        constraints: String::new(),
        desc: String::new(),
        watch: ["UserRequirement".into(), "say".into()].into(),
        addresses: Vec::new(),
        deliver: DeliveryMode::Batch,
        model: None,
        react: React::ByOrder,
        actions: vec![Action {
            name: "say".into(),
            retry,
        }],
    };
    let policy = Policy {
        on_fault: OnFault::Stop,
        max_steps: None,
        max_parallel: 1,
        budget: None,
        scoped_budgets: Default::default(),
        state_bytes: strata_core::team::DEFAULT_STATE_BYTES,
        lowered: Default::default(),
    };
    Arc::new(Team {
        name: "bench".into(),
        desc: String::new(),
        roles: vec![role],
        groups: BTreeMap::new(),
        routes: Vec::new(),
        joins: Vec::new(),
        scopes: BTreeMap::new(),
        external: ExternalEnvironment::Absent,
        policy,
    })
}

/// A run that is stored.
struct Run {
    stepper: Stepper,
    store: Box<dyn Lease>,
    line: u64,
}

impl Run {
    fn new(path: PathBuf) -> anyhow::Result<Self> {
        let stepper = Stepper::new(team(), Environment::new(&team()));
        let definition = SavedDefinition {
            name: "team.toml".into(),
            base: "/".into(),
            text: String::new(),
            components: Vec::new(),
        };
        let (location, blobs) = (StorageLocation::new(path), BTreeMap::new());
        let run = location.prepare(stepper.env(), &definition, &blobs)?;
        let store = run.vacate(ReplacePolicy::Never)?.create()?;
        let mut run = Self {
            stepper,
            store,
            line: 1,
        };
        let started = run
            .stepper
            .run_started_event("run-1".into(), "go".into(), BTreeMap::new());
        run.happen(started, Durability::Process)?;
        Ok(run)
    }

    /// Stores and applies an event, and returns the time for storing it.
    fn happen(&mut self, event: Event, durability: Durability) -> anyhow::Result<Duration> {
        let record = Record {
            line: self.line,
            lines: 1,
            time_ms: 0,
            event,
        };
        let start = Instant::now();
        self.store
            .append(std::slice::from_ref(&record), durability)?;
        let took = start.elapsed();
        self.line += 1;
        self.stepper.apply(&record.event)?;
        Ok(took)
    }

    /// Makes a step, and returns the times for storing its events and for a snapshot, if one was
    /// due.
    fn step(&mut self, durability: Durability) -> anyhow::Result<[Duration; 5]> {
        let mut took = [Duration::ZERO; 5];
        for part in took.iter_mut().take(4) {
            let event = next(&self.stepper);
            *part = self.happen(event, durability)?;
        }
        let start = Instant::now();
        if self.store.snapshot_due() {
            self.store.save_snapshot(self.stepper.env())?;
        }
        took[4] = start.elapsed();
        Ok(took)
    }
}

/// Returns the next event of a run in which everything succeeds.
fn next(stepper: &Stepper) -> Event {
    match stepper.next() {
        Effect::Record(event) => event,
        Effect::Call(call) => stepper.call_started_event(&call),
        Effect::Wait | Effect::Halt(_) => {
            let (call, _) = stepper
                .env()
                .open_calls(stepper.team())
                .next()
                .expect("somebody is at work");
            let output = Draft {
                content: "x".repeat(CONTENT),
                ..Draft::default()
            };
            let finished = CallResult::Returned {
                output,
                emissions: Vec::new(),
                writes: Vec::new(),
            };
            stepper
                .call_ended_event(call, Ok(finished))
                .expect("somebody is running")
        }
    }
}

fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn mean(times: &[Duration]) -> f64 {
    times.iter().sum::<Duration>().as_secs_f64() * 1e6 / times.len() as f64
}

/// Measures a durable append and a durable page of a raw log, in turns.
fn durable(temp: &Path) -> anyhow::Result<()> {
    let mut run = Run::new(temp.join("durable"))?;
    let raw = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(temp.join("raw"))?;
    let (mut appends, mut syncs) = (Vec::new(), Vec::new());
    for n in 0..4000u64 {
        let event = next(&run.stepper);
        appends.push(run.happen(event, Durability::Full)?);
        syncs.push(raw_page(&raw, n)?);
    }
    let half = appends.len() / 2;
    for (name, range) in [
        ("a growing log", 0..half),
        ("a log that is used again", half..2 * half),
    ] {
        let (append, sync) = (
            median(&mut appends[range.clone()]),
            median(&mut syncs[range]),
        );
        println!(
            "full append over bare fdatasync of 4 KiB, {name}: {:.2} ({append:.0} / {sync:.0} µs)",
            append / sync
        );
    }
    Ok(())
}

/// Events that are appended to a run in a database, to one in a file, and a durable page of a raw log,
/// in turns.
fn database(temp: &Path, url: &str) -> anyhow::Result<()> {
    let separator = if url.contains('?') { '&' } else { '?' };
    let place = |name: &str| format!("{url}{separator}run=bench-{name}-{}", std::process::id());
    let mut file = Run::new(temp.join("beside"))?;
    let mut full = Run::new(place("full").into())?;
    let mut process = Run::new(place("process").into())?;
    let raw = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(temp.join("raw"))?;
    let mut times: [Vec<Duration>; 4] = Default::default();
    for n in 0..3000u64 {
        let event = next(&file.stepper);
        times[0].push(raw_page(&raw, n)?);
        times[1].push(file.happen(event.clone(), Durability::Full)?);
        times[2].push(full.happen(event.clone(), Durability::Full)?);
        times[3].push(process.happen(event, Durability::Process)?);
    }
    let [sync, file, full, process] = times.map(|mut times| median(&mut times));
    println!(
        "full append in a database over bare fdatasync: {:.2}, over one in a file: {:.2} ({full:.0} / {sync:.0} / {file:.0} µs)",
        full / sync,
        full / file
    );
    println!("process append in a database: {process:.0} µs");
    Ok(())
}

fn raw_page(file: &File, n: u64) -> anyhow::Result<Duration> {
    let page = [n as u8; PAGE];
    let start = Instant::now();
    file.write_all_at(&page, n % LOG_PAGES * PAGE as u64)?;
    file.sync_data()?;
    Ok(start.elapsed())
}

/// Measures appends that survive only the end of the process.
fn process(temp: &Path) -> anyhow::Result<()> {
    let mut run = Run::new(temp.join("process"))?;
    let mut appends = Vec::new();
    for _ in 0..20_000 {
        let event = next(&run.stepper);
        appends.push(run.happen(event, Durability::Process)?);
    }
    let mean = mean(&appends);
    println!(
        "process append: {:.1} µs (median), {mean:.1} µs (mean)",
        median(&mut appends)
    );
    Ok(())
}

/// Measures the cost of a step early and late in a run.
fn growth(temp: &Path) -> anyhow::Result<()> {
    /// The number of steps that are measured each time.
    const WINDOW: usize = 1000;
    let mut run = Run::new(temp.join("growth"))?;
    let mut steps = Vec::new();
    for _ in 0..10_000 + WINDOW {
        steps.push(run.step(Durability::Process)?);
    }
    let appends = |from: usize| -> Vec<Duration> {
        steps[from..from + WINDOW]
            .iter()
            .flat_map(|s| s[..4].to_vec())
            .collect()
    };
    let all = |range: &[[Duration; 5]]| {
        range.iter().flatten().sum::<Duration>().as_secs_f64() * 1e6 / range.len() as f64
    };
    let (early, late) = (median(&mut appends(100)), median(&mut appends(10_000)));
    println!(
        "append at step 10,000 over step 100: {:.2} ({late:.1} / {early:.1} µs)",
        late / early
    );
    let (early, late) = (all(&steps[100..1100]), all(&steps[1100..]));
    println!(
        "storing a step, snapshots included, later over the first 1,000: {:.2} ({late:.0} / {early:.0} µs)",
        late / early
    );
    let longest = steps.iter().map(|step| step[4]).max().unwrap_or_default();
    println!("longest snapshot: {:.1} ms", longest.as_secs_f64() * 1e3);
    let messages: usize = run
        .stepper
        .env()
        .messages
        .iter()
        .map(|message| message.content.len() + 100)
        .sum();
    drop(run);
    let size = std::fs::metadata(temp.join("growth/team.db"))?.len();
    println!(
        "bytes on disk over bytes of messages: {:.2}",
        size as f64 / messages as f64
    );
    Ok(())
}

/// Measures opening a run and loading its state.
fn loading(temp: &Path) -> anyhow::Result<()> {
    let mut results = Vec::new();
    for count in [100, 10_000] {
        let path = temp.join(format!("load-{count}"));
        let mut run = Run::new(path.clone())?;
        for _ in 1..count {
            run.step(Durability::Process)?;
        }
        let end = run.stepper.env().clone();
        drop(run);
        let mut times = Vec::new();
        for _ in 0..21 {
            let start = Instant::now();
            let store = StorageLocation::new(&path).open()?.lease;
            let saved = store.load(&StateSelector::Head)?;
            let mut stepper = Stepper::new(team(), saved.base);
            for record in &saved.tail {
                stepper.apply(&record.event)?;
            }
            times.push(start.elapsed());
            anyhow::ensure!(*stepper.env() == end, "another state was loaded");
        }
        results.push(median(&mut times));
    }
    let (few, many) = (results[0], results[1]);
    println!(
        "opening and loading 10,000 messages over 100: {:.1} ({:.2} / {:.2} ms)",
        many / few,
        many / 1e3,
        few / 1e3
    );
    Ok(())
}

/// Measures starting a run.
fn creating(temp: &Path) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for n in 0..21 {
        let start = Instant::now();
        let run = Run::new(temp.join(format!("create-{n}")))?;
        times.push(start.elapsed());
        drop(run);
    }
    println!("creating a run: {:.2} ms", median(&mut times) / 1e3);
    Ok(())
}

/// Measures writing `team.json`.
fn files() -> anyhow::Result<()> {
    let mut stepper = Stepper::new(team(), Environment::new(&team()));
    let started = stepper.run_started_event("run-1".into(), "go".into(), BTreeMap::new());
    stepper.apply(&started)?;
    while stepper.env().messages.len() < 10_000 {
        let event = next(&stepper);
        stepper.apply(&event)?;
    }
    let definition = SavedDefinition {
        name: "team.toml".into(),
        base: "/".into(),
        text: String::new(),
        components: Vec::new(),
    };
    let start = Instant::now();
    let text = team_json::export(&team(), stepper.env(), &definition);
    let wrote = start.elapsed();
    let start = Instant::now();
    team_json::import(&team(), text.as_bytes())?;
    let read = start.elapsed();
    let size = text.len() as f64 / 1e6;
    println!("team.json of 10,000 messages: {size:.0} MB, made in {wrote:.0?}, read in {read:.0?}");
    Ok(())
}
