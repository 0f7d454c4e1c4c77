//! Windows for LiteLLM: its generic guardrail API, which shows each request to a server and takes changed messages back.

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use lookback_wire::Start;
use lookback_wire::dialect::Dialect;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::compress::{read, windowed};
use super::fault::{Fault, Faults};
use crate::gateway::admission::Admission;

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
/// LiteLLM. Responses pass unchanged. Nothing is recorded.
#[utoipa::path(post, path = "/beta/litellm_basic_guardrail_api", tag = "windows", request_body = Shown, responses(
    (status = 200, description = "What LiteLLM sends", body = Decided), Faults,
))]
pub(super) async fn litellm(
    Extension(admission): Extension<Admission>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Decided>, Fault> {
    let body = read(&admission, &headers, body).await?;
    let shown: Shown =
        serde_json::from_slice(&body).map_err(|error| Fault::new(StatusCode::UNPROCESSABLE_ENTITY, error))?;
    let passes = Decided { action: "NONE", structured_messages: None };
    let Some(messages) = shown.structured_messages.filter(|_| shown.input_type == "request") else {
        return Ok(Json(passes));
    };
    let request = Chat { model: shown.model, tools: shown.tools, messages };
    let wrong = |error| Fault::new(StatusCode::INTERNAL_SERVER_ERROR, error);
    let request = serde_json::to_string(&request).map_err(wrong)?;
    // LiteLLM may convert the messages for another provider, which wants a person's message first.
    let form = (Some(Dialect::OpenAiChat), Start::User);
    let (_, windowed) = windowed(admission, request, form, None).await?;
    Ok(Json(match windowed.messages {
        Some(messages) => Decided { action: "GUARDRAIL_INTERVENED", structured_messages: Some(messages) },
        None => passes,
    }))
}
