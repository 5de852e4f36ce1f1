//! Reads `[telemetry]`.

use strata_services::endpoint::{ServiceKind, parse_address};
use strata_services::telemetry::TelemetrySettings;

use crate::address::read_address;
use crate::schema::kind;
use crate::table::TomlTable;

/// Reads `[telemetry]`.
pub(super) fn read_telemetry(root: &TomlTable<'_>) -> TelemetrySettings {
    root.key(
        "telemetry",
        "What is told to a collector of OpenTelemetry about runs.",
    )
    .table("`[telemetry]`", read_settings)
    .unwrap_or_default()
}

fn read_settings(table: &TomlTable<'_>) -> TelemetrySettings {
    let endpoint = table
        .key(
            "endpoint",
            "The base address of a collector that accepts OTLP over HTTP. The variable `OTEL_EXPORTER_OTLP_ENDPOINT` \
             takes precedence.",
        )
        .value(kind::url);
    let parse = |text: &str| parse_address(text, ServiceKind::Messages);
    let endpoint = endpoint.and_then(|item| read_address(&item, parse));
    let compat = table
        .key(
            "compat",
            "Whether names of older conventions are exported in addition.",
        )
        .boolean(false);
    TelemetrySettings {
        endpoint: endpoint.map(|address| address.text.value),
        compat,
    }
}
