//! `new`: creates an action or a team from a template. `sdk`: prints the directory of an SDK.

use std::path::Path;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use strata_host::build::inventory::{ToolchainStatus, toolchain_of};
use strata_host::build::{Kit, is_built};
use strata_host::manifest::schema::{self, FileKind};
use strata_host::scaffold::example::create_example;
use strata_host::scaffold::{self, EditorSchemas, LANGUAGES, ScaffoldError, TemplateLanguage};

use super::{CommandFailure, Printer};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  strata-host new team press --lang python && strata-host run press/team.toml\n  \
    strata-host new team helper --tools\n  \
    strata-host new team --example snake\n  \
    strata-host new action greet-people --lang python"
)]
pub(super) struct NewArgs {
    /// What to create.
    #[arg(value_enum)]
    thing: Thing,
    /// Its name, and that of its directory, which is made here: lower-case letters, digits and dashes. By default that of
    /// the example.
    #[arg(required_unless_present = "example")]
    name: Option<String>,
    /// The language of the action; rust by default.
    #[arg(long, value_parser = language_parser())]
    lang: Option<String>,
    /// Create a team with a role whose model works with tools, which are scripts in Python.
    #[arg(long)]
    tools: bool,
    /// Copy an example team, with the components that it uses: `snake`, `analyst`, `werewolf`, `map-reduce`, `polyglot`,
    /// `scripts`, `five-calls`, `orders` or `library`. The examples come with a package of the program.
    #[arg(long, value_name = "EXAMPLE", conflicts_with_all = ["lang", "tools"])]
    example: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Thing {
    /// An action, with a test of it.
    Action,
    /// A team of two with an action and scripted replies.
    Team,
}

/// The language of the scripts that `--tools` creates.
const TOOLS_LANGUAGE: &str = "python";

/// What a new team is made from.
enum TeamTemplate<'a> {
    /// The template with an action in this language.
    Action(&'a TemplateLanguage),
    /// The template whose role works with tools.
    Tools,
    /// An example.
    Example(&'a str),
}

pub(super) fn new(args: &NewArgs, printer: &Printer) -> Result<u8, CommandFailure> {
    let lang = args.lang.as_deref().unwrap_or(LANGUAGES[0].name);
    let language = LANGUAGES
        .iter()
        .find(|language| language.name == lang)
        .expect("clap takes no other");
    if args.tools && lang != TOOLS_LANGUAGE && args.lang.is_some() {
        return Err(CommandFailure::usage(format!(
            "the tools of `--tools` are scripts in {TOOLS_LANGUAGE}; leave `--lang` out, and replace the scripts by those in another language"
        )));
    }
    let name = args.name.as_ref().or(args.example.as_ref());
    let name = name.expect("clap requires one of them");
    match args.thing {
        Thing::Action if args.tools => {
            return Err(CommandFailure::usage(
                "an action has no tools; write `new team NAME --tools`",
            ));
        }
        Thing::Action if args.example.is_some() => {
            return Err(CommandFailure::usage(
                "examples are teams; write `new team --example NAME`",
            ));
        }
        Thing::Action => {
            let directory =
                scaffold::create_action(HERE.as_ref(), name, language).map_err(refused)?;
            let test = language.test_command("strata-host");
            printer.note(format_args!(
                "made the action `{name}` in {}; next:\n  cd {name}\n  {test}\n  strata-host build\n\
                 A team uses it by `component = \"…/{name}\"`, with `config = {{ instruction = \"…\" }}` and \
                 `llm` in its `allow`.",
                language.name
            ));
            note_missing_tools(&directory, language, printer);
        }
        Thing::Team => {
            let template = match &args.example {
                Some(example) => TeamTemplate::Example(example),
                None if args.tools => TeamTemplate::Tools,
                None => TeamTemplate::Action(language),
            };
            new_team(name, template, printer)?;
        }
    }
    printer.print(name);
    Ok(0)
}

/// Where new directories are made.
const HERE: &str = "";

fn refused(error: ScaffoldError) -> CommandFailure {
    CommandFailure::usage(error.to_string())
}

fn new_team(
    name: &str,
    template: TeamTemplate<'_>,
    printer: &Printer,
) -> Result<(), CommandFailure> {
    let here = Path::new(HERE);
    let schemas = || EditorSchemas {
        team: format!("{:#}\n", schema::document(FileKind::Team)),
        replies: format!("{:#}\n", schema::document(FileKind::Replies)),
    };
    let description = match template {
        TeamTemplate::Example(example) => {
            create_example(here, name, example, &schemas()).map_err(refused)?;
            format!("the team `{name}`, the example `{example}` with its components")
        }
        TeamTemplate::Tools => {
            scaffold::create_team_with_tools(here, name, &schemas()).map_err(refused)?;
            format!("the team `{name}`, with a role whose model works with tools")
        }
        TeamTemplate::Action(language) => {
            scaffold::create_team(here, name, language, &schemas()).map_err(refused)?;
            format!("the team `{name}`, with an action in {}", language.name)
        }
    };
    printer.note(format_args!(
        "made {description}; next:\n  cd {name}\n  strata-host run team.toml"
    ));
    if let TeamTemplate::Action(language) = template {
        let action = here.join(name).join(scaffold::TEAM_ACTION_DIR);
        note_missing_tools(&action, language, printer);
    }
    Ok(())
}

/// Says so if the action in a directory has to be built and this machine lacks what builds it.
fn note_missing_tools(action: &Path, language: &TemplateLanguage, printer: &Printer) {
    let toolchain = toolchain_of(language.name).filter(|_| is_built(action));
    if let Some(ToolchainStatus {
        found: Err(missing),
        advice,
        ..
    }) = toolchain
    {
        printer.warn(format_args!(
            "{missing}; {advice}. With `--lang python`, `js` or `ts` nothing has to be installed"
        ));
    }
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
