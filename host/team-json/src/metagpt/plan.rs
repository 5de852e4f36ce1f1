//! The plan of a role in MetaGPT's file: its tasks, with the results of those that are finished.

use serde_json::Value;

use strata_core::record::message::{Message, TO_ALL};
use strata_core::record::work::{Task, Work};
use strata_core::state::activation::{Activation, Addressing, FinishedCall, UncommittedMessage};
use strata_core::team::Role;

use super::super::ImportError;
use super::super::located_value::LocatedValue;
use super::super::messages::ImportedMessages;

/// A task, with its result if it is finished.
struct SavedTask {
    text: String,
    result: Option<String>,
}

/// Adds the tasks of the role's entry to an activation, so that it neither plans again nor repeats
/// a finished task. Without tasks the activation will plan.
pub(super) fn restore_tasks(
    role: &Role,
    entry: &LocatedValue<'_>,
    activation: &mut Activation,
    messages: &mut ImportedMessages<'_>,
) -> Result<(), ImportError> {
    // Without actions no task could be carried out. A file that is only shown may be like that.
    if role.actions.is_empty() {
        return Ok(());
    }
    let Some(planner) = entry.get_object("planner")? else {
        return Ok(());
    };
    let Some(plan) = planner.get_object("plan")? else {
        return Ok(());
    };
    // Finished tasks come first, whatever the order: those that they depend on are finished, too.
    let mut tasks = plan.read_items("tasks", read_task)?;
    tasks.sort_by_key(|task| task.result.is_none());
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
    add_completed_call(role, Work::Plan, texts.join("\n"), activation, messages);
    for result in tasks.into_iter().map_while(|task| task.result) {
        let Some(work) = activation.current_work(role) else {
            break;
        };
        add_completed_call(role, work, result, activation, messages);
    }
    Ok(())
}

fn read_task(task: LocatedValue<'_>) -> Result<SavedTask, ImportError> {
    task.object()?;
    let is_finished = task
        .get("is_finished")
        .is_some_and(|is| is.value() == &Value::Bool(true));
    let result = task.get_text("result")?;
    // MetaGPT begins each part of a result with a line feed.
    let result = is_finished.then(|| result.strip_prefix('\n').unwrap_or(&result).to_owned());
    Ok(SavedTask {
        text: task.get_text("instruction")?,
        result,
    })
}

/// Adds a completed call with its result.
fn add_completed_call(
    role: &Role,
    work: Work,
    content: String,
    activation: &mut Activation,
    messages: &mut ImportedMessages<'_>,
) {
    let action = match work {
        Work::Act { action, .. } => action.index(),
        _ => 0,
    };
    let message = Message {
        id: messages.unused_id("imported").as_str().into(),
        content,
        instruct: None,
        parts: Vec::new(),
        role: role.speaker_name(),
        cause_by: role.actions[action].name.clone(),
        sent_from: role.name.clone(),
        send_to: vec![TO_ALL.into()],
        meta: Default::default(),
        route: Vec::new(),
    };
    let output = UncommittedMessage {
        message: messages.add(message),
        addressing: Addressing::ByEnvironment,
    };
    activation.done.push(FinishedCall {
        work,
        output,
        emissions: Vec::new(),
        writes: Vec::new(),
        progress: Default::default(),
    });
}
