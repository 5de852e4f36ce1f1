//! Many teams in one process, compared with one team: durable steps per second of teams in one
//! database file, and of teams with a storage directory each; and bare syncs per second with the same
//! number of threads.

use std::path::PathBuf;
use std::time::Instant;

use serde_json::{Value, json};
use strata_host::manifest::Overrides;
use strata_host::{LiveEnvironment, Start, StorageLocation, WhenIdle};

use super::bare::{At, Log, Until};
use super::run::Place;

/// The number of bare syncs per thread.
const SYNCS: usize = 200;

/// Measures one team, and then many, each as an embedded environment.
pub(crate) fn teams(place: &Place, teams: usize, steps: usize) -> anyhow::Result<Value> {
    let team = place.dir.join("team.toml");
    std::fs::write(&team, place.chain(steps))?;
    let bare = [bare(place, 1)?, bare(place, teams)?];
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .event_interval(1)
        .build()?;
    let apart = |name: &str, n: usize| place.dir.join(format!("{name}-{n}")).into();
    let together = |name: &str, n: usize| {
        let file = place.dir.join(name);
        PathBuf::from(format!("sqlite:{}?run={n}", file.display())).into()
    };
    let run = |name: &str, count: usize, location: &dyn Fn(&str, usize) -> StorageLocation| {
        let start = |n: usize| {
            let start = Start::new(&team, location(name, n), Overrides::default());
            LiveEnvironment::create(start)
        };
        runtime.block_on(async {
            let mut environments = (0..count).map(start).collect::<Result<Vec<_>, _>>()?;
            let (start, spent) = (Instant::now(), cpu_us());
            environments
                .iter_mut()
                .try_for_each(|environment| environment.start(WhenIdle::End))?;
            for environment in &mut environments {
                environment.ended().await?;
            }
            let steps = (count * steps) as f64;
            anyhow::Ok((
                steps / start.elapsed().as_secs_f64(),
                (cpu_us() - spent) / steps,
            ))
        })
    };
    let one = run("one", 1, &apart)?;
    let many = run("many", teams, &together)?;
    let apart = run("apart", teams, &apart)?;
    Ok(json!({
        "teams": teams, "one_per_s": one.0, "many_per_s": many.0, "apart_per_s": apart.0,
        "one_cpu_us": one.1, "many_cpu_us": many.1, "apart_cpu_us": apart.1,
        "bare_one_per_s": bare[0], "bare_many_per_s": bare[1], "peak_mib": super::run::peak_mib(),
    }))
}

/// Returns the bare syncs per second of a number of threads.
fn bare(place: &Place, threads: usize) -> anyhow::Result<f64> {
    let logs = (0..threads).map(|n| {
        Log::new(
            &place.dir.join(format!("bare-{threads}-{n}")),
            Until::PowerLoss,
            At::End,
        )
    });
    let logs = logs.collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    std::thread::scope(|scope| {
        let sync = |mut log: Log| (0..SYNCS).try_for_each(|_| log.write().map(drop));
        let running: Vec<_> = logs
            .into_iter()
            .map(|log| scope.spawn(move || sync(log)))
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a thread that syncs does not panic"))
    })?;
    Ok((threads * SYNCS) as f64 / start.elapsed().as_secs_f64())
}

/// Returns the processor time of this process in microseconds.
fn cpu_us() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 * 1e6 + spent.tv_nsec as f64 / 1e3
}
