//! The window of a request without a session, in the REST API: for programs and other gateways that send their requests
//! themselves.

use axum::body::Body;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use bytes::Bytes;
use lookback_engine::Engine;
use lookback_engine::policy::Policy;
use lookback_engine::transcript::Entry;
use lookback_presets::named;
use lookback_summarize::calls::run_request;
use lookback_wire::Start;
use lookback_wire::dialect::{Dialect, RawRequest, Request};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::task::spawn_blocking;
use utoipa::{IntoParams, ToSchema};

use super::fault::{Fault, Faults};
use crate::gateway::admission::Admission;
use crate::gateway::http::{body, encoding};
use crate::gateway::lines::turn::{Model, reads_back};
use crate::gateway::report::note::{Compacted, Cut};

/// The settings of a window.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Chosen {
    /// The policy: a preset with settings, such as `default` or `tokens:max_tokens=32000`. The default is that of the
    /// gateway.
    policy: Option<String>,
}

/// A request with its window.
#[derive(Serialize, ToSchema)]
pub(super) struct Compressed {
    /// The body to send. If nothing was cut, it is the one that came.
    #[schema(value_type = Object)]
    body: Box<RawValue>,
    report: Report,
}

/// What was done to a request.
#[derive(Serialize, ToSchema)]
pub(super) struct Report {
    /// The format of the request.
    #[schema(value_type = String)]
    dialect: Dialect,
    /// The tokens of the window, by Lookback's count.
    window: u64,
    /// What was left out or shortened, if anything.
    #[schema(value_type = Option<Object>)]
    cut: Option<Cut>,
    /// The compactions of the conversation so far. A longer request of the conversation repeats them.
    #[schema(value_type = Vec<Object>)]
    compacted: Vec<Compacted>,
}

/// A window, with its messages if they differ from those of the request.
pub(super) struct Windowed {
    pub(super) messages: Option<Vec<Box<RawValue>>>,
    report: Report,
}

/// Return a request with its window
///
/// The body is that of a model call in any format. The window is the one that a session would have sent if it had seen
/// the conversation message by message. So a longer request of the same conversation begins with the same messages,
/// until the next compaction. Nothing is recorded.
#[utoipa::path(post, path = "/compress", tag = "windows", params(Chosen), request_body = Object, responses(
    (status = 200, description = "The request and a report", body = Compressed), Faults,
))]
pub(super) async fn compress(
    Extension(admission): Extension<Admission>,
    chosen: Result<Query<Chosen>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Compressed>, Fault> {
    let Query(Chosen { policy }) = chosen?;
    let wrong = |error: String| Fault::new(StatusCode::BAD_REQUEST, error);
    let policy = policy.map(|text| named(&text)).transpose().map_err(|error| wrong(error.to_string()))?;
    let body = read(&admission, &headers, body).await?;
    let text = String::from_utf8(body.to_vec()).map_err(|_| wrong("the body is not UTF-8".to_owned()))?;
    let (text, windowed) = windowed(admission, text, (None, Start::Any), policy).await?;
    let raw = |text: String| RawValue::from_string(text).map_err(|error| wrong(error.to_string()));
    let body = match &windowed.messages {
        None => raw(text)?,
        Some(messages) => {
            let request =
                RawRequest::read(&text, Some(windowed.report.dialect)).map_err(|error| wrong(error.to_string()))?;
            raw(request.change().messages(messages).write())?
        }
    };
    Ok(Json(Compressed { body, report: windowed.report }))
}

/// The format of a request, if it is known, and where its window may begin.
type Form = (Option<Dialect>, Start);

/// Reads a body within the limits of the gateway, and removes its encoding.
pub(super) async fn read(admission: &Admission, headers: &HeaderMap, body: Body) -> Result<Bytes, Fault> {
    let config = &admission.current.config;
    let unread = |unread: body::Unread| Fault::new(unread.status(), unread);
    let body = body::read(body, config.limits.body, config.timeouts.body).await.map_err(unread)?;
    let body = encoding::decoded(headers, &body, config.limits.body)
        .ok_or_else(|| Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the encoding of the body is unknown"))?;
    match config.limits.nesting {
        Some(most) if body::nesting(&body) > most => Err(unread(body::Unread::Nesting)),
        _ => Ok(body),
    }
}

/// Makes the window of a request, on a thread of its own, and returns it with the text of the request.
pub(super) async fn windowed(
    admission: Admission,
    text: String,
    form: Form,
    policy: Option<Policy>,
) -> Result<(String, Windowed), Fault> {
    let made = spawn_blocking(move || window(&admission, &text, form, policy).map(|windowed| (text, windowed)));
    made.await.unwrap_or_else(|_| Err(Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "the window could not be made")))
}

fn window(
    admission: &Admission,
    text: &str,
    (dialect, start): Form,
    policy: Option<Policy>,
) -> Result<Windowed, Fault> {
    let refused = |error: &dyn std::error::Error| Fault::new(StatusCode::UNPROCESSABLE_ENTITY, error);
    let raw = RawRequest::read(text, dialect).map_err(|error| refused(&error))?;
    let (dialect, model) = (raw.dialect(), Model::from_request(&raw, "", ""));
    let policies = admission.current.policies(reads_back(&raw.preamble()));
    let usual = || if model.is_shortened { policies.yielding.clone() } else { policies.usual.clone() };
    let request = Request::decode(text.to_owned(), Some(dialect)).map_err(|error| refused(&error))?;
    let policy = policy.unwrap_or_else(usual);
    let policy = Policy { start: policy.start.max(start), ..policy };
    let mut engine = Engine::new(model.settings(dialect).policy(policy));
    let mut run = run_request(&mut engine, &request, &mut |_| None, &mut |_| {}).map_err(|error| refused(&error))?;
    if let Some(exceeded) = run.outcome.exceeded.take() {
        return Err(refused(&lookback_session::Error::from(exceeded)));
    }
    let view = run.outcome.on_read.as_deref().unwrap_or(engine.view());
    let cut = Cut::from_view(view);
    let is_repaired = run.entries.iter().any(|entry| matches!(entry, Entry::Repair(_)));
    let messages = if cut.is_some() || is_repaired {
        let encoded = view.encode(engine.target().clone()).map_err(|error| refused(&error))?;
        Some(encoded.into_iter().map(|message| message.into_owned()).collect())
    } else {
        None
    };
    let compacted = run.entries.iter().filter_map(Compacted::from_entry).collect();
    let report = Report { dialect, window: engine.tokens(view), cut, compacted };
    Ok(Windowed { messages, report })
}
