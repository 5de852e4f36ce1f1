//! `adopt`: hands a run over to the workers of a database.

use serde_json::json;
use strata_host::SavedTeamFile;
use strata_host::launch::{AdoptMode, Adoption, Notice, adopt as hand_over};
use strata_host::manifest::Overrides;
use strata_host::manifest::operator::in_force;

use super::args::AdoptArgs;
use super::missing_worker::note_missing_worker;
use super::printer::Verbosity;
use super::progress::ProgressDisplay;
use super::{CommandFailure, Printer};

pub(super) fn adopt(args: AdoptArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let verbosity = if args.quiet || args.json {
        Verbosity::Quiet
    } else {
        Verbosity::Normal
    };
    let printer = &printer.with_verbosity(verbosity);
    let adoption = Adoption {
        from: args.place,
        to: args.to,
        name: args.name,
        mode: if args.copy {
            AdoptMode::Copy
        } else {
            AdoptMode::Move
        },
        saved_team_file: if args.trust {
            SavedTeamFile::Trusted
        } else {
            SavedTeamFile::default()
        },
        overrides: Overrides {
            operators: in_force(None)?,
            ..Overrides::default()
        },
        labels: args.needs,
        tags: args.label.into_iter().collect(),
        scope: args.scope,
    };
    let location = {
        let mut progress = ProgressDisplay::start(printer);
        let mut report = |notice: Notice<'_>| progress.show_notice(notice);
        hand_over(&adoption, &mut report)?
    };
    if args.json {
        return printer
            .print_json_line(&json!({
                "place": location.operand().to_string_lossy(), "name": location.run_name(),
                "from": adoption.from.operand().to_string_lossy(), "copied": args.copy,
            }))
            .map(|()| 0);
    }
    if !printer.is_quiet() {
        note_missing_worker(&location, printer);
    }
    printer.print_text(&location.to_string());
    Ok(0)
}
