//! `token`: makes, lists and revokes the tokens of a server.

use serde_json::json;
use strata_host::clock::rfc3339;
use strata_host::storage::{RunDatabase, ServerRecords, StoreError};
use strata_server::database_in;
use strata_server::tokens::{
    NewToken, Token, TokenPart, check_new_token, create_token, list_tokens, revoke_token,
};

use super::args::{TokenCommand, TokenPlaceArgs};
use super::inspect::TextTable;
use super::{CommandFailure, Printer, shell_path};

pub(super) fn token(command: TokenCommand, printer: &Printer) -> Result<u8, CommandFailure> {
    match command {
        TokenCommand::Create {
            name,
            rights,
            tenant,
            expires,
            place,
        } => {
            check_new_token(&name, tenant.as_deref()).map_err(|(part, why)| {
                let what = match part {
                    TokenPart::Name => "NAME",
                    TokenPart::Tenant => "--tenant",
                };
                CommandFailure::usage(format!("`{what}`: {why}"))
            })?;
            let new = NewToken {
                name,
                tenant,
                rights,
                expires_ms: expires,
            };
            let text = create_token(records(&place)?.as_ref(), &new).map_err(while_serving)?;
            let text = text.ok_or_else(|| {
                CommandFailure::usage(format!("there is a token of the name `{}`", new.name))
            })?;
            printer.print_line(&text);
        }
        TokenCommand::List { json, place } => {
            show(
                &list_tokens(records_that_are_there(&place)?.as_ref(), None)?,
                json,
                printer,
            )?;
        }
        TokenCommand::Revoke {
            name,
            tenant,
            place,
        } => {
            let records = records_that_are_there(&place)?;
            let revoked = revoke_token(records.as_ref(), tenant.as_deref(), &name);
            if !revoked.map_err(while_serving)? {
                return Err(CommandFailure::usage(format!(
                    "there is no token `{name}`; `strata-host token list` lists them with their tenants"
                )));
            }
            printer.note(format_args!("the token `{name}` is revoked"));
        }
    }
    Ok(0)
}

/// Returns the records of a server that does not run, or of those of a database.
fn records(place: &TokenPlaceArgs) -> Result<Box<dyn ServerRecords>, CommandFailure> {
    Ok(database(place).records()?)
}

/// Returns the records, or says that no server has stored anything there yet.
fn records_that_are_there(
    place: &TokenPlaceArgs,
) -> Result<Box<dyn ServerRecords>, CommandFailure> {
    let database = database(place);
    match database.require_there() {
        Err(StoreError::Absent { path }) => Err(CommandFailure::usage(format!(
            "there is no `{}`, so no server has tokens there; name its directory with `--storage DIR`, or its database \
             with `--database URL`",
            shell_path(&path)
        ))),
        done => {
            done?;
            Ok(database.records()?)
        }
    }
}

fn database(place: &TokenPlaceArgs) -> RunDatabase {
    match &place.database {
        Some(database) => database.clone(),
        None => database_in(&place.storage),
    }
}

/// Says how tokens are changed while a server has their storage open.
fn while_serving(error: StoreError) -> CommandFailure {
    let StoreError::Locked { path, .. } = error else {
        return error.into();
    };
    CommandFailure::conflict(format!(
        "`{}` is in use; while a server runs, `POST /v1/tokens` makes tokens and `DELETE /v1/tokens/NAME` revokes them",
        shell_path(&path)
    ))
}

fn show(tokens: &[Token], json: bool, printer: &Printer) -> Result<(), CommandFailure> {
    if json {
        for token in tokens {
            printer.print_json_line(&json!({
                "name": token.caller.name, "tenant": token.caller.tenant, "rights": token.caller.rights,
                "created": rfc3339(token.created_ms), "expires": token.expires_ms.map(rfc3339),
            }))?;
        }
        return Ok(());
    }
    let mut table = TextTable::new(&["name", "tenant", "rights", "created", "expires"], printer);
    for token in tokens {
        let rights: Vec<&str> = token
            .caller
            .rights
            .iter()
            .map(|right| right.name())
            .collect();
        let none = || "-".to_owned();
        table.add_row([
            token.caller.name.clone(),
            token.caller.tenant.clone().unwrap_or_else(none),
            rights.join(","),
            rfc3339(token.created_ms),
            token.expires_ms.map_or_else(none, rfc3339),
        ]);
    }
    if table.is_empty() {
        printer.note("there is no token");
    } else {
        table.print(printer);
    }
    Ok(())
}
