//! `doctor`: shows whether this machine has what teams need. The exit code is 0 if nothing is missing that every team needs,
//! or that the named team cannot run without.

use strata_host::Hint;
use strata_host::doctor::{Finding, FindingState, examine, examine_servers};

use super::advice::describe_advice;
use super::args::DoctorArgs;
use super::{CommandFailure, Printer};

pub(super) fn doctor(args: &DoctorArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let mut findings = examine(&args.storage, args.database.as_ref());
    if let Some(team) = &args.team {
        findings.extend(examine_servers(team)?);
    }
    for finding in &mut findings {
        describe_finding(finding);
    }
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

/// Replaces advice by its text. What can be done although everything is in order belongs to what was
/// found.
fn describe_finding(finding: &mut Finding) {
    let Some(Hint::Advice(advice)) = &finding.advice else {
        return;
    };
    let text = describe_advice(advice);
    finding.advice = match finding.state {
        FindingState::Good => {
            finding.found = format!("{}; {text}", finding.found);
            None
        }
        FindingState::Doubtful | FindingState::Bad => Some(text.into()),
    };
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
