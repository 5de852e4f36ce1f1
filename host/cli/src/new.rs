//! `new`: creates an action or a team from a template. `sdk`: prints the directory of an SDK.

use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use strata_host::build::Kit;
use strata_host::scaffold::{self, LANGUAGES, ScaffoldError};

use super::{CommandFailure, Printer};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host new team press && strata-host run press/team.toml\n  \
    strata-host new team helper --tools\n  \
    strata-host new action greet-people --lang python"
)]
pub(super) struct NewArgs {
    /// What to create.
    #[arg(value_enum)]
    thing: Thing,
    /// Its name, and that of its directory, which is made here: lower-case letters, digits and dashes.
    name: String,
    /// The language of the action.
    #[arg(long, value_parser = language_parser(), default_value = LANGUAGES[0].name)]
    lang: String,
    /// Create a team with a role whose model works with tools.
    #[arg(long, conflicts_with = "lang")]
    tools: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Thing {
    /// An action, with a test of it.
    Action,
    /// A team of two with an action and scripted replies.
    Team,
}

pub(super) fn new(args: &NewArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let language = LANGUAGES
        .iter()
        .find(|language| language.name == args.lang)
        .expect("clap takes no other");
    let here = Path::new("");
    let refused = |error: ScaffoldError| CommandFailure::usage(error.to_string());
    let name = &args.name;
    let test = language.test_command("strata-host");
    match args.thing {
        Thing::Action if args.tools => {
            return Err(CommandFailure::usage(
                "an action has no tools; write `new team NAME --tools`",
            ));
        }
        Thing::Team if args.tools => {
            scaffold::create_team_with_tools(here, name).map_err(refused)?;
            printer.note(format_args!(
                "made the team `{name}`, with a role whose model works with tools; next:\n  cd {name}\n  \
                 strata-host run team.toml"
            ));
        }
        Thing::Action => {
            scaffold::create_action(here, name, language).map_err(refused)?;
            printer.note(format_args!(
                "made the action `{name}` in {}; next:\n  cd {name}\n  {test}\n  strata-host build\n\
                 A team uses it by `component = \"…/{name}\"`, with `config = {{ instruction = \"…\" }}` and \
                 `llm` in its `allow`.",
                language.name
            ));
        }
        Thing::Team => {
            scaffold::create_team(here, name, language).map_err(refused)?;
            printer.note(format_args!(
                "made the team `{name}`, with an action in {}; next:\n  cd {name}\n  strata-host run team.toml",
                language.name
            ));
        }
    }
    printer.print(name);
    Ok(0)
}

pub(super) fn sdk(name: &str, printer: &Printer) -> Result<u8, CommandFailure> {
    let Some(kit) = Kit::by_name(name) else {
        let known = Kit::ALL
            .iter()
            .map(|kit| format!("`{}`", kit.name()))
            .collect::<Vec<_>>()
            .join(", ");
        return Err(CommandFailure::usage(format!(
            "looking for the SDK `{name}`: there is none; there are {known}"
        )));
    };
    let dir = kit
        .unpack()
        .map_err(|error| CommandFailure::usage(error.to_string()))?;
    printer.print(&dir.display().to_string());
    Ok(0)
}

fn language_parser() -> PossibleValuesParser {
    LANGUAGES
        .iter()
        .map(|language| language.name)
        .collect::<Vec<_>>()
        .into()
}
