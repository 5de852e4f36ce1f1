//! The arguments of the server, and of its tokens.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use strata_host::clock::{now_ms, parse_rfc3339};
use strata_host::storage::RunDatabase;
use strata_server::caller::Right;

use super::expanded_path;
use super::operate::parse_span;
use super::work::{parse_database, parse_drain, parse_room};
use crate::metrics;

/// Where the runs of a server are if nothing else is said.
const DEFAULT_STORAGE: &str = "workspace/serve";
/// Where a server listens if nothing else is said.
const DEFAULT_LISTEN: &str = "127.0.0.1:7464";

#[derive(Args)]
#[command(
    after_help = "All runs are kept in DIR/runs.db, which one server uses at a time, or in a database, which any number of servers \
    and workers share. On a loopback address, a token is made at the first start, in DIR/token; the address that is printed \
    contains it behind `#`.\n\nExamples:\n  \
    strata-host serve\n  \
    strata-host serve --database postgres://host/teams --behind-proxy --listen 0.0.0.0:7464 --host strata.example\n  \
    strata-host serve --storage /srv/strata --policy teams.toml --policy red=red.toml\n  \
    strata-host serve --listen 0.0.0.0:7464 --host strata.example --tls-cert chain.pem --tls-key key.pem"
)]
pub(crate) struct ServeArgs {
    /// The directory with all runs, and the token. With `--database`, only with what belongs to this server alone: the token,
    /// and the files of runs while they run.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_STORAGE, value_parser = expanded_path())]
    pub(crate) storage: PathBuf,
    /// The database with all runs, which other servers and workers may use, too; several times for several databases, the
    /// first of which takes the new runs, the tokens and what is uploaded.
    #[arg(long, value_name = "URL", value_parser = parse_database)]
    pub(crate) database: Vec<RunDatabase>,
    /// Where to listen: a local port, or `ADDRESS:PORT`. An address that is not loopback needs `--tls-cert` and `--tls-key`,
    /// or `--behind-proxy`.
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = DEFAULT_LISTEN, value_parser = metrics::parse_address)]
    pub(crate) listen: SocketAddr,
    /// The certificate, with its chain (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// A proxy in front of it encrypts what is sent, and nobody else reaches the address.
    #[arg(long)]
    pub(crate) behind_proxy: bool,
    /// A name by which the server is reached, besides those of this machine; several times for several names.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// The policy that says what submitted teams may use, besides those of the machine, the user and `$STRATA_POLICY`; with
    /// `TENANT=`, only those of a tenant, instead of that for all.
    #[arg(long, value_name = "[TENANT=]FILE")]
    pub(crate) policy: Vec<String>,
    /// How many runs it runs at the same time.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = parse_room)]
    pub(crate) room: usize,
    /// After SIGTERM or Ctrl-C, how many seconds runs may take to end by themselves before they are stopped. A second signal
    /// ends the process at once.
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_drain)]
    pub(crate) drain: Duration,
    /// Take runs, too, that were submitted for workers with this label.
    #[arg(long, value_name = "NAME")]
    pub(crate) label: Vec<String>,
    /// Only serve the API: run no teams.
    #[arg(long)]
    pub(crate) no_work: bool,
    /// Print nothing but errors and warnings.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it. It is not stored, only recognised.
    #[command(
        after_help = "Rights: submit (start runs, and control those), view (see all runs), answer (answer requests), operate \
        (control all runs), admin (make tokens).\n\nExamples:\n  \
        strata-host token create ann --rights submit,view --tenant red\n  \
        strata-host token create ci --rights submit --expires 90d"
    )]
    Create {
        /// Its name, which is recorded as who did something.
        #[arg(value_name = "NAME")]
        name: String,
        /// Its rights: submit, view, answer, operate, admin.
        #[arg(long, value_name = "RIGHT", required = true, value_delimiter = ',', value_parser = parse_right)]
        rights: Vec<Right>,
        /// The tenant whose runs it concerns; without one, all.
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// When it stops counting: `2027-01-31T12:00:00Z`, or in how long: `90d`.
        #[arg(long, value_name = "TIME", value_parser = parse_end)]
        expires: Option<i64>,
        #[command(flatten)]
        place: TokenPlaceArgs,
    },
    /// List tokens, without their texts.
    #[command(after_help = "Examples:\n  strata-host token list --json")]
    List {
        /// Print one JSON object a line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: TokenPlaceArgs,
    },
    /// Revoke a token. Its streams end.
    #[command(after_help = "Examples:\n  strata-host token revoke ann --tenant red")]
    Revoke {
        /// Its name.
        #[arg(value_name = "NAME")]
        name: String,
        /// Its tenant.
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        place: TokenPlaceArgs,
    },
}

/// Whose tokens are meant.
#[derive(Args)]
pub(crate) struct TokenPlaceArgs {
    /// The directory of a server that does not run.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_STORAGE, value_parser = expanded_path())]
    pub(crate) storage: PathBuf,
    /// The database of servers, which may run.
    #[arg(long, value_name = "URL", conflicts_with = "storage", value_parser = parse_database)]
    pub(crate) database: Option<RunDatabase>,
}

fn parse_right(text: &str) -> Result<Right, String> {
    Right::from_name(text).ok_or_else(|| {
        let names = Right::ALL.map(Right::name);
        format!("the rights are: {}", names.join(", "))
    })
}

/// Parses a time to come, in milliseconds since 1970.
fn parse_end(text: &str) -> Result<i64, String> {
    let time_ms = match parse_span(text) {
        Ok(span) => now_ms().checked_add(span),
        Err(_) => parse_rfc3339(text),
    };
    time_ms.filter(|time_ms| *time_ms > now_ms()).ok_or_else(|| {
        "give a time to come such as `2099-01-31T12:00:00Z`, or in how long it is: `15m`, `24h`, `90d`".into()
    })
}
