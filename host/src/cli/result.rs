//! Prints the result of a run to stdout: the last output, or with `--json` a summary that contains
//! it.

use std::path::Path;

use strata_core::event::Status;
use strata_core::stepper::{Stepper, step_of_fault};

use super::{RunArgs, print_json, print_text};
use crate::view::{JoinView, index_and_name};

/// Prints the result of a run that ended with this status. If events go to stdout, nothing else is
/// printed between them.
pub(super) fn show_result(args: &RunArgs, status: Status, stepper: &Stepper, path: &Path) {
    let output = (status == Status::Done)
        .then(|| stepper.env().last_output(stepper.team()))
        .flatten();
    let output = output.map(|message| message.content.as_str());
    if args.json {
        print_json(&summary_json(status, stepper, path, output).to_string());
        return;
    }
    let events_on_stdout = args
        .events
        .as_deref()
        .is_some_and(|events| events == Path::new("-"));
    if let Some(output) = output.filter(|_| !events_on_stdout) {
        show_output(output);
    }
}

/// Writes a role's output, followed by a line feed if it has none. Control and invisible characters
/// are replaced even if stdout is a file, since files are displayed later. Programs get the exact
/// text with `--json`.
fn show_output(output: &str) {
    let text = output.replace("\r\n", "\n");
    print_text(text.strip_suffix('\n').unwrap_or(&text));
}

fn summary_json(
    status: Status,
    stepper: &Stepper,
    path: &Path,
    output: Option<&str>,
) -> serde_json::Value {
    let env = stepper.env();
    let faults = env.open_faults().map(|(id, activation, fault)| {
        let role = stepper.team().role(id);
        let work = activation.current_work(role);
        let (index, action) = index_and_name(role, work);
        let digest = work.and_then(|work| stepper.component(id, work));
        serde_json::json!({
            "step": step_of_fault(stepper.team(), env, activation), "role": role.name, "index": index.map_or(-1, i32::from), "action": action,
            "attempt": activation.current_call.attempts, "digest": digest.map(|digest| &digest.0),
            "kind": fault.kind.name(), "message": fault.message,
        })
    });
    let joins = JoinView::all(stepper);
    let joins = joins
        .iter()
        .filter(|join| !join.missing.is_empty())
        .map(|join| serde_json::json!({ "join": join.id, "missing": join.missing }));
    serde_json::json!({
        "status": status.name(), "run": env.run.0, "step": env.step, "storage": path,
        "checkpoint": env.checkpoint.as_ref().map(|id| &id.0),
        "spent": env.spent.to_dollars(), "budget": env.budget.map(|budget| budget.to_dollars()),
        "faults": faults.collect::<Vec<_>>(),
        "joins": joins.collect::<Vec<_>>(),
        "requests": env.open_requests().map(|(_, request)| &request.id.0).collect::<Vec<_>>(),
        "output": output,
    })
}
