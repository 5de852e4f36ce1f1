//! A chain of steps with one action in a new sandbox and one message each. Each step is durable
//! before the next one begins.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::{Value, json};
use strata_host::storage::Durability;

use super::bare::{At, Log, Until};
use super::run::{CONTENT_BYTES, Place, mean, median, peak_mib, to_its_end};

/// The number of steps that are measured around a given step.
const WINDOW: usize = 100;

/// The number of roles with different texts in a long run, so that no text is repeated within the
/// 64 KiB that LZ4 looks back.
const VOICES: usize = 100;

/// Measures a durable step and a bare `fdatasync`, in turns.
pub(crate) fn full(place: &Place, steps: usize) -> anyhow::Result<Value> {
    beside(place, steps, Durability::Full, Until::PowerLoss)
}

/// Measures a step that survives `kill -9` and a bare `write`, in turns.
pub(crate) fn process(place: &Place, steps: usize) -> anyhow::Result<Value> {
    beside(place, steps, Durability::Process, Until::Kill)
}

/// The times of steps, and of the bare writes between them, which are not part of a step.
#[derive(Default)]
struct Times {
    steps: Vec<f64>,
    again: Vec<f64>,
    end: Vec<f64>,
}

fn beside(
    place: &Place,
    steps: usize,
    durability: Durability,
    until: Until,
) -> anyhow::Result<Value> {
    let mut again = Log::new(&place.dir.join("again"), until, At::Again)?;
    let mut end = Log::new(&place.dir.join("end"), until, At::End)?;
    let times = Arc::new(Mutex::new(Times::default()));
    let (seen, mut step_start) = (times.clone(), Instant::now());
    let driver = place.prepare("chain", &place.chain(steps), durability, move || {
        let took = step_start.elapsed().as_secs_f64() * 1e6;
        let bare = (
            again.write().unwrap_or_default(),
            end.write().unwrap_or_default(),
        );
        let mut times = seen.lock().unwrap_or_else(PoisonError::into_inner);
        times.steps.push(took);
        times.again.push(bare.0);
        times.end.push(bare.1);
        step_start = Instant::now();
    })?;
    drop(to_its_end(driver)?);
    let times = std::mem::take(&mut *times.lock().unwrap_or_else(PoisonError::into_inner));
    // The first step includes what was done before it.
    let ours = &times.steps[1..];
    Ok(json!({
        "step_us": median(ours), "mean_us": mean(ours),
        "bare_us": median(&times.again), "bare_mean_us": mean(&times.again), "bare_growing_us": median(&times.end),
    }))
}

/// Measures the cost of a step early and late in a run, and the size of the run on the disk.
pub(crate) fn growth(place: &Place, steps: usize) -> anyhow::Result<Value> {
    let times = Arc::new(Mutex::new(Vec::with_capacity(steps)));
    let (seen, mut step_start) = (times.clone(), Instant::now());
    let start = Instant::now();
    let driver = place.prepare(
        "growth",
        &place.ring(VOICES, steps + WINDOW),
        Durability::Process,
        move || {
            let took = step_start.elapsed().as_secs_f64() * 1e6;
            seen.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(took);
            step_start = Instant::now();
        },
    )?;
    let driver = to_its_end(driver)?;
    let took = start.elapsed().as_secs_f64();
    let env = driver.journal().env();
    let content: usize = env
        .messages
        .iter()
        .map(|message| message.content.len())
        .sum();
    let whole: usize = env
        .messages
        .iter()
        .filter_map(|message| serde_json::to_vec(message).ok())
        .map(|m| m.len())
        .sum();
    drop(driver);
    let bytes = std::fs::metadata(place.dir.join("growth/team.db"))?.len();
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    let at = |step: usize| median(&times[step - WINDOW / 2..step + WINDOW / 2]);
    let tenth = times.len() / 10;
    Ok(json!({
        "steps": steps, "seconds": took, "early_us": at(100), "late_us": at(steps),
        "mean_first_tenth_us": mean(&times[..tenth]), "mean_last_tenth_us": mean(&times[times.len() - tenth..]),
        "mean_us": mean(&times), "longest_ms": times.iter().copied().fold(0.0, f64::max) / 1e3,
        "bytes": bytes, "content_bytes": content, "message_bytes": whole, "each_bytes": CONTENT_BYTES,
        "peak_mib": peak_mib(),
    }))
}
