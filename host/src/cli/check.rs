//! `check`: validates a team, links its components and prints what each action is granted. No
//! action is run.

use super::{CheckArgs, Failure, counted, note, show_document, show_text, warn};
use crate::cli::progress::Progress;
use crate::launch::{Components, Notice};
use crate::manifest::operator::in_force;
use crate::manifest::{Definition, doubts, policy, unheard};
use crate::sandbox::{Own, WasmSandbox};

pub(super) fn check(args: &CheckArgs) -> Result<u8, Failure> {
    let mut definition = Definition::read(&args.team)?;
    definition.bind(&in_force(args.policy.as_deref())?)?;
    let sandbox = WasmSandbox::one_shot().map_err(|error| Failure::internal(error.to_string()))?;
    let mut warnings = 0_u64;
    let mut progress = Progress::begin();
    let components = Components::load(&definition, &sandbox, &mut |notice| {
        warnings += u64::from(matches!(notice, Notice::Warning(_)));
        progress.tell(notice);
    });
    drop(progress);
    let components = components?;
    components.equip(&definition, sandbox, Own::default())?;
    for cut in definition.cut() {
        note(cut);
    }
    // `doubts` are also reported by a run at its start, `unheard` only when they occur.
    for doubt in doubts(&definition).iter().chain(&unheard(&definition)) {
        warnings += 1;
        warn(doubt);
    }
    let rows = policy::rows(&definition, &components.digests());
    if args.json {
        show_document(&rows)?;
    } else {
        show_text(policy::render(&rows).trim_end());
    }
    if args.deny_warnings && warnings > 0 {
        let warnings = counted(warnings, "warning");
        return Err(Failure::usage(format!(
            "{warnings}, which `--deny-warnings` does not allow"
        )));
    }
    Ok(0)
}
