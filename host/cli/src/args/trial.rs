//! The arguments of `try`.

use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
#[command(
    after_help = "Grants, limits and the model are written as in a team file: `--allow` takes a line of \
    `[role.action.allow]`, `--limit` one of `[role.action.limits]`, `--llm` one of `[llm]`.\n\nExamples:\n  \
    strata-host try greet \"good morning\"\n  \
    strata-host try calculate.wasm --arguments '{\"expression\": \"6 * 7\"}'\n  \
    strata-host try fetch.py --allow 'http = [{ host = \"example.com\", methods = [\"GET\"] }]'\n  \
    strata-host try write-code@1.0.0 \"a game\" --llm 'provider = \"openai\"' --llm 'model = \"gpt-5\"' \
    --llm 'api_key = { env = \"OPENAI_API_KEY\" }' --allow 'llm = { models = [\"*\"] }'\n\n\
    Exit codes are those of `run`: 3 if the action failed, 4 if it asks a person, 5 if its budget is used up."
)]
pub(crate) struct TryArgs {
    /// A component, a directory with the source of one, a script, a skill (`name@1.0.0`), or a built-in component
    /// (`builtin:probe`).
    #[arg(value_parser = super::parse_expanded)]
    pub(crate) component: String,
    /// The text of the message that it receives.
    #[arg(default_value = "")]
    pub(crate) message: String,
    /// Call it as a model calls a tool, with these arguments: a JSON object. They have to match the schema that the
    /// component declares.
    #[arg(long, value_name = "JSON")]
    pub(crate) arguments: Option<String>,
    /// Its configuration.
    #[arg(long, value_name = "JSON")]
    pub(crate) config: Option<String>,
    /// Add an image or a file to the message.
    #[arg(long, value_name = "PATH")]
    pub(crate) file: Vec<PathBuf>,
    /// Grant it something. Without it, it may touch nothing.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) allow: Vec<String>,
    /// Change one of its limits.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) limit: Vec<String>,
    /// Set a key of the model that it may ask.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) llm: Vec<String>,
    /// Call this function of a component that does not use the host's interfaces.
    #[arg(long, value_name = "NAME")]
    pub(crate) function: Option<String>,
    /// An additional policy to apply, besides those of the machine, the user and `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Print the result as JSON to stdout: the output, what it emitted, its state, faults, cost.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors, faults and warnings.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
