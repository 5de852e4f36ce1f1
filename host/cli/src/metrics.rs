//! `--metrics`: starts the metrics server of a run.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use strata_host::metrics::Metrics;
use strata_host::owner::serve_metrics;

use super::{CommandFailure, Printer};

/// Parses an address given as `9464` or `127.0.0.1:9464`.
pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let alone = || {
        text.parse()
            .ok()
            .map(|port: u16| SocketAddr::from((IpAddr::V4(Ipv4Addr::LOCALHOST), port)))
    };
    let whole = || text.parse().ok();
    alone().or_else(whole).ok_or_else(|| {
        "give a port of this machine, or an address and a port: `127.0.0.1:9464`".into()
    })
}

/// Starts the server and returns the metrics that it serves.
pub(super) async fn serve(
    address: SocketAddr,
    printer: &Printer,
) -> Result<Arc<Metrics>, CommandFailure> {
    let metrics = Arc::new(Metrics::default());
    let served = metrics.clone();
    let bound = serve_metrics(address, move || served.to_text()).await;
    let bound = bound.map_err(|error| {
        CommandFailure::usage(format!("cannot serve metrics at `{address}`: {error}"))
    })?;
    if !printer.is_quiet() {
        printer.note(format_args!("metrics are at http://{bound}/metrics"));
    }
    Ok(metrics)
}
