//! The URL of a run in PostgreSQL: `postgres://USER@HOST:PORT/DATABASE?run=NAME`. It is parsed once; the
//! password that it may contain appears in no message.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};
use strata_base::text::excerpt::excerpt;
use strata_base::text::suggest::suggest;
use strata_base::text::unexpanded_path::UnexpandedPath;
use strata_core::text::find_unfit_for_name;
use url::Url;

use super::error::StoreError;

/// The schemes with which a URL of a database begins.
const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// The parameters that a URL may have.
const PARAMETERS: [&str; 8] = [
    "run",
    "host",
    "port",
    "user",
    "password",
    "sslmode",
    "sslrootcert",
    "prepare",
];
/// The variable of the environment with a password, as for PostgreSQL's own programs.
const PASSWORD_VARIABLE: &str = "PGPASSWORD";
const DEFAULT_PORT: u16 = 5432;
/// The characters that are not written as they are.
pub const ENCODED_IN_URLS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');
/// The maximum length of a run's name. It is part of file names and of other URLs.
pub const MAX_NAME_CHARS: usize = 200;
/// How much is shown of what cannot be one.
const MAX_SHOWN_CHARS: usize = 40;

/// A database, and the run in it.
#[derive(Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    /// Where the server is.
    pub host: DatabaseHost,
    /// Its port, which is part of the name of a socket, too.
    pub port: u16,
    /// The user, if it is given.
    pub user: Option<String>,
    /// The password, which no message shows.
    pub password: Option<String>,
    /// The name of the database.
    pub database: String,
    /// Whether the connection is encrypted.
    pub encryption: Encryption,
    /// A file with the certificates that are trusted instead of the system's.
    pub root_certificates: Option<PathBuf>,
    /// Whether statements may be prepared. A pooler may run each transaction on another connection,
    /// which has not prepared them.
    pub can_prepare: bool,
    /// The name of the run, if it is given.
    pub run: Option<String>,
}

/// Where the server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseHost {
    /// At an address of the network.
    Tcp(String),
    /// The directory of its socket.
    Socket(PathBuf),
}

/// Whether the connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// It is not.
    None,
    /// The server's certificate is not checked.
    Unverified,
    /// The server's certificate has to be trusted and to name the host.
    Verified,
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DatabaseUrl({self})")
    }
}

/// Shows the URL without its password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = &self.user {
            write!(f, "{}@", encode(user))?;
        }
        if let DatabaseHost::Tcp(host) = &self.host {
            f.write_str(host)?;
            if self.port != DEFAULT_PORT {
                write!(f, ":{}", self.port)?;
            }
        }
        write!(f, "/{}", encode(&self.database))?;
        let mut separator = '?';
        let mut parameter = |f: &mut fmt::Formatter<'_>, name: &str, value: &str| {
            let written = write!(f, "{separator}{name}={}", encode(value));
            separator = '&';
            written
        };
        if let Some(run) = &self.run {
            parameter(f, "run", run)?;
        }
        if let DatabaseHost::Socket(path) = &self.host {
            parameter(f, "host", &path.to_string_lossy())?;
            if self.port != DEFAULT_PORT {
                parameter(f, "port", &self.port.to_string())?;
            }
        }
        if self.encryption != default_encryption(&self.host) {
            let mode = match self.encryption {
                Encryption::None => "disable",
                Encryption::Unverified => "require",
                Encryption::Verified => "verify-full",
            };
            parameter(f, "sslmode", mode)?;
        }
        if let Some(path) = &self.root_certificates {
            parameter(f, "sslrootcert", &path.to_string_lossy())?;
        }
        if !self.can_prepare {
            parameter(f, "prepare", "off")?;
        }
        Ok(())
    }
}

impl DatabaseUrl {
    /// Whether a text is meant as such a URL.
    pub fn is_url(text: &str) -> bool {
        SCHEMES.iter().any(|scheme| text.starts_with(scheme))
    }

