//! `send`: sends a message to a team.

use strata_core::record::json::Json;
use strata_core::record::message::{IDEMPOTENCY_KEY, Message};
use strata_core::text::find_unfit_for_name;
use strata_host::launch::{load_saved, send as put};
use strata_host::storage::{StateSelector, StorageLocation};
use strata_host::suggest::did_you_mean;

use super::edit_notices::warn_if_edited;
use super::given_text::read_content;
use super::missing_worker::note_missing_worker;
use super::{CommandFailure, Printer, SendArgs};

pub(super) fn send(args: SendArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    check_names(&args)?;
    let content = read_content(args.content)?;
    // The id is assigned where the message is recorded.
    let mut message = Message::from_user("".into(), content, args.cause);
    if !args.to.is_empty() {
        message.send_to = args.to;
    }
    message.meta.extend(args.idempotency_key.map(|key| {
        (
            IDEMPOTENCY_KEY.to_owned(),
            Json::from(serde_json::Value::String(key)),
        )
    }));
    let cause = message.cause_by.clone();
    warn_if_edited(&args.path, printer);
    let sent = put(&args.path, message, &args.file)?;
    note_missing_worker(&args.path, printer);
    match sent.to.as_slice() {
        _ if sent.known => printer.note(format_args!(
            "already received under this key as message {}; it is not sent again",
            sent.id
        )),
        _ if sent.is_undelivered() => {
            let labels = watched_labels(&args.path);
            let meant = did_you_mean(&cause, labels.iter().map(String::as_str));
            printer.warn(format_args!(
                "nobody watches `{cause}`: the message reached no mailbox{meant}"
            ))
        }
        [] => {}
        names => printer.note(format_args!(
            "message {} is in the mailbox of {}",
            sent.id,
            names.join(", ")
        )),
    }
    if args.json {
        printer.print_json(
            &serde_json::to_string(&sent)
                .map_err(|error| CommandFailure::internal(error.to_string()))?,
        );
    }
    let names = if sent.dead.is_empty() {
        Vec::new()
    } else {
        addresses(&args.path)
    };
    for name in &sent.dead {
        let meant = did_you_mean(name, names.iter().map(String::as_str));
        printer.warn(format_args!(
            "`{name}` takes no messages from outside: it is no role, alias or group of the team{meant}"
        ));
    }
    Ok(0)
}

/// Fails if the label or the name of a recipient is not usable.
pub(super) fn check_names(args: &SendArgs) -> Result<(), CommandFailure> {
    if args.cause.is_empty() {
        return Err(CommandFailure::usage(
            "`--cause` is empty: say under which label the message is heard",
        ));
    }
    for (flag, name) in args
        .to
        .iter()
        .map(|name| ("--to", name))
        .chain([("--cause", &args.cause)])
    {
        if let Some(unfit) = find_unfit_for_name(name) {
            let code = u32::from(unfit);
            return Err(CommandFailure::usage(format!(
                "`{flag}` holds U+{code:04X}, a character that is not seen; leave it out"
            )));
        }
    }
    Ok(())
}

/// Returns the labels that roles watch; none if the storage cannot be read.
fn watched_labels(location: &StorageLocation) -> Vec<String> {
    let Ok(saved) = load_saved(location, &StateSelector::Head) else {
        return Vec::new();
    };
    let roles = saved.stepper.team().roles.iter();
    roles.flat_map(|role| role.watch.iter().cloned()).collect()
}

/// Returns the names to which messages may be sent; none if the storage cannot be read.
fn addresses(location: &StorageLocation) -> Vec<String> {
    let Ok(saved) = load_saved(location, &StateSelector::Head) else {
        return Vec::new();
    };
    let team = saved.stepper.team();
    let roles = team
        .roles
        .iter()
        .flat_map(|role| std::iter::once(&role.name).chain(&role.addresses));
    roles.chain(team.groups.keys()).cloned().collect()
}
