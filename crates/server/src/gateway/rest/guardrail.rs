//! Windows for LiteLLM: its generic guardrail API, which shows each request to a server and takes changed messages back.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use lookback_wire::Start;
use lookback_wire::dialect::Dialect;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::compress::{Wanted, in_turn, read, window};
use super::fault::{Fault, Faults};
use crate::gateway::admission::Admission;
use crate::gateway::report::event::Event;

/// What LiteLLM shows of a request. Other members are ignored.
#[derive(Deserialize, ToSchema)]
pub(super) struct Shown {
    /// Whether this is a `request` or a `response`.
    #[serde(default)]
    input_type: String,
    /// The messages, in the format of Chat Completions.
    #[schema(value_type = Option<Vec<Object>>)]
    structured_messages: Option<Box<RawValue>>,
    /// The tools that the model may call.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Box<RawValue>>,
    /// The model.
    model: Option<String>,
}

/// The request that LiteLLM shows, as a body of Chat Completions.
#[derive(Serialize)]
struct Chat {
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Box<RawValue>>,
    messages: Box<RawValue>,
}

/// The answer to LiteLLM.
#[derive(Serialize, ToSchema)]
pub(super) struct Decided {
    /// `NONE`, or `GUARDRAIL_INTERVENED` if the messages have changed.
    action: &'static str,
    /// The messages of the window, if they have changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    structured_messages: Option<Vec<Box<RawValue>>>,
}

/// Return the window of a request to LiteLLM
///
/// Set `guardrail: generic_guardrail_api`, `mode: pre_call` and `api_base: http://127.0.0.1:8787/lookback/v1` in
/// LiteLLM. Responses pass unchanged, and so do requests whose window cannot be made. With `shadow`, all do. Nothing is
/// recorded.
#[utoipa::path(post, path = "/beta/litellm_basic_guardrail_api", tag = "windows", request_body = Shown, responses(
    (status = 200, description = "What LiteLLM sends", body = Decided), Faults,
))]
pub(super) async fn litellm(
    Extension(admission): Extension<Admission>,
    headers: HeaderMap,
    body: Body,
) -> Json<Decided> {
    let structured_messages = decide(admission.clone(), headers, body).await.unwrap_or_else(|fault| {
        admission.shared.emit(&Event::failure(format!("there is no window for LiteLLM: {fault}")));
        // The request is sent as it came.
        None
    });
    let action = if structured_messages.is_some() { "GUARDRAIL_INTERVENED" } else { "NONE" };
    Json(Decided { action, structured_messages })
}

/// Returns the messages of the window, if they differ from those that LiteLLM shows.
async fn decide(admission: Admission, headers: HeaderMap, body: Body) -> Result<Option<Vec<Box<RawValue>>>, Fault> {
    let body = read(&admission, &headers, body).await?;
    in_turn(move || {
        let wrong = |error| Fault::new(StatusCode::UNPROCESSABLE_ENTITY, error);
        let Shown { input_type, structured_messages, tools, model } = serde_json::from_slice(&body).map_err(wrong)?;
        let is_asked = input_type == "request" && !admission.current.config.shadow;
        let Some(messages) = structured_messages.filter(|_| is_asked) else { return Ok(None) };
        let wanted = Wanted {
            text: serde_json::to_string(&Chat { model, tools, messages }).map_err(wrong)?,
            dialect: Some(Dialect::OpenAiChat),
            model: None,
            policy: None,
            // LiteLLM may convert the messages for another provider, which wants a person's message first.
            start: Start::User,
            headers: HeaderMap::new(),
        };
        let changed = window(&admission, &wanted)?.messages;
        admission.shared.metrics.compressed(changed.is_some());
        Ok(changed)
    })
    .await
}
