//! `doctor`: shows whether this machine has what teams need. The exit code is 0 if nothing is
//! missing that every team needs.

use strata_host::doctor::{Finding, FindingState, examine};

use super::args::DoctorArgs;
use super::{CommandFailure, Printer};

pub(super) fn doctor(args: &DoctorArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let findings = examine(&args.storage, args.database.as_ref());
    if args.json {
        printer.print_document(&findings)?;
    } else {
        for finding in &findings {
            show_finding(finding, printer);
        }
    }
    Ok(u8::from(
        findings
            .iter()
            .any(|finding| finding.state == FindingState::Bad),
    ))
}

fn show_finding(finding: &Finding, printer: &Printer) {
    let mark = match finding.state {
        FindingState::Good => "ok",
        FindingState::Doubtful => "--",
        FindingState::Bad => "BAD",
    };
    printer.print_line(&format!(
        "{mark:<4} {:<11} {}",
        finding.about, finding.found
    ));
    if let Some(advice) = &finding.advice {
        printer.print_line(&format!("{:<16} {advice}", ""));
    }
}