    /// Reads a URL.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let refuse = |what: String| StoreError::InvalidUrl {
            url: without_password(text),
            what,
        };
        // The URL may be wrong in the part that contains the password, so it is not quoted further.
        let url = Url::parse(&with_host(text)).map_err(|error| refuse(error.to_string()))?;
        let decode = |part: &str| {
            percent_encoding::percent_decode_str(part)
                .decode_utf8()
                .map(|text| text.into_owned())
                .map_err(|_| refuse("it is not UTF-8".into()))
        };
        let database = decode(url.path().trim_start_matches('/'))?;
        if database.is_empty() || database.contains('/') {
            return Err(refuse(
                "it names no database; write `postgres://HOST/DATABASE?run=NAME`".into(),
            ));
        }
        let mut parsed = Self {
            host: DatabaseHost::Tcp("localhost".into()),
            port: url.port().unwrap_or(DEFAULT_PORT),
            user: (!url.username().is_empty())
                .then(|| decode(url.username()))
                .transpose()?,
            password: url.password().map(decode).transpose()?,
            database,
            encryption: Encryption::None,
            root_certificates: None,
            can_prepare: true,
            run: None,
        };
        if let Some(host) = url.host_str().filter(|host| !host.is_empty()) {
            parsed.host = DatabaseHost::Tcp(decode(host)?);
        }
        let mut encryption = None;
        for (name, value) in url.query_pairs() {
            match &*name {
                "run" => parsed.run = Some(check_stored_name(&value).map_err(refuse)?),
                "host" if value.starts_with('/') => {
                    parsed.host = DatabaseHost::Socket(value.as_ref().into());
                }
                "host" => parsed.host = DatabaseHost::Tcp(value.into_owned()),
                "port" => {
                    let port = value.parse().ok();
                    parsed.port = port.ok_or_else(|| refuse(format!("`{value}` is no port")))?;
                }
                "user" => parsed.user = Some(value.into_owned()),
                "password" => parsed.password = Some(value.into_owned()),
                "sslmode" => encryption = Some(encryption_of(&value).map_err(refuse)?),
                "sslrootcert" => parsed.root_certificates = Some(ca_path(&value).map_err(refuse)?),
                "prepare" => {
                    parsed.can_prepare = match &*value {
                        "on" => true,
                        "off" => false,
                        _ => {
                            return Err(refuse(format!("`prepare={value}` is neither on nor off")));
                        }
                    }
                }
                name => {
                    let hint = suggest(name, &PARAMETERS).unwrap_or_default();
                    return Err(refuse(format!(
                        "it has an unknown parameter `{name}`; {hint}"
                    )));
                }
            }
        }
        parsed.encryption = encryption.unwrap_or_else(|| default_encryption(&parsed.host));
        if parsed.password.is_none() {
            parsed.password = std::env::var(PASSWORD_VARIABLE).ok();
        }
        Ok(parsed)
    }

    /// Returns the user, or the one that PostgreSQL's own programs would use.
    pub fn user_or_default(&self) -> String {
        let from = |variable: &str| std::env::var(variable).ok();
        let user = self.user.clone().or_else(|| from("PGUSER"));
        user.or_else(|| from("USER"))
            .unwrap_or_else(|| "postgres".into())
    }

    /// Returns the URL of another run in the same database.
    pub fn with_run(&self, run: &str) -> Self {
        Self {
            run: Some(run.into()),
            ..self.clone()
        }
    }

    /// Returns it without its password, as the path in messages.
    pub fn to_path(&self) -> PathBuf {
        Path::new(&self.to_string()).to_path_buf()
    }
}

/// Returns a URL with a host behind the account, where PostgreSQL's own programs need none.
fn with_host(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return text.into();
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    if authority.ends_with('@') {
        format!("{scheme}://{authority}localhost{rest}")
    } else {
        text.into()
    }
}

/// Returns a name for a run, if it may be one: it is part of URLs and paths, and typed into shells.
///
/// # Errors
/// Fails with a text that says what a name may be.
pub fn check_run_name(name: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_alphanumeric() || "._-".contains(c);
    let length = name.chars().count();
    let is_only_dots = name.chars().all(|c| c == '.');
    // Commands would take it for an option.
    let is_option = name.starts_with('-');
    if name.chars().all(is_allowed) && !is_only_dots && !is_option && length <= MAX_NAME_CHARS {
        Ok(name.into())
    } else {
        Err(format!(
            "`{}` cannot be the name of a run: 1 to {MAX_NAME_CHARS} letters, digits, `.`, `_` and `-` can be one, not only \
             dots, and without a `-` at the beginning",
            excerpt(name, MAX_SHOWN_CHARS).escape_debug()
        ))
    }
}

/// Fails unless a run that a command creates may have the name that a URL gives it.
pub fn require_new_name(url: &impl fmt::Display, name: Option<&str>) -> Result<(), StoreError> {
    let checked = name.map_or(Ok(String::new()), check_run_name);
    checked.map(drop).map_err(|what| StoreError::InvalidUrl {
        url: url.to_string(),
        what,
    })
}

/// Returns a name under which a run may be stored: besides those that commands give, those that the clients of servers
/// give, and those of runs in other tenants, `TENANT/NAME`.
///
/// # Errors
/// Fails with a text that says what a name may be.
pub fn check_stored_name(name: &str) -> Result<String, String> {
    let (tenant, own) = name
        .split_once('/')
        .map_or((None, name), |(tenant, own)| (Some(tenant), own));
    let is_allowed = |c: char| !c.is_control() && c != '/';
    let is_name = |text: &str| {
        (1..=MAX_NAME_CHARS).contains(&text.chars().count())
            && text.chars().all(is_allowed)
            && !text.chars().all(|c| c == '.')
            && text.trim() == text
            && find_unfit_for_name(text).is_none()
    };
    if is_name(own) && tenant.is_none_or(|tenant| check_run_name(tenant).is_ok()) {
        Ok(name.into())
    } else {
        Err(format!(
            "`{}` cannot be the name of a run: 1 to {MAX_NAME_CHARS} characters can be one, without `/` and those that are \
             not seen, and not only dots",
            excerpt(name, MAX_SHOWN_CHARS).escape_debug()
        ))
    }
}

