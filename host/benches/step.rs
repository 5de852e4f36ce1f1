//! What a step costs beside what cannot be had cheaper: a bare `fdatasync`. Prints ratios of medians; asserts nothing.
//!
//! The actions do nothing (a scripted sandbox), so what is measured is the stepper, the driver and the store. The
//! cost of a call into a component is measured by `call`, that of the store alone by `store`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use strata_core::environment::Environment;
use strata_core::id::{Digest, RunId, Slot};
use strata_core::money::Usd;
use strata_core::stepper::Stepper;
use strata_host::blob::Blobs;
use strata_host::driver::{Driver, Equipment, Journal};
use strata_host::manifest::Definition;
use strata_host::plugin::Plugin;
use strata_host::sandbox::ScriptedSandbox;
use strata_host::services::http::Http;
use strata_host::services::http::secret::Secrets;
use strata_host::store::{
    At, CheckpointRow, Directory, Durability, FIRST_LINE, LineageRow, Pruned, Record, Replace, Saved, SavedDefinition,
    Store, StoreError, SumUp,
};

type Anything<T> = Result<T, Box<dyn std::error::Error>>;

const CHAIN_STEPS: usize = 400;
const LONG_CHAIN_STEPS: usize = 10_100;
const WINDOW: usize = 100;

fn main() -> Anything<()> {
    // Beside the build, so that it is the disk people work on and not a memory file system.
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let sync_us = fdatasync(root.path())?;
    println!("bare fdatasync of 4 KiB                      {sync_us:9.1} us   1.00");

    let full = chain(&root.path().join("full"), CHAIN_STEPS, Durability::Full)?;
    let step_us = median(&full.gaps_us);
    let appends = full.appends as f64 / CHAIN_STEPS as f64;
    println!("durable step in a chain (full)               {step_us:9.1} us   {:.2}   bar 3", step_us / sync_us);
    println!("  appends per step                           {appends:9.2}");

    let long = chain(&root.path().join("process"), LONG_CHAIN_STEPS, Durability::Process)?;
    let at = |step: usize| median(&long.gaps_us[step - WINDOW / 2..step + WINDOW / 2]);
    let (early, late) = (at(100), at(10_000));
    println!("step in a chain (process)                    {early:9.1} us   {:.2}", early / sync_us);
    println!("  step 10,000 over step 100                  {late:9.1} us   {:.2}   bar 1.2", late / early);

    let (wide_us, commits) = wide(&root.path().join("wide"), 64)?;
    println!("64 parallel actions in one step (full)       {wide_us:9.1} us   {commits} appends, bar 8");

    chain(&root.path().join("short"), 100, Durability::Process)?;
    let (short, long) = (load(&root.path().join("short"))?, load(&root.path().join("process"))?);
    println!("state with 100 messages, opened and loaded   {short:9.1} us   1.00");
    println!("state with 10,000 messages                   {long:9.1} us   {:.2}", long / short);
    Ok(())
}

/// The median time of one sync of 4 KiB at the end of a file.
fn fdatasync(dir: &Path) -> Anything<f64> {
    let mut file = File::create(dir.join("sync"))?;
    let mut times = Vec::new();
    for _ in 0..CHAIN_STEPS {
        let began = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(micros(began));
    }
    Ok(median(&times))
}

struct Ran {
    gaps_us: Vec<f64>,
    appends: usize,
}

/// A role that hears itself: each step one action and one message.
fn chain(dir: &Path, steps: usize, durability: Durability) -> Anything<Ran> {
    let team = format!(
        "schema = \"strata.team/1\"\n[team]\nname = \"chain\"\nidea = \"go\"\n[run]\nmax_steps = {steps}\n\
         [[role]]\nname = \"A\"\nwatch = [\"UserRequirement\", \"a\"]\n\
         [[role.action]]\nname = \"a\"\ncomponent = \"a.wasm\"\n"
    );
    run(dir, &team, durability)
}

/// Many roles that hear the idea, all in one step. The time is that of the whole step.
fn wide(dir: &Path, roles: usize) -> Anything<(f64, usize)> {
    let mut team =
        format!("schema = \"strata.team/1\"\n[team]\nname = \"wide\"\nidea = \"go\"\n[run]\nmax_parallel = {roles}\n");
    for i in 0..roles {
        team += &format!(
            "[[role]]\nname = \"R{i}\"\nwatch = [\"UserRequirement\"]\n\
             [[role.action]]\nname = \"a{i}\"\ncomponent = \"a.wasm\"\n"
        );
    }
    let ran = run(dir, &team, Durability::Full)?;
    Ok((ran.gaps_us[0], ran.appends))
}

