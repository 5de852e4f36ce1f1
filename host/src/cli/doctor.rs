//! `doctor`: shows whether this machine has what teams need. The exit code is 0 if nothing is
//! missing that every team needs.

use super::args::DoctorArgs;
use super::{Failure, show_document, show_line};
use crate::doctor::{Finding, State, examine};

pub(super) fn doctor(args: &DoctorArgs) -> Result<u8, Failure> {
    let findings = examine(&args.storage);
    if args.json {
        show_document(&findings)?;
    } else {
        for finding in &findings {
            show(finding);
        }
    }
    Ok(u8::from(
        findings.iter().any(|finding| finding.state == State::Bad),
    ))
}

fn show(finding: &Finding) {
    let mark = match finding.state {
        State::Good => "ok",
        State::Doubtful => "--",
        State::Bad => "BAD",
    };
    show_line(&format!(
        "{mark:<4} {:<11} {}",
        finding.about, finding.found
    ));
    if let Some(advice) = &finding.advice {
        show_line(&format!("{:<16} {advice}", ""));
    }
}
