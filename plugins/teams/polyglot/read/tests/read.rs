//! Tests which lines are readings.

use read::{Read, Reading, Readings};
use serde_json::json;
use strata_action::testing::{Call, Host};
use strata_action::{Failure, Output};

fn run(text: &str) -> Result<Output<Readings>, Failure> {
    Host::new()
        .file("/in/x.csv", text)
        .run::<Read>(Call::new().config(json!({ "file": "/in/x.csv" })))
}

#[test]
fn lines_that_are_not_readings_are_skipped_and_reported() {
    let found = run("day,temperature,wind\na,1.5,2\nb,x,2\nc, 3 ,4\nd,1\n")
        .expect("two readings")
        .data
        .expect("data");
    let reading = |day: &str, temperature, wind| Reading {
        day: day.to_owned(),
        temperature,
        wind,
    };
    assert_eq!(
        found,
        Readings {
            readings: vec![reading("a", 1.5, 2.0), reading("c", 3.0, 4.0)],
            skipped: vec![3, 5]
        }
    );
}

#[test]
fn too_little_is_an_error() {
    let failure = run("day,temperature,wind\na,1,2\n").expect_err("one reading only");
    assert!(
        failure.message.contains("`/in/x.csv`"),
        "{}",
        failure.message
    );
}
