//! The plan of a role in MetaGPT's file: its tasks, with what the finished ones came to.

use serde_json::Value;

use strata_core::activation::{Activation, Addressed, Done, Outgoing};
use strata_core::event::Work;
use strata_core::message::{Message, TO_ALL};
use strata_core::team::{Role, Task};

use super::super::ImportError;
use super::super::messages::Messages;
use super::super::place::Place;

/// A task, and what it came to once it is finished.
struct SavedTask {
    text: String,
    result: Option<String>,
}

/// Takes the tasks that the role's entry holds into an activation, so that it neither plans again nor repeats a
/// finished task. Without tasks the activation plans.
pub(super) fn resume(
    role: &Role,
    entry: &Place<'_>,
    activation: &mut Activation,
    messages: &mut Messages<'_>,
) -> Result<(), ImportError> {
    // Nobody could carry the tasks out: a file may say so of a team that is only looked at.
    if role.actions.is_empty() {
        return Ok(());
    }
    let Some(planner) = entry.get_object("planner")? else {
        return Ok(());
    };
    let Some(plan) = planner.get_object("plan")? else {
        return Ok(());
    };
    let (mut tasks, open): (Vec<_>, Vec<_>) = plan
        .each("tasks", read)?
        .into_iter()
        .partition(|t| t.result.is_some());
    // Finished ones come first, whatever the order: what they depend on is finished, too.
    tasks.extend(open);
    if tasks.is_empty() {
        return Ok(());
    }
    activation.tasks = tasks
        .iter()
        .map(|task| Task {
            text: task.text.clone(),
            action: None,
        })
        .collect();
    let texts: Vec<&str> = tasks.iter().map(|task| task.text.as_str()).collect();
    let plan = (Work::Plan, texts.join("\n"));
    finish(role, plan, activation, messages);
    for result in tasks.into_iter().map_while(|task| task.result) {
        let Some(work) = activation.work(role) else {
            break;
        };
        finish(role, (work, result), activation, messages);
    }
    Ok(())
}

fn read(task: Place<'_>) -> Result<SavedTask, ImportError> {
    task.object()?;
    let is_finished = task
        .get("is_finished")
        .is_some_and(|is| is.value() == &Value::Bool(true));
    let result = task.get_text("result")?;
    // MetaGPT begins each piece of a result with a line feed.
    let result = is_finished.then(|| result.strip_prefix('\n').unwrap_or(&result).to_owned());
    Ok(SavedTask {
        text: task.get_text("instruction")?,
        result,
    })
}

/// Adds a finished call with what it came to.
fn finish(
    role: &Role,
    (work, content): (Work, String),
    activation: &mut Activation,
    messages: &mut Messages<'_>,
) {
    let action = match work {
        Work::Act { action, .. } => action.index(),
        _ => 0,
    };
    let message = Message {
        id: messages.free("imported").as_str().into(),
        content,
        instruct: None,
        role: role.speaker(),
        cause_by: role.actions[action].name.clone(),
        sent_from: role.name.clone(),
        send_to: vec![TO_ALL.into()],
        meta: Default::default(),
        route: Vec::new(),
    };
    let output = Outgoing {
        message: messages.add(message),
        addressed: Addressed::Open,
    };
    activation.done.push(Done {
        work,
        output,
        emissions: Vec::new(),
        writes: Vec::new(),
        tried: Default::default(),
    });
}
