//! The events of runs, as lists and as streams.

use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, header};
use serde_json::value::RawValue;
use strata_host::launch::EventReader;

use crate::answer::{empty, json};
use crate::caller::Deed;
use crate::context::{Context, find_run};
use crate::operations::Answer;
use crate::problem::Problem;
use crate::server::ServerPhase;
use crate::streams::all_events::AllEvents;
use crate::streams::model_text::TextStream;
use crate::streams::run_events::{AfterEnd, RunEvents};
use crate::streams::run_feed::FeedLine;
use crate::streams::sse::{MessageSource, NewStream};

/// The media type of streams.
const EVENT_STREAM: &str = "text/event-stream";
/// The longest id of a message that a client gives.
const MAX_ID_BYTES: usize = 64 << 10;

/// Whether a client asks for a stream.
fn wants_stream(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter();
    let mut accepts = accepts
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','));
    accepts.any(|one| one.split(';').next().unwrap_or_default().trim() == EVENT_STREAM)
}

/// Returns the id of the last message that a client has.
fn last_event_id(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get("last-event-id") else {
        return Ok(None);
    };
    let id = value.to_str().ok().filter(|id| id.len() <= MAX_ID_BYTES);
    id.map(|id| Some(id).filter(|id| !id.is_empty()))
        .ok_or_else(|| Problem::refused("`Last-Event-ID` is no id that a stream gave"))
}

/// Opens a stream.
fn open<S: MessageSource>(mut context: Context, source: S) -> Answer {
    if *context.server.phase.borrow() != ServerPhase::Serving {
        return Err(Problem::unavailable("the server is about to end"));
    }
    let permit = context.server.usage.begin_stream(&context.caller)?;
    // A stream is counted as such only.
    drop(context.permit.take());
    let stream = NewStream {
        server: Arc::clone(&context.server),
        token: context.token,
        _permit: permit,
        cut_off: context.cut_off,
        source,
    };
    Ok(stream.open())
}

pub async fn list_events(context: Context) -> Answer {
    let run = context.run(Deed::See).await?;
    let after = context.query.number("after")?;
    if !is_list(&context) {
        let last = match last_event_id(&context.headers)? {
            // What is no number was given by no stream of a run.
            Some(id) => Some(id.parse().unwrap_or(u64::MAX)),
            None => after,
        };
        let has_last = context.headers.contains_key("last-event-id");
        let server = Arc::clone(&context.server);
        let (events, is_finished) = context
            .server
            .blocking(move |_| {
                let events = RunEvents::open(&server, run, last, AfterEnd::Nothing)?;
                let is_finished = has_last && events.is_finished()?;
                Ok((events, is_finished))
            })
            .await?;
        return if is_finished {
            Ok(empty(StatusCode::NO_CONTENT))
        } else {
            open(context, events)
        };
    }
    let limit = context.query.limit()?;
    let page = context
        .server
        .blocking(move |_| {
            let mut reader = EventReader::open(&run.listing.location)?;
            let mut lines: Vec<FeedLine> = Vec::new();
            while lines.len() <= limit
                && let Some(read) = reader.next_lines().map_err(Problem::from)?
            {
                let later = read
                    .iter()
                    .filter(|line| after.is_none_or(|after| line.n > after));
                lines.extend(later.map(FeedLine::new));
            }
            let has_more = lines.len() > limit;
            lines.truncate(limit);
            let next = lines
                .last()
                .filter(|_| has_more)
                .map(|line| line.n.to_string());
            let items: Result<Vec<Box<RawValue>>, serde_json::Error> = lines
                .into_iter()
                .map(|line| RawValue::from_string(line.json))
                .collect();
            let items = items.map_err(|_| Problem::internal("an event cannot be written"))?;
            Ok(EventPage { items, next })
        })
        .await?;
    Ok(json(StatusCode::OK, &page))
}

/// A part of the list of events.
#[derive(serde::Serialize)]
struct EventPage {
    items: Vec<Box<RawValue>>,
    next: Option<String>,
}

/// Whether the list is asked for rather than the stream.
fn is_list(context: &Context) -> bool {
    !wants_stream(&context.headers)
}

pub async fn stream_text(context: Context) -> Answer {
    let run = context.run(Deed::See).await?;
    let texts = TextStream::open(&context.server, run);
    open(context, texts)
}

pub async fn stream_changes(context: Context) -> Answer {
    let last = last_event_id(&context.headers)?.map(str::to_owned);
    let named = context.query.one("run")?.map(str::to_owned);
    if context.caller.visible_requests().is_none() {
        return Err(Problem::forbidden("the right to see runs is needed"));
    }
    let (server, caller) = (Arc::clone(&context.server), context.caller.clone());
    let events = context
        .server
        .blocking(move |_| {
            let run = named.map(|name| find_run(&server, &caller, &name, Deed::See));
            AllEvents::open(&server, &caller, run.transpose()?, last.as_deref())
        })
        .await?;
    open(context, events)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_stream_is_asked_for_by_its_media_type() {
        let check = |value: &'static str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(value));
            assert_eq!(wants_stream(&headers), expected, "{value}");
        };
        check("text/event-stream", true);
        check("application/json, text/event-stream;q=0.5", true);
        check("application/json", false);
        check("*/*", false);
    }
}
