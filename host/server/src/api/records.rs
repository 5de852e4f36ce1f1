//! What is recorded of a run: checkpoints, messages, conversations, calls, files, and its state.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use strata_core::record::file::PathContent;
use strata_core::record::id::CheckpointId;
use strata_host::difference::StateDifference;
use strata_host::launch::{
    ComparedState, LaunchError, compare, for_each_call, for_each_conversation, gather_report,
    list_checkpoints as checkpoints_of, load_saved,
};
use strata_host::report::html;
use strata_host::storage::{ServedRun, StateSelector, StorageLocation, StoreError};
use strata_host::team_json;
use strata_host::view::{CheckpointView, ConversationView, FileChangeView, MessageView, SavedTeam};

use crate::answer::{Page, as_attachment, json, tagged};
use crate::caller::Deed;
use crate::context::{Context, find_run};
use crate::graph_view::{GraphView, graph_picture};
use crate::markdown::{as_tree, cut_texts, markdown_tree};
use crate::media::file_media_type;
use crate::operations::Answer;
use crate::problem::Problem;
use crate::query::wrong;
use crate::server::Server;

const JSON: &str = "application/json";

/// Which state of a run is meant by a checkpoint or a lineage.
fn select_state(location: &StorageLocation, at: Option<&str>) -> Result<StateSelector, Problem> {
    let Some(at) = at else {
        return Ok(StateSelector::Head);
    };
    let reader = location.read()?;
    let is_lineage = reader.lineages()?.iter().any(|row| row.name == at);
    Ok(if is_lineage {
        StateSelector::Lineage(at.into())
    } else {
        StateSelector::Checkpoint(CheckpointId(at.into()))
    })
}

/// Loads a state of a run. A checkpoint that was pruned is gone.
fn load(location: &StorageLocation, at: &StateSelector) -> Result<SavedTeam, Problem> {
    match load_saved(location, at) {
        Err(LaunchError::Store(StoreError::NoCheckpoint { .. })) => {
            let reader = location.read()?;
            let (dropped, _) = reader.dropped()?;
            if dropped > 0 {
                Err(Problem::gone("the checkpoint was pruned, or never was")
                    .with_hint("`GET …/checkpoints` lists those that are left"))
            } else {
                Err(Problem::not_found("checkpoint"))
            }
        }
        loaded => Ok(loaded?),
    }
}

/// Reads something of a run in the state that the query names.
async fn read_state<T: Send + 'static>(
    context: &Context,
    read: impl FnOnce(&ServedRun, &StateSelector, SavedTeam) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let run = context.run(Deed::See).await?;
    let at = context.query.one("at")?.map(str::to_owned);
    context
        .server
        .blocking(move |_| {
            let location = &run.listing.location;
            let at = select_state(location, at.as_deref())?;
            let saved = load(location, &at)?;
            read(&run, &at, saved)
        })
        .await
}

/// Returns a part of a list, and the position after it.
fn page<T: Serialize>(context: &Context, items: &[T]) -> Answer {
    let limit = context.query.limit()?;
    let after = match context.query.one("after")? {
        None => 0,
        Some(text) => crate::query::decode_cursor::<usize>(text)?,
    };
    let rest = items.get(after..).unwrap_or_default();
    let next = (rest.len() > limit).then(|| crate::query::encode_cursor(&(after + limit)));
    let items: Vec<&T> = rest.iter().take(limit).collect();
    Ok(json(StatusCode::OK, &Page { items, next }))
}

pub async fn list_checkpoints(context: Context) -> Answer {
    let run = context.run(Deed::See).await?;
    let items = context
        .server
        .blocking(move |_| {
            let (rows, current) = checkpoints_of(&run.listing.location)?;
            Ok(CheckpointView::list(&rows, &current))
        })
        .await?;
    page(&context, &items)
}

/// Returns a state as the document that `team.json` contains.
fn team_document(saved: &SavedTeam) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (team, env) = (saved.stepper.team(), saved.stepper.env());
    // Writing to memory does not fail.
    let _ = team_json::write(team, env, &saved.definition, &mut bytes);
    bytes
}

pub async fn get_checkpoint(context: Context) -> Answer {
    let run = context.run(Deed::See).await?;
    let id = CheckpointId(context.param("id").to_owned());
    let body = context
        .server
        .blocking(move |_| {
            let saved = load(&run.listing.location, &StateSelector::Checkpoint(id))?;
            Ok(team_document(&saved))
        })
        .await?;
    Ok(tagged(&context.headers, JSON, body))
}

pub async fn get_team_json(context: Context) -> Answer {
    let run = context.run(Deed::See).await?;
    let body = context
        .server
        .blocking(move |_| {
            let saved = load(&run.listing.location, &StateSelector::Head)?;
            Ok(team_document(&saved))
        })
        .await?;
    Ok(tagged(&context.headers, JSON, body))
}

