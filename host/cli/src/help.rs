//! The help of the command line: short with `-h`; with `--help` it includes examples and exit
//! codes. Arguments are declared in `args`.

use std::ffi::OsStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use strata_host::build::prebuilt::describe_installation;
use strata_host::installation::VERSION;
use strata_host::suggest::closest;

use super::args::{Cli, expanded_path};
use super::remote;

/// The exit codes of commands that run teams.
const RUN_EXIT_CODES: &str = "Exit codes:
  0    done
  1    internal error: the machine or this program failed
  2    usage or configuration
  3    failed: a fault stopped the run
  4    waiting for a person
  5    out of budget
  6    stalled: a join that can never fire
  7    step limit reached
  8    what is saved does not fit the team
  9    the storage is in use by another process
  10   in doubt: whether a write took effect is not known
  11   the database lost what it had acknowledged
  12   cancelled
  130  interrupted; 143 by SIGTERM, 129 by SIGHUP. A run that is only waiting (`run --keep-alive`, `dev`) exits with the code for its state";
/// The exit codes of other commands.
const OTHER_EXIT_CODES: &str = "Exit codes: 0 done, 1 internal error, 2 usage or configuration; `strata-host --help` lists all.";
/// The commands that run teams.
const RUN_COMMANDS: [&str; 4] = ["run", "resume", "dev", "submit"];

/// Returns the definition of the command line, with examples and exit codes.
pub(super) fn command() -> clap::Command {
    let long = |command: clap::Command, codes: &str| {
        let examples = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        command
            .after_help(None::<&str>)
            .after_long_help(format!("{examples}\n\n{codes}").trim().to_owned())
    };
    let each = |command: clap::Command| {
        let codes = if RUN_COMMANDS.contains(&command.get_name()) {
            RUN_EXIT_CODES
        } else {
            OTHER_EXIT_CODES
        };
        long(command, codes).mut_subcommands(|below| long(below, OTHER_EXIT_CODES))
    };
    let all = Cli::command();
    let is_server = |option: &&clap::Arg| option.get_id() == remote::OPTION;
    let server = all.get_arguments().find(is_server).cloned();
    let server = server.expect("it is declared");
    long(
        all.bin_name("strata-host").after_help(EXAMPLES),
        RUN_EXIT_CODES,
    )
    .mut_subcommands(each)
    .mut_subcommands(with_expanded_paths)
    .mut_subcommands(|command| {
        if remote::works_remotely(command.get_name()) {
            command
        } else {
            // It is still parsed there, so that the error can say more than that it is unknown.
            command.arg(server.clone().hide(true))
        }
    })
}

/// Lets a command, and those below it, refuse paths in which a shell would have replaced something.
fn with_expanded_paths(command: clap::Command) -> clap::Command {
    let is_path = |arg: &clap::Arg| {
        arg.get_value_parser().type_id() == clap::builder::ValueParser::path_buf().type_id()
    };
    command
        .mut_args(|arg| {
            if is_path(&arg) {
                arg.value_parser(expanded_path())
            } else {
                arg
            }
        })
        .mut_subcommands(with_expanded_paths)
}

/// The examples in the program's own help.
const EXAMPLES: &str = "Examples:
  strata-host new team press --lang python && strata-host run press/team.toml
  strata-host check team.toml
  strata-host resume workspace/storage/team";

/// Commands that take a text, and the name of the text.
const TEXT_ARGUMENTS: [(&str, &str); 3] = [("run", "idea"), ("dev", "idea"), ("send", "text")];

/// Adds a hint to the error for a superfluous argument, which is most often part of a text without
/// quotes.
fn suggest_quotes(mut error: clap::Error) -> clap::Error {
    let is_more = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(arg))) => !arg.starts_with('-'),
        (kind, _) => kind == ErrorKind::TooManyValues,
    };
    // Arguments need not be valid UTF-8.
    let called = std::env::args_os()
        .skip(1)
        .find(|arg| !arg.as_encoded_bytes().starts_with(b"-"));
    let text = TEXT_ARGUMENTS
        .iter()
        .find(|(command, _)| called.as_deref().and_then(OsStr::to_str) == Some(*command));
    if let (true, Some((_, text))) = (is_more, text) {
        let tip = format!("put the {text} in quotes if it has several words");
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
    error
}

/// Says which command was most likely meant, where clap finds none: it does not count letters that changed places.
fn with_similar_command(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    if error.kind() != ErrorKind::InvalidSubcommand
        || error.get(ContextKind::SuggestedSubcommand).is_some()
    {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    // A word that the program itself does not know is one of its commands, any other one belongs to a command.
    // Arguments need not be UTF-8, which `args` would require.
    let mut arguments = std::env::args_os()
        .skip(1)
        .map(|argument| argument.to_string_lossy().into_owned());
    let first = arguments.find(|argument| !argument.starts_with('-'));
    let above = first
        .filter(|first| first != word && first != "help")
        .and_then(|first| command.find_subcommand(first))
        .unwrap_or(command);
    let names = above.get_subcommands().map(clap::Command::get_name);
    if let Some(meant) = closest(word, names.chain(["help"])) {
        let meant = ContextValue::Strings(vec![meant.to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, meant);
    }
    error
}

/// Returns the version, and how the program was installed.
fn long_version() -> String {
    let installed = match describe_installation() {
        Ok(installed) => format!("installed: {installed}"),
        Err(problem) => format!("incomplete: {problem}"),
    };
    format!("{VERSION}\n{installed}")
}

/// Parses the arguments of the process.
pub(super) fn parse() -> Result<Cli, clap::Error> {
    let mut command = command().long_version(long_version());
    let matches = command
        .try_get_matches_from_mut(std::env::args_os())
        .map_err(|error| with_similar_command(suggest_quotes(error), &command))?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}
