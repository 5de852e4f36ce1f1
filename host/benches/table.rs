//! Figures for the table of `bench/run` that are measured within the process: each is measured in
//! turns with the bare operation. Prints a JSON object, and asserts nothing.
//!
//! `table WHAT DIR PROBE NUMBER…`, where `DIR` is a new directory on the disk to measure and
//! `PROBE` the component of `plugins/probe`. The modules below `table/` contain one measurement
//! each. The script measures the whole program (starting, resuming, memory).

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

#[path = "table/bare.rs"]
mod bare;
#[path = "table/call.rs"]
mod call;
#[path = "table/calls.rs"]
mod calls;
#[path = "table/chain.rs"]
mod chain;
#[path = "table/mcp.rs"]
mod mcp;
#[path = "table/run.rs"]
mod run;
#[path = "table/teams.rs"]
mod teams;
#[path = "table/wide.rs"]
mod wide;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    if arguments == [mcp::SERVER] {
        return mcp::serve();
    }
    let [what, dir, probe, numbers @ ..] = arguments.as_slice() else {
        // `cargo bench` prints a usage message instead of failing.
        println!(
            "usage: table call|calls|mcp|full|process|growth|wide|teams|ring|crowd DIR PROBE NUMBER…   (see bench/run)"
        );
        return Ok(());
    };
    let (dir, probe) = (
        PathBuf::from(dir),
        Path::new(probe)
            .canonicalize()
            .context("the probe's component")?,
    );
    std::fs::create_dir_all(&dir)?;
    let numbers: Vec<usize> = numbers
        .iter()
        .map(|n| n.parse().context("a number"))
        .collect::<Result<_, _>>()?;
    let place = run::Place { dir, probe };
    let found = match (what.as_str(), numbers.as_slice()) {
        ("call", []) => call::call()?,
        ("calls", [count]) => calls::calls(&place, *count)?,
        ("mcp", [count]) => mcp::calls(&place, *count)?,
        ("full", [steps]) => chain::full(&place, *steps)?,
        ("process", [steps]) => chain::process(&place, *steps)?,
        ("growth", [steps]) => chain::growth(&place, *steps)?,
        ("wide", [roles, rounds]) => wide::wide(&place, *roles, *rounds)?,
        ("teams", [teams, steps]) => teams::teams(&place, *teams, *steps)?,
        ("ring", [roles, steps]) => wide::ring(&place, *roles, *steps)?,
        ("crowd", [roles, steps]) => wide::crowd(&place, *roles, *steps)?,
        _ => bail!("no measurement `{what}` with {} numbers", numbers.len()),
    };
    println!("{found}");
    Ok(())
}
