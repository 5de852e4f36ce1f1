//! The operations that read what is recorded of a run: its states, calls, files, and events.

use axum::http::Method;
use strata_host::public_event::EventLine;
use strata_host::view::{
    CheckpointView, ConversationView, FileChangeView, MessageView, RecordedCallView,
};

use super::schema::{any, list_of, schema_of};
use super::{Content, Operation, ParameterValue};
use crate::api;
use crate::graph_view::GraphView;

const STREAM: Content = Content::Other("text/event-stream");
const LAST_EVENT_ID: &str =
    "the id of the last message that the client has: the stream continues after it";

/// Returns the operations.
pub fn operations() -> Vec<Operation> {
    let mut all = states();
    all.extend(calls());
    all.extend(views());
    all.extend(streams());
    all
}

fn states() -> Vec<Operation> {
    use api::records::*;
    let get = Method::GET;
    vec![
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/checkpoints",
            "listCheckpoints",
            "Lists the checkpoints of all lineages, oldest first.",
            list_checkpoints,
        )
        .paged()
        .gives(200, Content::Json(list_of::<CheckpointView>))
        .fails(&[422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/checkpoints/{id}",
            "getCheckpoint",
            "Returns the state at a checkpoint, in the form of `team.json`.",
            get_checkpoint,
        )
        .gives(200, Content::Json(any))
        .gives(304, Content::Empty)
        .fails(&[410]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/messages",
            "listMessages",
            "Lists the messages of a run, the newest first. Texts over 64 KiB are cut, and `truncated` says so.",
            list_messages,
        )
        .paged()
        .with("at", "the checkpoint or lineage")
        .with("as", "`tree`: their contents as trees of Markdown, too")
        .gives(200, Content::Json(list_of::<MessageView>))
        .fails(&[410, 422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/messages/{id}",
            "getMessage",
            "Returns a message completely.",
            get_message,
        )
        .with_value(
            "as",
            ParameterValue::OneOf(vec!["tree"]),
            "`tree`: its content as a tree of Markdown",
        )
        .gives(200, Content::Json(schema_of::<MessageView>))
        .fails(&[422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/conversations",
            "listConversations",
            "Lists the conversations of roles with tools, oldest first. Texts over 64 KiB are cut, and `truncated` says so.",
            list_conversations,
        )
        .paged()
        .with("role", "only those of this role")
        .with_value(
            "as",
            ParameterValue::OneOf(vec!["tree"]),
            "`tree`: texts as trees of Markdown, too",
        )
        .gives(200, Content::Json(list_of::<ConversationView>))
        .fails(&[422]),
    ]
}

fn calls() -> Vec<Operation> {
    use api::records::*;
    let get = Method::GET;
    vec![
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/calls",
            "listCalls",
            "Lists the recorded host calls, oldest first. Texts over 64 KiB are cut, and `truncated` says so.",
            list_calls,
        )
        .paged()
        .gives(200, Content::Json(list_of::<RecordedCallView>))
        .fails(&[422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/calls/{n}",
            "getCall",
            "Returns a recorded host call completely, by the number of its event.",
            get_call,
        )
        .gives(200, Content::Json(schema_of::<RecordedCallView>)),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/diff",
            "diffRun",
            "Compares two states.",
            diff_run,
        )
        .with(
            "with",
            "the other state: `RUN`, or `RUN@ID` with a checkpoint or a lineage",
        )
        .required()
        .with("at", "the checkpoint or lineage of this run")
        .gives(200, Content::Json(schema_of::<StateComparison>))
        .fails(&[409, 410, 422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/graph",
            "getGraph",
            "Returns the team as a graph with coordinates, and the states of its roles.",
            get_graph,
        )
        .gives(200, Content::Json(schema_of::<GraphView>))
        .fails(&[422]),
    ]
}

fn views() -> Vec<Operation> {
    use api::records::*;
    let get = Method::GET;
    vec![
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/graph.svg",
            "getGraphPicture",
            "Returns the team as a picture.",
            get_graph_picture,
        )
        .gives(200, Content::Other("image/svg+xml"))
        .fails(&[422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/report",
            "getReport",
            "Returns the run as one page.",
            get_report,
        )
        .with("at", "the checkpoint or lineage")
        .gives(200, Content::Other("text/html"))
        .fails(&[410, 422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/files",
            "listFiles",
            "Lists the files that actions wrote.",
            list_files,
        )
        .with("at", "the checkpoint or lineage")
        .gives(200, Content::Json(list_of::<FileChangeView>))
        .fails(&[410, 422]),
        Operation::new(
            get.clone(),
            "/v1/runs/{run}/files/{*path}",
            "getFile",
            "Returns a file that an action wrote.",
            get_file,
        )
        .with("at", "the checkpoint or lineage")
        .gives(200, Content::Other("application/octet-stream"))
        .gives(304, Content::Empty)
        .fails(&[410, 422]),
        Operation::new(
            get,
            "/v1/runs/{run}/team.json",
            "getTeamJson",
            "Returns the newest state.",
            get_team_json,
        )
        .gives(200, Content::Json(any))
        .gives(304, Content::Empty),
    ]
}

fn streams() -> Vec<Operation> {
    use api::events::*;
    vec![
        Operation::new(
            Method::GET,
            "/v1/runs/{run}/events",
            "listEvents",
            "Lists the events of a run, oldest first; as a stream with `Accept: text/event-stream`.",
            list_events,
        )
        .with_header("Last-Event-ID", ParameterValue::Text, LAST_EVENT_ID)
        .limited()
        .with_value("after", ParameterValue::Number, "the number of the event after which it begins")
        .gives(200, Content::Json(list_of::<EventLine>))
        .gives(204, Content::Empty)
        .fails(&[422]),
        Operation::new(
            Method::GET,
            "/v1/runs/{run}/stream",
            "streamText",
            "Streams what models write, as it arrives: messages `text`. With `source {live: false}` it says that another server works on the run, and that texts come with its events only.",
            stream_text,
        )
        .gives(200, STREAM),
        Operation::new(
            Method::GET,
            "/v1/events",
            "streamChanges",
            "Streams which runs change, and which requests are opened and answered.",
            stream_changes,
        )
        .with_header("Last-Event-ID", ParameterValue::Text, LAST_EVENT_ID)
        .with("run", "a run whose events are streamed, too")
        .gives(200, STREAM)
        .fails(&[404, 422]),
    ]
}
