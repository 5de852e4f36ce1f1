//! Runs a team as the product does: real components in the sandbox, the driver, the store on the
//! disk. A function is called at every commit of a step.

use std::path::PathBuf;
use std::sync::Arc;

use strata_core::machine::stepper::Stepper;
use strata_core::record::event::Event;
use strata_core::record::id::RunId;
use strata_core::state::environment::Environment;
use strata_host::driver::{Driver, Journal, LineListener};
use strata_host::launch::Components;
use strata_host::manifest::Definition;
use strata_host::public_event::PublicEvent;
use strata_host::runtime_context::in_context_of;
use strata_host::sandbox::{HiddenStorage, WasmSandbox};
use strata_host::storage::{
    Durability, FIRST_LINE, ReplacePolicy, SavedDefinition, StorageLocation,
};

/// The number of bytes of each message.
pub(crate) const CONTENT_BYTES: usize = 1000;

/// The directory and the probe of a measurement.
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    pub(crate) probe: PathBuf,
}

impl Place {
    /// Returns an action of the probe that outputs a message.
    pub(crate) fn action(&self, name: &str) -> String {
        let (probe, text) = (self.probe.display(), text(name));
        format!(
            "[[role.action]]\nname = \"{name}\"\ncomponent = \"{probe}\"\nconfig = {{ steps = [{{ say = \"{text}\" }}] }}\n"
        )
    }

    /// Returns the beginning of a team file.
    pub(crate) fn head(&self, steps: usize, parallel: usize) -> String {
        format!(
            "schema = \"strata.team/1\"\n[team]\nname = \"bench\"\nidea = \"go\"\n\
             [run]\nmax_steps = {steps}\nmax_parallel = {parallel}\n"
        )
    }

    /// Returns a role that receives its own messages: one action and one message per step.
    pub(crate) fn chain(&self, steps: usize) -> String {
        self.ring(1, steps)
    }

    /// Returns roles that send messages to each other in turn: one action and one message per step.
    pub(crate) fn ring(&self, roles: usize, steps: usize) -> String {
        let mut team = self.head(steps, 8);
        for n in 0..roles {
            let first = if n == 0 { "\"UserRequirement\", " } else { "" };
            team += &format!(
                "[[role]]\nname = \"R{n}\"\nwatch = [{first}\"a{}\"]\n",
                (n + roles - 1) % roles
            );
            team += &self.action(&format!("a{n}"));
        }
        team
    }

    /// Prepares a team in the directory `name`. `committed` is called when a commit of a step is
    /// durable, before anything else happens.
    pub(crate) fn prepare(
        &self,
        name: &str,
        team: &str,
        durability: Durability,
        mut committed: impl FnMut() + Send + 'static,
    ) -> anyhow::Result<Driver> {
        let dir = self.dir.join(name);
        let definition = Definition::parse(team, "bench.toml", &self.dir)?;
        let sandbox = WasmSandbox::new()?;
        let components = Components::load(&definition, &sandbox, &mut |_| ())?;
        let services = components.services(&definition, sandbox, HiddenStorage::default())?;
        let env = Environment::new(&definition.team);
        let saved = SavedDefinition {
            name: "bench.toml".into(),
            base: self.dir.clone(),
            text: team.into(),
            components: Vec::new(),
        };
        let (location, blobs) = (StorageLocation::new(&dir), Default::default());
        let new = location.prepare(&env, &saved, &blobs)?;
        let lease = new.vacate(ReplacePolicy::Never)?.create()?;
        let stepper = Stepper::new(Arc::new(definition.team), env);
        let journal = Journal::new(stepper, lease, FIRST_LINE, durability);
        let mut journal = journal.with_listener(LineListener::Selected {
            select: |event| matches!(event, Event::StepCommitted(_)),
            on_line: Box::new(move |line| {
                if matches!(line.event, PublicEvent::StepCommitted { .. }) {
                    committed();
                }
            }),
        });
        journal.stage(journal.stepper().run_started_event(
            RunId::from(name),
            "go".into(),
            components.digests(),
        ))?;
        journal.flush_blocking()?;
        Ok(Driver::new(journal, services))
    }
}

/// Returns the output of an action: random words that depend on its name, so that compression does
/// not profit from repetition.
fn text(name: &str) -> String {
    const LETTERS: &[u8] = b"etaoinshrdlu";
    const VOCABULARY: u64 = 2000;
    // Knuth's random number generator MMIX.
    let next = |state: u64| {
        state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407)
    };
    let mut choice = next(
        name.bytes()
            .fold(1, |state, byte| next(state ^ u64::from(byte))),
    );
    let mut text = String::with_capacity(CONTENT_BYTES);
    while text.len() < CONTENT_BYTES {
        choice = next(choice);
        let mut word = next((choice >> 33) % VOCABULARY);
        for _ in 0..2 + (word >> 33) % 8 {
            word = next(word);
            text.push(char::from(LETTERS[(word >> 33) as usize % LETTERS.len()]));
        }
        text.push(' ');
    }
    text.truncate(CONTENT_BYTES);
    text
}

/// Runs a team to its end, as the command line does.
pub(crate) fn to_its_end(mut driver: Driver) -> anyhow::Result<Driver> {
    let shared = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .event_interval(1)
        .build()?;
    let own = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (_keep, mut stop) = tokio::sync::watch::channel(false);
    driver.set_alone();
    driver.make_calls_in(own.handle().clone());
    own.block_on(in_context_of(
        shared.handle().clone(),
        driver.run(&mut stop),
    ))?;
    Ok(driver)
}

/// Returns the median in microseconds.
pub(crate) fn median(times_us: &[f64]) -> f64 {
    let mut sorted = times_us.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Returns the mean.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the peak memory of this process in MiB.
pub(crate) fn peak_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kib.unwrap_or_default() / 1024.0
}