/// Returns the path of a file with root certificates. Fails if a shell would have replaced something in
/// it.
fn ca_path(path: &str) -> Result<PathBuf, String> {
    match UnexpandedPath::find(path) {
        Some(unexpanded) => Err(format!("{unexpanded}: {}", unexpanded.hint())),
        None => Ok(path.into()),
    }
}

fn encryption_of(mode: &str) -> Result<Encryption, String> {
    match mode {
        "disable" => Ok(Encryption::None),
        "require" => Ok(Encryption::Unverified),
        "verify-full" => Ok(Encryption::Verified),
        _ => Err(format!(
            "`sslmode={mode}` is not supported; the modes are disable, require and verify-full"
        )),
    }
}

/// Returns whether a connection is encrypted if the URL does not say so: what stays on this machine
/// need not be.
fn default_encryption(host: &DatabaseHost) -> Encryption {
    let is_local = match host {
        DatabaseHost::Socket(_) => true,
        DatabaseHost::Tcp(host) => {
            let address = host.trim_start_matches('[').trim_end_matches(']');
            let is_loopback = |address: IpAddr| address.is_loopback();
            host == "localhost" || address.parse().is_ok_and(is_loopback)
        }
    };
    if is_local {
        Encryption::None
    } else {
        Encryption::Verified
    }
}

/// Returns a URL without its password, even if it cannot be parsed.
fn without_password(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("postgres", text));
    let (before, parameters) = match rest.split_once('?') {
        Some((before, parameters)) => (before, Some(parameters)),
        None => (rest, None),
    };
    // A password that is not encoded may itself contain `@` or `/`.
    let shown = match before.rsplit_once('@') {
        Some((account, place)) => {
            let user = account.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{place}")
        }
        None => format!("{scheme}://{before}"),
    };
    let is_shown = |parameter: &&str| !parameter.starts_with("password");
    let parameters: Vec<&str> = parameters.unwrap_or_default().split('&').collect();
    let parameters: Vec<&str> = parameters.into_iter().filter(is_shown).collect();
    match parameters.join("&") {
        none if none.is_empty() => shown,
        parameters => format!("{shown}?{parameters}"),
    }
}

fn encode(text: &str) -> impl fmt::Display {
    percent_encoding::utf8_percent_encode(text, ENCODED_IN_URLS).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password_and_means_the_same() {
        let check = |text: &str, shown: &str| {
            let url = DatabaseUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("DatabaseUrl({shown})"));
            let again = DatabaseUrl::parse(shown).unwrap();
            assert_eq!(again.to_string(), shown);
        };
        check(
            "postgres://anna:s3cret@db.example.com/teams?run=one",
            "postgres://anna@db.example.com/teams?run=one",
        );
        check(
            "postgresql://localhost:5433/teams?run=a.b&prepare=off",
            "postgres://localhost:5433/teams?run=a.b&prepare=off",
        );
        check(
            "postgres:///teams?host=/var/run/postgresql&run=one&password=s3cret",
            "postgres:///teams?run=one&host=%2Fvar%2Frun%2Fpostgresql",
        );
        check(
            "postgres://anna@/teams?host=/tmp&port=5433&run=one",
            "postgres://anna@/teams?run=one&host=%2Ftmp&port=5433",
        );
        check(
            "postgres://127.0.0.1/teams?sslmode=verify-full&sslrootcert=/ca.pem",
            "postgres://127.0.0.1/teams?sslmode=verify-full&sslrootcert=%2Fca.pem",
        );
    }

    #[test]
    fn only_what_stays_on_this_machine_is_not_encrypted_by_default() {
        let check = |text: &str, expected: Encryption| {
            let url = DatabaseUrl::parse(text).unwrap();
            assert_eq!(url.encryption, expected, "{text}");
        };
        check("postgres://localhost/d", Encryption::None);
        check("postgres://[::1]/d", Encryption::None);
        check("postgres:///d?host=/tmp", Encryption::None);
        check("postgres://10.0.0.1/d", Encryption::Verified);
        check("postgres://db.example.com/d", Encryption::Verified);
        check("postgres://db/d?sslmode=require", Encryption::Unverified);
    }

    #[test]
    fn an_error_says_what_is_wrong_and_never_the_password() {
        let check = |text: &str, expected: &str| {
            let error = DatabaseUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        };
        check("postgres://anna:s3cret@db", "it names no database");
        check("postgres://anna:s3cret@db:port/d", "invalid port number");
        check("postgres://anna:s3cret/@d b:port/d", "anna@d b:port/d");
        check(
            "postgres://db/d?rum=one&password=s3cret",
            "did you mean `run`?",
        );
        check(
            "postgres://db/d?run=a/b/c",
            "`a/b/c` cannot be the name of a run",
        );
        check("postgres://db/d?run=", "cannot be the name");
        check("postgres://db/d?sslmode=prefer", "the modes are");
        check("postgres://db/d?prepare=never", "neither on nor off");
        let home = "no shell reads the path `~/ca.pem`";
        check("postgres://db/d?sslrootcert=~/ca.pem", home);
    }
}
