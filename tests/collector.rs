//! A collector of OpenTelemetry for tests: what it was sent over OTLP, as spans and values of metrics.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::web::Web;

/// The address of the release of the conventions.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai/0.1.0";

/// What a collector received.
#[derive(Default)]
pub struct Received {
    /// The spans.
    pub spans: Vec<Span>,
    /// The values of metrics, by their names.
    pub metrics: BTreeMap<String, Vec<Point>>,
    /// The names of the services that sent them.
    pub services: Vec<String>,
}

/// A value of a metric: the sum of a counter or of a histogram, with how many values that is.
#[derive(Debug)]
pub struct Point {
    /// The sum.
    pub sum: f64,
    /// The number of values.
    pub count: u64,
    /// The attributes.
    pub attributes: BTreeMap<String, String>,
}

impl Received {
    /// Returns what a server received, which takes only what a collector takes.
    pub fn at(web: &Web) -> Self {
        let mut received = Self::default();
        for request in web.requests() {
            let kind = request.header("content-type");
            assert_eq!(kind, Some("application/x-protobuf"), "{}", request.line);
            match request.line.as_str() {
                "POST /v1/traces" => received.add_spans(&request.body),
                "POST /v1/metrics" => received.add_metrics(&request.body),
                other => panic!("a collector has no {other}"),
            }
        }
        received
    }

    fn add_spans(&mut self, body: &[u8]) {
        let sent = ExportTraceServiceRequest::decode(body).unwrap();
        for resource in sent.resource_spans {
            let resource_attributes = texts(&resource.resource.unwrap().attributes);
            assert_eq!(resource_attributes["deployment.environment"], "test");
            self.services
                .push(resource_attributes["service.name"].clone());
            for scope in resource.scope_spans {
                assert_eq!(scope.schema_url, SCHEMA_URL);
                self.spans.extend(scope.spans);
            }
        }
    }

    fn add_metrics(&mut self, body: &[u8]) {
        let sent = ExportMetricsServiceRequest::decode(body).unwrap();
        let scopes = sent.resource_metrics.into_iter();
        for scope in scopes.flat_map(|resource| resource.scope_metrics) {
            assert_eq!(scope.schema_url, SCHEMA_URL);
            for metric in scope.metrics {
                let points: Vec<Point> = match metric.data.unwrap() {
                    Data::Sum(sum) => {
                        assert_eq!(metric.unit, "{token}", "{}", metric.name);
                        let points = sum.data_points.into_iter();
                        points
                            .map(|point| Point::counted(point.value, &point.attributes))
                            .collect()
                    }
                    Data::Histogram(histogram) => {
                        let points = histogram.data_points.into_iter();
                        points
                            .map(|point| Point {
                                sum: point.sum.unwrap(),
                                count: point.count,
                                attributes: texts(&point.attributes),
                            })
                            .collect()
                    }
                    other => panic!("{other:?}"),
                };
                self.metrics.insert(metric.name, points);
            }
        }
    }

    /// Returns the only span with a name.
    pub fn span(&self, name: &str) -> &Span {
        let found: Vec<&Span> = self.all(name);
        let [span] = found.as_slice() else {
            panic!("{} spans `{name}` among {:?}", found.len(), self.names());
        };
        span
    }

    /// Returns the spans with a name.
    pub fn all(&self, name: &str) -> Vec<&Span> {
        self.spans.iter().filter(|span| span.name == name).collect()
    }

    /// Returns the names of all spans.
    pub fn names(&self) -> Vec<&str> {
        self.spans.iter().map(|span| span.name.as_str()).collect()
    }

    /// Returns the names of a span and of its ancestors, innermost first.
    pub fn ancestors(&self, span: &Span) -> Vec<&str> {
        let mut at = self
            .spans
            .iter()
            .find(|other| other.span_id == span.span_id);
        let mut way = Vec::new();
        while let Some(span) = at {
            way.push(span.name.as_str());
            let parent = |other: &&Span| other.span_id == span.parent_span_id;
            at = self.spans.iter().find(parent);
        }
        way
    }

    /// Returns the sum of a metric.
    pub fn sum(&self, metric: &str) -> f64 {
        self.points(metric).iter().map(|point| point.sum).sum()
    }

    /// Returns the values of a metric.
    pub fn points(&self, metric: &str) -> &[Point] {
        let known: Vec<&String> = self.metrics.keys().collect();
        let points = self.metrics.get(metric);
        points.unwrap_or_else(|| panic!("no `{metric}` among {known:?}"))
    }
}

impl Point {
    fn counted(value: Option<number_data_point::Value>, attributes: &[KeyValue]) -> Self {
        let sum = match value.unwrap() {
            number_data_point::Value::AsInt(value) => value as f64,
            number_data_point::Value::AsDouble(value) => value,
        };
        Self {
            sum,
            count: 1,
            attributes: texts(attributes),
        }
    }
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let one = |attribute: &KeyValue| {
        let value = attribute.value.clone()?.value?;
        Some((attribute.key.clone(), text(value)))
    };
    attributes.iter().filter_map(one).collect()
}

fn text(value: Any) -> String {
    match value {
        Any::StringValue(text) => text,
        Any::IntValue(number) => number.to_string(),
        Any::DoubleValue(number) => number.to_string(),
        Any::BoolValue(flag) => flag.to_string(),
        Any::ArrayValue(list) => {
            let values = list.values.into_iter().filter_map(|value| value.value);
            format!("{:?}", values.map(text).collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    }
}

/// Returns the attributes of a span as texts.
pub fn attributes(span: &Span) -> BTreeMap<String, String> {
    texts(&span.attributes)
}