pub async fn list_messages(context: Context) -> Answer {
    let limit = context.query.limit()?;
    let as_tree = is_tree(&context)?;
    let after = match context.query.one("after")? {
        None => None,
        // Messages are only added, so the number of one stays.
        Some(text) => Some(crate::query::decode_cursor::<usize>(text)?),
    };
    let list = read_state(&context, move |_, _, saved| {
        let stepper = &saved.stepper;
        let ids: Vec<String> = stepper
            .env()
            .messages
            .iter()
            .map(|message| message.id.0.clone())
            .collect();
        let end = after.unwrap_or(ids.len()).min(ids.len());
        let begin = end.saturating_sub(limit);
        let mut items = Vec::new();
        for id in ids[begin..end].iter().rev() {
            if let Ok(view) = MessageView::from_id(stepper, id) {
                let mut value = serde_json::to_value(view).unwrap_or_default();
                cut_texts(&mut value);
                if as_tree {
                    add_tree(&mut value);
                }
                items.push(value);
            }
        }
        let next = (begin > 0).then(|| crate::query::encode_cursor(&begin));
        Ok(Page { items, next })
    })
    .await?;
    Ok(json(StatusCode::OK, &list))
}

pub async fn get_message(context: Context) -> Answer {
    let as_tree = is_tree(&context)?;
    let run = context.run(Deed::See).await?;
    let id = context.param("id").to_owned();
    let value = context
        .server
        .blocking(move |_| {
            let saved = load(&run.listing.location, &StateSelector::Head)?;
            let view = MessageView::from_id(&saved.stepper, &id);
            let view = view.map_err(|_| Problem::not_found("message"))?;
            let mut value = serde_json::to_value(view).unwrap_or_default();
            if as_tree {
                add_tree(&mut value);
            }
            Ok(value)
        })
        .await?;
    Ok(json(StatusCode::OK, &value))
}

/// Adds the content of a message as a tree. Its data is nobody's Markdown.
fn add_tree(message: &mut Value) {
    let tree = message["content"].as_str().map(markdown_tree);
    message["tree"] = tree.unwrap_or_default();
}

/// Whether texts are wanted as trees.
fn is_tree(context: &Context) -> Result<bool, Problem> {
    match context.query.one("as")? {
        None => Ok(false),
        Some("tree") => Ok(true),
        Some(_) => Err(wrong("as", "the only form is `tree`")),
    }
}

pub async fn list_conversations(context: Context) -> Answer {
    let wants_tree = is_tree(&context)?;
    let role = context.query.one("role")?.map(str::to_owned);
    let run = context.run(Deed::See).await?;
    let items = context
        .server
        .blocking(move |_| {
            let location = &run.listing.location;
            let saved = load(location, &StateSelector::Head)?;
            let mut items = Vec::new();
            let add = &mut |view: ConversationView| {
                if role.as_ref().is_none_or(|role| *role == view.role) {
                    let mut value = serde_json::to_value(&view).unwrap_or_default();
                    cut_texts(&mut value);
                    if wants_tree {
                        as_tree(&mut value);
                    }
                    items.push(value);
                }
            };
            for_each_conversation(location, &StateSelector::Head, &saved, add)?;
            Ok(items)
        })
        .await?;
    page(&context, &items)
}

/// Returns the recorded calls of a run.
fn calls_of(run: &ServedRun) -> Result<Vec<Value>, Problem> {
    let mut calls = Vec::new();
    for_each_call(&run.listing.location, &mut |view| {
        calls.extend(serde_json::to_value(&view).ok());
    })?;
    Ok(calls)
}

pub async fn list_calls(context: Context) -> Answer {
    let run = context.run(Deed::See).await?;
    let items = context
        .server
        .blocking(move |_| {
            let mut calls = calls_of(&run)?;
            calls.iter_mut().for_each(cut_texts);
            Ok(calls)
        })
        .await?;
    page(&context, &items)
}

pub async fn get_call(context: Context) -> Answer {
    let unknown = || Problem::not_found("call");
    let n: u64 = context.param("n").parse().map_err(|_| unknown())?;
    let run = context.run(Deed::See).await?;
    let call = context
        .server
        .blocking(move |_| {
            let mut calls = calls_of(&run)?.into_iter();
            calls
                .find(|call| call["n"].as_u64() == Some(n))
                .ok_or_else(unknown)
        })
        .await?;
    Ok(json(StatusCode::OK, &call))
}

/// Returns the text by which the library knows a state of a run.
fn state_text(location: &StorageLocation, at: Option<&str>) -> String {
    match at {
        Some(at) => format!("{location}@{at}"),
        None => location.to_string(),
    }
}

