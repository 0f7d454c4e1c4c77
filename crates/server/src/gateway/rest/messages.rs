//! The messages and the window of a session in the REST API.

use std::borrow::Cow;

use axum::Extension;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use lookback_engine::Settings;
use lookback_session::HistoryEntry;
use lookback_session::adapter;
use lookback_session::{Error, Session};
use lookback_wire::message::Message;
use lookback_wire::{dialect::Dialect, message::Role};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::fault::{Fault, Faults};
use super::number::Number;
use super::sessions::{Named, bounded, existing};
use super::time::rfc3339;
use crate::gateway::admission::Admission;

/// The most messages on a page.
const MOST: usize = 200;

/// The page of messages to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// Ends the page before this entry: the `before` of a newer page. The default is the newest page.
    before: Option<Number>,
    /// The maximum number of messages.
    #[param(minimum = 1, maximum = 200, default = 50)]
    limit: Option<usize>,
}

/// Messages of a session, the oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct Messages {
    messages: Vec<Listed>,
    /// The first entry of the page, if there are older messages.
    before: Option<u64>,
}

/// A message.
#[derive(Serialize, ToSchema)]
#[schema(as = Message)]
pub(super) struct Listed {
    /// Its position in the log.
    entry: u64,
    /// The speaker.
    role: Speaker,
    /// Whether the window still shows it.
    in_window: bool,
    /// Its tokens.
    tokens: u64,
    /// When it arrived.
    #[schema(format = DateTime)]
    time: Option<String>,
    /// Its text.
    text: String,
    /// The message as it arrived, in its provider's format: usually one object, or one for each item of a message in
    /// OpenAI's Responses.
    #[schema(value_type = Vec<Object>)]
    wire: Vec<Box<RawValue>>,
}

/// The speaker of a message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Speaker {
    System,
    User,
    Assistant,
    Tool,
}

/// The window that a model call would send now.
#[derive(Serialize, ToSchema)]
pub(super) struct Window {
    /// The dialect of the messages.
    dialect: String,
    /// The tokens, by Lookback's count.
    tokens: u64,
    /// The number of messages in the conversation.
    history: u64,
    /// The messages, in the provider's format.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<Box<RawValue>>,
}

/// List messages
///
/// The newest page comes first. Within a page, the oldest message comes first.
#[utoipa::path(get, path = "/sessions/{session}/messages", tag = "sessions",
    params(Named, Page),
    responses(
        (status = 200, description = "A page of messages", body = Messages), Faults,
    ))]
pub(super) async fn list(
    Extension(admission): Extension<Admission>,
    named: Result<Path<Named>, PathRejection>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Messages>, Fault> {
    let (Path(named), Query(Page { before, limit })) = (named?, page?);
    let limit = bounded(limit, 50, MOST)?;
    let (store, name) = existing(&admission, &named.session).await?;
    let mut session = Session::open(store, name.as_str(), Settings::default()).await?;
    // One more message shows whether there are older ones.
    let mut newest = adapter::newest(&mut session, 0..before.map_or(u64::MAX, Number::get), limit + 1).await?;
    let has_more = newest.len() > limit;
    newest.drain(..newest.len().saturating_sub(limit));
    let first = if has_more { newest.first() } else { None };
    let before = first.map(|first| first.position);
    Ok(Json(Messages { messages: newest.iter().map(Listed::from).collect(), before }))
}

/// Show the window
///
/// Returns the messages that a model call would send now. Records nothing, because it makes no call.
#[utoipa::path(get, path = "/sessions/{session}/window", tag = "sessions",
    params(Named),
    responses(
        (status = 200, description = "The window", body = Window), Faults,
    ))]
pub(super) async fn window(
    Extension(admission): Extension<Admission>,
    named: Result<Path<Named>, PathRejection>,
) -> Result<Json<Window>, Fault> {
    let (store, name) = existing(&admission, &named?.session).await?;
    let session = Session::open(store.clone(), name.as_str(), Settings::default()).await?;
    let wire = session.view().messages().find_map(|item| item.message().wire());
    let dialect = wire.map_or(Dialect::default(), |wire| wire.dialect);
    // The repairs depend on the message format.
    let session = Session::open(store, name.as_str(), Settings::default().dialect(dialect)).await?;
    let window = adapter::preview(&session);
    let messages = window.messages().map_err(Error::from)?.into_iter().map(Cow::into_owned).collect();
    let (tokens, history) = (window.tokens(), window.view().history_len());
    Ok(Json(Window { dialect: dialect.name().to_owned(), tokens, history, messages }))
}

impl From<&HistoryEntry> for Listed {
    fn from(entry: &HistoryEntry) -> Listed {
        let HistoryEntry { position, arrival, shown, .. } = entry;
        let message: &Message = &arrival.message;
        Listed {
            entry: *position,
            role: Speaker::from_message(message),
            in_window: *shown,
            tokens: arrival.size.tokens,
            time: rfc3339(arrival.time),
            text: message.text(),
            wire: message
                .wire()
                .map(|wire| wire.elements().into_iter().map(ToOwned::to_owned).collect())
                .unwrap_or_default(),
        }
    }
}

impl Speaker {
    fn from_message(message: &Message) -> Speaker {
        match message.role() {
            Role::System => Speaker::System,
            Role::Assistant => Speaker::Assistant,
            Role::User if message.tool_results().next().is_some() => Speaker::Tool,
            Role::User => Speaker::User,
        }
    }
}
