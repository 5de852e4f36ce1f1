//! A request whose caller is known.

use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Body;
use axum::http::HeaderMap;
use serde::de::DeserializeOwned;
use strata_host::storage::ServedRun;

use crate::body::{parse_json, read_body, require_json};
use crate::caller::{Caller, Deed};
use crate::cut_off::CutOff;
use crate::problem::Problem;
use crate::query::Query;
use crate::server::Server;
use crate::usage::UsagePermit;

/// How many hexadecimal digits the id of a run has.
const RUN_ID_CHARS: usize = 32;

/// A request whose caller is known.
pub struct Context {
    /// What all requests share.
    pub server: Arc<Server>,
    /// Who makes it.
    pub caller: Caller,
    /// Its token, to look later whether that still counts.
    pub token: String,
    /// The parts of the path that are variable, decoded.
    pub params: Vec<(String, String)>,
    /// The parameters of its query.
    pub query: Query,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its method and its path, by which a repetition is recognised.
    pub target: String,
    /// Its body, until that is read.
    pub body: BodySlot,
    /// Counts it as one that is under way.
    pub permit: Option<UsagePermit>,
    /// Breaks its connection off.
    pub cut_off: CutOff,
}

/// The body of a request, until that is read.
pub struct BodySlot(Mutex<Body>);

impl BodySlot {
    /// Returns that of a body.
    pub fn new(body: Body) -> Self {
        Self(Mutex::new(body))
    }

    /// Returns the body. After that it is empty.
    pub fn take(&mut self) -> Body {
        let body = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(body)
    }
}

impl Context {
    /// Returns a variable part of the path.
    pub fn param(&self, name: &str) -> &str {
        let found = self.params.iter().find(|(one, _)| one == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// Reads the body, which has to be JSON.
    pub async fn read_json(&mut self, limit: u64) -> Result<Vec<u8>, Problem> {
        let body = self.body.take();
        // Its size is refused before its type: a client may have sent all of it by then.
        let declared = self.headers.get(axum::http::header::CONTENT_LENGTH);
        let declared = declared.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if declared.is_some_and(|length| length > limit) {
            return Err(Problem::too_large(limit));
        }
        require_json(&self.headers)?;
        read_body(&self.headers, body, limit).await
    }

    /// Reads and parses a body that may be absent.
    pub async fn optional_json<T: DeserializeOwned + Default>(
        &mut self,
        limit: u64,
    ) -> Result<T, Problem> {
        let body = self.body.take();
        let bytes = read_body(&self.headers, body, limit).await?;
        if bytes.is_empty() {
            return Ok(T::default());
        }
        require_json(&self.headers)?;
        parse_json(&bytes)
    }

    /// Returns the run that the path names, if the caller may do something with it.
    pub async fn run(&self, deed: Deed) -> Result<ServedRun, Problem> {
        let (name, caller) = (self.param("run").to_owned(), self.caller.clone());
        self.server
            .blocking(move |server| find_run(server, &caller, &name, deed))
            .await
    }
}

/// Whether a text has the form of the id of a run.
pub fn is_run_id(text: &str) -> bool {
    text.len() == RUN_ID_CHARS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the run with a name or an id, if a caller may do something with it.
pub fn find_run(
    server: &Server,
    caller: &Caller,
    name: &str,
    deed: Deed,
) -> Result<ServedRun, Problem> {
    let unknown = || Problem::not_found("run");
    if name.is_empty() || name.chars().all(|c| c == '.') || name.contains('\0') {
        return Err(unknown());
    }
    // A run of another tenant than the token's own is named `TENANT/NAME`.
    let (tenant, own) = match name.split_once('/') {
        Some((tenant, own)) if caller.is_of_tenant(tenant) => (tenant, own),
        Some(_) => return Err(unknown()),
        None => (caller.own_tenant(), name),
    };
    // An id never changes its meaning, whatever the names of other runs are.
    let by_id = || server.databases.find_by_id(name);
    let sees = |run: &ServedRun| caller.may(Deed::SeeRequests, run);
    if is_run_id(name)
        && let Some(run) = by_id()?.filter(sees)
    {
        caller.authorize(deed, &run)?;
        return Ok(run);
    }
    let by_name = server.databases.find_by_name(tenant, own);
    let by_name = by_name.map(|found| found.filter(|run| run.tenant == tenant));
    let found = match by_name {
        Ok(Some(run)) if sees(&run) => Some(run),
        // A run may be found by its id although a database is away.
        by_name => match by_id()? {
            Some(run) => Some(run),
            None => by_name?,
        },
    };
    let run = found.ok_or_else(unknown)?;
    caller.authorize(deed, &run)?;
    Ok(run)
}