/// Finds the other state that is compared.
fn other_state(server: &Server, context: &OtherState) -> Result<String, Problem> {
    let text = &context.text;
    // A name may contain `@`, too.
    let whole = find_run(server, &context.caller, text, Deed::See);
    if let (Ok(run), true) = (&whole, !text.contains('@')) {
        return Ok(state_text(&run.listing.location, None));
    }
    match text.rsplit_once('@') {
        Some((name, at)) => {
            let run = find_run(server, &context.caller, name, Deed::See)?;
            Ok(state_text(&run.listing.location, Some(at)))
        }
        None => Ok(state_text(&whole?.listing.location, None)),
    }
}

struct OtherState {
    caller: crate::caller::Caller,
    text: String,
}

/// Two states that were compared.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StateComparison {
    /// The state of this run.
    one: ComparedSide,
    /// The state with which it was compared.
    other: ComparedSide,
    /// The last checkpoint that both share.
    common: Option<String>,
    /// How they differ.
    difference: StateDifference,
}

/// One of two states that were compared.
#[derive(Debug, Serialize, JsonSchema)]
struct ComparedSide {
    /// Its lineage.
    lineage: String,
    /// Its checkpoint; `null` before the first.
    checkpoint: Option<String>,
    /// The first checkpoint that the other does not share.
    first: Option<String>,
}

impl ComparedSide {
    fn new(state: ComparedState) -> Self {
        Self {
            lineage: state.lineage,
            checkpoint: state.checkpoint.map(|id| id.0),
            first: state.first.map(|id| id.0),
        }
    }
}

pub async fn diff_run(context: Context) -> Answer {
    let run = context.run(Deed::See).await?;
    let at = context.query.one("at")?.map(str::to_owned);
    let with = context.query.one("with")?;
    let with = with.ok_or_else(|| wrong("with", "name the other state: RUN or RUN@ID"))?;
    let other = OtherState {
        caller: context.caller.clone(),
        text: with.to_owned(),
    };
    let value = context
        .server
        .blocking(move |server| {
            let one = state_text(&run.listing.location, at.as_deref());
            let other = other_state(server, &other)?;
            let compared = match compare(&one, &other) {
                Err(error @ LaunchError::Mismatch(_)) => {
                    return Err(Problem::conflict(error.to_string()).named("other-team"));
                }
                compared => compared?,
            };
            Ok(StateComparison {
                one: ComparedSide::new(compared.one),
                other: ComparedSide::new(compared.other),
                common: compared.common.map(|id| id.0),
                difference: compared.difference,
            })
        })
        .await?;
    Ok(json(StatusCode::OK, &value))
}

pub async fn get_graph(context: Context) -> Answer {
    let value = read_state(&context, |_, _, saved| GraphView::new(&saved)).await?;
    Ok(json(StatusCode::OK, &value))
}

pub async fn get_graph_picture(context: Context) -> Answer {
    let name = format!("{}.svg", context.param("run"));
    let picture = read_state(&context, |_, _, saved| graph_picture(&saved)).await?;
    let media_type = [(CONTENT_TYPE, "image/svg+xml")];
    Ok(as_attachment((media_type, picture).into_response(), &name))
}

pub async fn get_report(context: Context) -> Answer {
    let run = context.run(Deed::See).await?;
    let at = context.query.one("at")?.map(str::to_owned);
    let name = format!("{}.html", run.name());
    let report = context
        .server
        .blocking(move |_| {
            let state = state_text(&run.listing.location, at.as_deref());
            Ok(html::page(&gather_report(&state)?))
        })
        .await?;
    let media_type = [(CONTENT_TYPE, "text/html; charset=utf-8")];
    Ok(as_attachment((media_type, report).into_response(), &name))
}

pub async fn list_files(context: Context) -> Answer {
    let items = read_state(&context, |_, _, saved| {
        Ok(FileChangeView::all(&saved.stepper))
    })
    .await?;
    Ok(json(StatusCode::OK, &Page::whole(items)))
}

pub async fn get_file(context: Context) -> Answer {
    let path = context.param("path").to_owned();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let bytes = read_state(&context, move |run, _, saved| {
        let unknown = || Problem::not_found("file");
        let files = &saved.stepper.env().files.intended;
        // Only the names that actions wrote are looked up, so no path leads elsewhere.
        let content = files.get(&path).or_else(|| files.get(&format!("/{path}")));
        let Some(PathContent::File { .. }) = content else {
            return Err(unknown());
        };
        let digest = content.and_then(PathContent::digest).ok_or_else(unknown)?;
        let bytes = run.listing.location.read()?.blob(digest)?;
        let bytes = bytes.ok_or_else(|| Problem::gone("the bytes of the file are not kept"))?;
        Ok(bytes.to_vec())
    })
    .await?;
    let media_type = file_media_type(&name, &bytes);
    let response = tagged(&context.headers, media_type, bytes);
    Ok(as_attachment(response, &name))
}
