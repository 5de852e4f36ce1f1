//! `--metrics`: starts the metrics server of a run, or of a worker.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use strata_host::metrics::Metrics;
use strata_host::operate::ProcessMetrics;
use strata_host::owner::{Monitoring, serve_metrics, serve_monitoring};

use super::{CommandFailure, Printer};

/// How long the metrics of a process wait for its databases.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(1);

/// Parses an address given as `9464`, `127.0.0.1:9464` or `localhost:9464`.
pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost:").unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from((IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
    }
    text.parse().map_err(|_| {
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
    let bound = bound.map_err(|error| unavailable(address, &error))?;
    if !printer.is_quiet() {
        printer.note(format_args!("metrics are at http://{bound}/metrics"));
    }
    Ok(metrics)
}

/// Starts the server of a process with many runs, and returns its address.
pub(super) async fn serve_process(
    address: SocketAddr,
    metrics: &Arc<ProcessMetrics>,
) -> Result<SocketAddr, CommandFailure> {
    let (served, checked) = (Arc::clone(metrics), Arc::clone(metrics));
    let monitoring = Monitoring {
        metrics: Arc::new(move || {
            let metrics = Arc::clone(&served);
            Box::pin(async move {
                let databases = Arc::clone(&metrics);
                let refresh = tokio::task::spawn_blocking(move || databases.refresh());
                // A database that is away is no reason to serve nothing.
                let _ = tokio::time::timeout(REFRESH_TIMEOUT, refresh).await;
                metrics.to_text()
            })
        }),
        readiness: Arc::new(move || checked.check_ready()),
    };
    let bound = serve_monitoring(address, monitoring).await;
    bound.map_err(|error| unavailable(address, &error))
}

fn unavailable(address: SocketAddr, error: &std::io::Error) -> CommandFailure {
    CommandFailure::usage(format!("cannot serve metrics at `{address}`: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_this_machine() {
        let cases = [
            ("9464", Some("127.0.0.1:9464")),
            ("localhost:9464", Some("127.0.0.1:9464")),
            ("0.0.0.0:80", Some("0.0.0.0:80")),
            ("[::1]:80", Some("[::1]:80")),
            ("localhost", None),
            ("127.0.0.1", None),
            ("127.0.0.1:99999", None),
            ("strata.example:80", None),
        ];
        for (text, expected) in cases {
            let parsed = parse_address(text).map(|address| address.to_string());
            assert_eq!(parsed.ok().as_deref(), expected, "{text}");
        }
    }
}
