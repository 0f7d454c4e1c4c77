//! Search and recall in the REST API: one session's messages by position or by words, or those of all sessions.

use axum::Extension;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use lookback_facts as memory;
use lookback_facts::{Recall, RecalledPassage};
use lookback_store::messages::SearchHit;
use lookback_store::search::Within;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::fault::{Fault, Faults};
use super::number::Number;
use super::sessions::{Name, Named, bounded, existing};
use crate::gateway::admission::Admission;

/// The search in a session.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Asked {
    /// The words to search for. Text in quotation marks is a phrase.
    query: String,
    /// The number of messages to skip. The default is 0.
    offset: Option<Number>,
    /// The maximum number of messages.
    #[param(minimum = 1, maximum = 50, default = 5)]
    limit: Option<usize>,
}

/// The messages that were found, the best match first.
#[derive(Serialize, ToSchema)]
pub(super) struct Recalled {
    passages: Vec<Passage>,
    /// Whether there are more messages.
    more: bool,
}

/// A message of a session.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct OfMessage {
    /// The name of the session.
    session: Name,
    /// The position of the message in the log.
    entry: Number,
}

/// The part of a message to read.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Part {
    /// The words to search for. If given, the part around their best match is read.
    query: Option<String>,
    /// The number of characters to skip. The default is 0.
    offset: Option<Number>,
    /// The maximum number of characters. The default is 8000, or 4000 with a query.
    #[param(minimum = 1, maximum = 8000)]
    limit: Option<usize>,
}

/// A message, or a part of one.
#[derive(Serialize, ToSchema)]
pub(super) struct Passage {
    /// Its position in the log.
    entry: u64,
    /// The speaker: `user`, `assistant`, `system`, `lookback`, or `tool result of NAME`.
    who: String,
    /// Whether it is on a branch that the conversation has left.
    left: bool,
    /// Its text, or a part of it.
    text: String,
    /// The length of the whole message in characters.
    length: u64,
}

/// The search in all sessions.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Sought {
    /// The words to search for. Text in quotation marks is a phrase.
    query: String,
    /// The maximum number of messages.
    #[param(minimum = 1, maximum = 100, default = 10)]
    limit: Option<usize>,
}

/// The messages that a search found, the best match first.
#[derive(Serialize, ToSchema)]
pub(super) struct Found {
    found: Vec<Hit>,
}

/// A message that a search found.
#[derive(Serialize, ToSchema)]
pub(super) struct Hit {
    /// Its session.
    session: String,
    /// Its position in the log.
    entry: u64,
    /// Its best matching passage.
    excerpt: String,
}

/// Recall messages
///
/// Finds messages of a session, including those that have left the window, and returns each best matching passage.
#[utoipa::path(get, path = "/sessions/{session}/recall", tag = "sessions",
    params(Named, Asked),
    responses((status = 200, description = "The messages that were found", body = Recalled), Faults))]
pub(super) async fn recall(
    Extension(admission): Extension<Admission>,
    named: Result<Path<Named>, PathRejection>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Json<Recalled>, Fault> {
    let (Path(named), Query(Asked { query, offset, limit })) = (named?, asked?);
    let limit = Some(bounded(limit, 5, 50)? as u64);
    let (store, name) = existing(&admission, &named.session).await?;
    let asked = Recall::Query { query, within: Within::default(), offset: offset.map_or(0, Number::get), limit };
    let recalled = memory::recall(&*store, &name, &asked).await?;
    let more = recalled.more.is_some();
    Ok(Json(Recalled { passages: recalled.passages.into_iter().map(Passage::from).collect(), more }))
}

/// Read a message
///
/// It may be on a branch that the conversation has left.
#[utoipa::path(get, path = "/sessions/{session}/messages/{entry}", tag = "sessions",
    params(OfMessage, Part),
    responses((status = 200, description = "The message, or a part of it", body = Passage), Faults))]
pub(super) async fn message(
    Extension(admission): Extension<Admission>,
    of: Result<Path<OfMessage>, PathRejection>,
    part: Result<Query<Part>, QueryRejection>,
) -> Result<Json<Passage>, Fault> {
    let (Path(OfMessage { session, entry }), Query(Part { query, offset, limit })) = (of?, part?);
    let limit = limit.map(|limit| bounded(Some(limit), 1, 8000)).transpose()?.map(|limit| limit as u64);
    let (store, name) = existing(&admission, &session).await?;
    let asked = Recall::Entry { entry: entry.get(), query, offset: offset.map_or(0, Number::get), limit };
    let passage = memory::recall(&*store, &name, &asked).await?.passages.into_iter().next();
    Ok(Json(passage.map(Passage::from).ok_or_else(|| Fault::missing("message there"))?))
}

/// Search all sessions
#[utoipa::path(get, path = "/search", tag = "sessions", params(Sought), responses(
    (status = 200, description = "The messages that were found", body = Found), Faults,
))]
pub(super) async fn search(
    Extension(admission): Extension<Admission>,
    sought: Result<Query<Sought>, QueryRejection>,
) -> Result<Json<Found>, Fault> {
    let Query(Sought { query, limit }) = sought?;
    let limit = bounded(limit, 10, 100)?;
    let found = lookback_store::messages::search(&*admission.store()?, None, query.as_str(), limit).await?;
    Ok(Json(Found { found: found.into_iter().map(Hit::from).collect() }))
}

impl From<RecalledPassage> for Passage {
    fn from(passage: RecalledPassage) -> Passage {
        let RecalledPassage { position, who, left, text, length, .. } = passage;
        Passage { entry: position, who, left, text, length }
    }
}

impl From<SearchHit> for Hit {
    fn from(hit: SearchHit) -> Hit {
        let SearchHit { session, position, excerpt, .. } = hit;
        Hit { session: session.to_string(), entry: position, excerpt }
    }
}
