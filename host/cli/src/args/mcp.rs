//! The arguments of `mcp`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use strata_host::telemetry::TelemetryExport;

#[derive(Args)]
#[command(after_help = "Examples:\n  strata-host mcp team.toml\n  \
    strata-host mcp /srv/press/team.toml --storage /srv/press/runs\n  \
    strata-host mcp team.toml --listen 127.0.0.1:7465\n  \
    strata-host mcp count-words.wasm calculate\n\n\
    A client starts it as a program of its own: in the settings of the client, the command is `strata-host` and the \
    arguments are these. Give absolute paths there, since clients start their servers in any directory.")]
pub(crate) struct McpArgs {
    /// The team file (ends in .toml), or components: files, directories with the source of one, scripts, skills
    /// (`name@1.0.0`).
    #[arg(value_name = "TEAM.toml | COMPONENT", required = true, value_parser = super::parse_expanded)]
    pub(crate) words: Vec<String>,
    /// The directory in which each run of the team has its own storage directory; by default
    /// `workspace/mcp/NAME` by the team's name.
    #[arg(long, value_name = "DIR", value_parser = super::expanded_path())]
    pub(crate) storage: Option<PathBuf>,
    /// Serve HTTP at this address, at `/mcp`, instead of standard input and output. A port alone is one of this
    /// machine.
    #[arg(long, value_name = "ADDRESS", value_parser = crate::metrics::parse_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// The file with the token that every request over HTTP has to bear. Any address but a loopback one needs it.
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub(crate) token_file: Option<PathBuf>,
    /// A name, besides those of this machine, to which requests over HTTP may be addressed.
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub(crate) host: Vec<String>,
    /// An additional policy to apply, besides those of the machine, the user and `$STRATA_POLICY`.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Print nothing but errors and warnings.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// The export of telemetry. It is no argument.
    #[arg(skip)]
    pub(crate) telemetry: TelemetryExport,
}
