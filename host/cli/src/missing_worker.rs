//! What is missing for a worker to take a submitted run, in words.

use serde_json::Value;
use strata_host::storage::{RunNeeds, Shortage, StorageLocation, SubmissionState};

use super::printer::Printer;
use super::sanitize::sanitize;
use super::shell_word;

/// What happens when a worker comes that can take the run.
const THEN: &str = "it is continued when there is one";

/// Says if nobody is there who continues a submitted run.
pub(super) fn note_missing_worker(location: &StorageLocation, printer: &Printer) {
    let Ok(Some(state)) = location.submission_state() else {
        return;
    };
    if let Some(text) = describe_missing_worker(location, &state) {
        printer.note(text);
    }
}

/// Says what is missing for a worker to continue a submitted run, if nobody is there who does.
pub(super) fn describe_missing_worker(
    location: &StorageLocation,
    state: &SubmissionState,
) -> Option<String> {
    if state.schedule.is_none() || state.is_owned {
        return None;
    }
    let shortage = state.shortage.as_ref()?;
    let command = worker_command(location, &state.needs);
    let has_one_worker = location
        .database()
        .is_some_and(|database| database.is_file());
    Some(match shortage {
        Shortage::Labels(missing) if has_one_worker => format!(
            "the worker of the file lacks the {}; end it, and start one that has all that its runs need: `{command}`",
            name_all("label", missing)
        ),
        Shortage::Secrets(_) => format!(
            "{} whose policy (`--policy`) allows it and whose environment has a value",
            describe(shortage)
        ),
        Shortage::Worker | Shortage::Labels(_) => format!("{}: `{command}`", describe(shortage)),
        Shortage::Format(_) | Shortage::Room => describe(shortage),
    })
}

/// Says what is missing for a worker to take a run at a server, from the document in which that describes the run.
pub(super) fn describe_missing_at_server(document: &Value) -> Option<String> {
    let missing = &document["waits_for"];
    let names = missing["names"].as_array().into_iter().flatten();
    let names = names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    let shortage = match missing["kind"].as_str()? {
        "worker" => Shortage::Worker,
        "labels" => Shortage::Labels(names),
        "secrets" => Shortage::Secrets(names),
        "room" => Shortage::Room,
        // A later server may name more.
        _ => return None,
    };
    Some(describe(&shortage))
}

fn describe(shortage: &Shortage) -> String {
    match shortage {
        Shortage::Format(format) => format!(
            "a later version of this program recorded it, in format {format}: a worker of that version continues it"
        ),
        Shortage::Worker => format!("no worker is there that takes it; {THEN}"),
        Shortage::Labels(missing) => format!(
            "no worker is there that has the {}; {THEN}",
            name_all("label", missing)
        ),
        Shortage::Secrets(missing) => format!(
            "no worker is there that has the {}, which the team names; {THEN}",
            name_all("secret", missing)
        ),
        Shortage::Room => {
            "all workers that can take it have as many runs as they take; one takes it when a run of its own ends or rests"
                .into()
        }
    }
}

/// Returns the command that starts a worker which has the labels that a run needs.
fn worker_command(location: &StorageLocation, needs: &RunNeeds) -> String {
    let database = location.database();
    let database = database.map(|database| database.to_string());
    let mut command = format!(
        "strata-host worker --database {}",
        shell_word(&database.unwrap_or_default())
    );
    for label in &needs.labels {
        command += &format!(" --label {}", shell_word(label));
    }
    command
}

/// Returns a noun with what it names, in quotes and with commas.
fn name_all(noun: &str, named: &[String]) -> String {
    let quoted: Vec<String> = named
        .iter()
        .map(|name| format!("`{}`", sanitize(name)))
        .collect();
    let plural = if named.len() == 1 { "" } else { "s" };
    format!("{noun}{plural} {}", quoted.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_server_says_is_missing_is_put_into_words() {
        let check = |kind: &str, names: &[&str], expected: Option<&str>| {
            let document = json!({ "waits_for": { "kind": kind, "names": names } });
            let described = describe_missing_at_server(&document);
            assert_eq!(described.as_deref(), expected);
        };
        check(
            "labels",
            &["gpu", "eu"],
            Some(
                "no worker is there that has the labels `gpu`, `eu`; it is continued when there is one",
            ),
        );
        check(
            "worker",
            &[],
            Some("no worker is there that takes it; it is continued when there is one"),
        );
        check("unheard-of", &[], None);
        let taken = json!({ "waits_for": null });
        assert_eq!(describe_missing_at_server(&taken), None);
    }
}