fn run(dir: &Path, team: &str, durability: Durability) -> Anything<Ran> {
    let definition = Definition::parse(team, "bench.toml", dir)?;
    let env = Environment::new(&definition.team);
    let saved =
        SavedDefinition { name: "bench.toml".into(), base: dir.into(), text: team.into(), components: Vec::new() };
    let store = Directory::new(dir).create(Replace::Never, &env, &saved)?.store;
    let appends = Arc::new(Mutex::new(0));
    let store = Counting { inner: Box::new(store), appends: appends.clone() };
    let stepper = Stepper::new(Arc::new(definition.team), env);
    let mut journal = Journal::new(stepper, Box::new(store), FIRST_LINE, durability);
    let digests: BTreeMap<Slot, Digest> =
        definition.plugins.keys().map(|slot| (*slot, Digest("0".repeat(64)))).collect();
    journal.stage(journal.stepper().started(RunId::from("bench"), "go".into(), digests))?;
    journal.flush()?;
    let times = Arc::new(Mutex::new(vec![Instant::now()]));
    let seen = times.clone();
    let journal = journal.on_line(Box::new(move |line| {
        if line.kind == "step-committed" {
            seen.lock().expect("no other holder panics").push(Instant::now());
        }
    }));
    let plugins = definition.plugins.into_iter().map(|(slot, plugin)| (slot, Arc::<Plugin>::new(plugin))).collect();
    let sandbox = Arc::new(ScriptedSandbox::new());
    let http = Arc::new(Http::new(Secrets::default()).expect("a client"));
    let equipment = Equipment {
        sandbox,
        plugins,
        descriptions: BTreeMap::new(),
        models: None,
        external: None,
        http,
        directories: Default::default(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().event_interval(1).build()?;
    let (_keep, mut stop) = tokio::sync::watch::channel(false);
    *appends.lock().expect("no other holder panics") = 0;
    runtime.block_on(Driver::new(journal, equipment).run(&mut stop))?;
    let times = times.lock().expect("no other holder panics");
    let gaps_us = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64() * 1e6).collect();
    let appends = *appends.lock().expect("no other holder panics");
    Ok(Ran { gaps_us, appends })
}

/// The median time to open a storage directory and have its newest state.
fn load(dir: &Path) -> Anything<f64> {
    let mut times = Vec::new();
    for _ in 0..15 {
        let began = Instant::now();
        let opened = Directory::locate(dir)?.open()?;
        let definition = opened.store.definition()?;
        let team = Definition::parse(&definition.text, &definition.name, &definition.base)?.team;
        let saved = opened.store.load(&At::Head)?;
        let mut stepper = Stepper::new(Arc::new(team), saved.base);
        for record in &saved.tail {
            stepper.apply(&record.event)?;
        }
        times.push(micros(began));
    }
    Ok(median(&times))
}

fn micros(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1e6
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// A store that counts its appends.
struct Counting {
    inner: Box<dyn Store>,
    appends: Arc<Mutex<usize>>,
}

impl Store for Counting {
    fn append(&mut self, records: &[Record], durability: Durability) -> Result<(), StoreError> {
        *self.appends.lock().expect("no other holder panics") += 1;
        self.inner.append(records, durability)
    }
    fn snapshot_due(&self) -> bool {
        self.inner.snapshot_due()
    }
    fn save_snapshot(&mut self, env: &Environment) -> Result<(), StoreError> {
        self.inner.save_snapshot(env)
    }
    fn load(&self, at: &At) -> Result<Saved, StoreError> {
        self.inner.load(at)
    }
    fn turn_to(&mut self, lineage: &str) -> Result<(), StoreError> {
        self.inner.turn_to(lineage)
    }

    fn lineages(&self) -> Result<Vec<LineageRow>, StoreError> {
        self.inner.lineages()
    }

    fn spent(&self) -> Result<Usd, StoreError> {
        self.inner.spent()
    }

    fn prune(&mut self, keep: u32, sum_up: &mut SumUp<'_>) -> Result<Pruned, StoreError> {
        self.inner.prune(keep, sum_up)
    }

    fn checkpoints(&self) -> Result<Vec<CheckpointRow>, StoreError> {
        self.inner.checkpoints()
    }
    fn keep_checkpoints(&mut self, keep: u32) -> Result<(), StoreError> {
        self.inner.keep_checkpoints(keep)
    }
    fn records(&self, from: u64, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.inner.records(from, limit)
    }
    fn put_blobs(&mut self, blobs: &Blobs) -> Result<(), StoreError> {
        self.inner.put_blobs(blobs)
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Arc<[u8]>>, StoreError> {
        self.inner.blob(digest)
    }

    fn definition(&self) -> Result<SavedDefinition, StoreError> {
        self.inner.definition()
    }
    fn set_definition(&mut self, definition: &SavedDefinition) -> Result<(), StoreError> {
        self.inner.set_definition(definition)
    }
    fn write_team_json(&mut self, text: &str) -> Result<(), StoreError> {
        self.inner.write_team_json(text)
    }
}
