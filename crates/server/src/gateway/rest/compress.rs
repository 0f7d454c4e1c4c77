//! The window of a request without a session, in the REST API: for programs and other gateways that send their requests
//! themselves.

use std::borrow::Cow;
use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json};
use bytes::Bytes;
use lookback_conversation::{Identity, Kind, Query as LineQuery};
use lookback_engine::Engine;
use lookback_engine::policy::Policy;
use lookback_presets::named;
use lookback_summarize::calls::run_request;
use lookback_wire::Start;
use lookback_wire::dialect::{Dialect, RawRequest, Request, Target};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use utoipa::{IntoParams, ToSchema};

use super::fault::{Fault, Faults};
use crate::gateway::admission::Admission;
use crate::gateway::http::{body, encoding, headers};
use crate::gateway::lines::turn::Model;
use crate::gateway::report::note::{Compacted, Cut, Passed};

/// The windows that are made at the same time. Each keeps a core busy.
static AT_ONCE: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));

/// The settings of a window.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Chosen {
    /// The policy: a preset with settings, such as `default` or
    /// `tokens:max_tokens=32000,target_tokens=16000`. The default is that of the
    /// gateway.
    policy: Option<String>,
    /// The format of the request, such as `gemini`. By default, it is recognized by the body.
    dialect: Option<String>,
    /// The model, if the body does not name it.
    model: Option<String>,
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
    /// The reason that the request is sent whole, if it is no turn of a conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    passed: Option<Passed>,
    /// The tokens of the window, by Lookback's count.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u64>,
    /// What was left out or shortened, if anything.
    #[schema(value_type = Option<Object>)]
    cut: Option<Cut>,
    /// The compactions of the conversation so far. A longer request of the conversation repeats them.
    #[schema(value_type = Vec<Object>)]
    compacted: Vec<Compacted>,
}

/// The request to make a window of.
pub(super) struct Wanted {
    pub(super) text: String,
    pub(super) dialect: Option<Dialect>,
    /// The model, if the body does not name it.
    pub(super) model: Option<String>,
    /// The policy, if it is not that of the gateway.
    pub(super) policy: Option<Policy>,
    /// Where the window may begin, if the policy does not restrict that more.
    pub(super) start: Start,
    pub(super) headers: HeaderMap,
}

/// A window, with its messages if they differ from those of the request.
pub(super) struct Windowed {
    pub(super) messages: Option<Vec<Box<RawValue>>>,
    report: Report,
}

/// Return a request with its window
///
/// The body is that of a model call in any format. The window is the one that a session would have sent if it had seen
/// the conversation message by message. So with the same tools and model, a longer request of a conversation begins with
/// the same messages, until the next compaction. Nothing is recorded, so a model cannot read what was cut.
#[utoipa::path(post, path = "/compress", tag = "windows", params(Chosen), request_body = Object, responses(
    (status = 200, description = "The request and a report", body = Compressed), Faults,
))]
pub(super) async fn compress(
    Extension(admission): Extension<Admission>,
    chosen: Result<Query<Chosen>, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Compressed>, Fault> {
    let Query(Chosen { policy, dialect, model }) = chosen?;
    let policy = policy.map(|text| named(&text)).transpose().map_err(wrong)?;
    let dialect = dialect.map(|name| name.parse()).transpose().map_err(wrong)?;
    let body = read(&admission, &headers, body).await?;
    let compressed = in_turn(move || {
        let text = String::from_utf8(body.into()).map_err(|_| wrong("the body is not UTF-8"))?;
        let wanted = Wanted { text, dialect, model, policy, start: Start::Any, headers };
        let Windowed { messages, report } = window(&admission, &wanted)?;
        admission.shared.metrics.compressed(messages.is_some());
        let body = match &messages {
            None => wanted.text,
            Some(messages) => {
                let request = RawRequest::read(&wanted.text, Some(report.dialect)).map_err(wrong)?;
                request.change().messages(messages).write()
            }
        };
        Ok(Compressed { body: RawValue::from_string(body).map_err(wrong)?, report })
    });
    compressed.await.map(Json)
}

fn wrong(error: impl ToString) -> Fault {
    Fault::new(StatusCode::BAD_REQUEST, error)
}

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

/// Does long work on a thread of its own, as soon as a core is free for it.
pub(super) async fn in_turn<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let permit = AT_ONCE.acquire().await;
    let done = spawn_blocking(move || {
        let _permit = permit;
        work()
    });
    done.await.unwrap_or_else(|_| Err(Fault::new(StatusCode::INTERNAL_SERVER_ERROR, "the window could not be made")))
}

/// Makes the window of a request.
pub(super) fn window(admission: &Admission, wanted: &Wanted) -> Result<Windowed, Fault> {
    let refused = |error: &dyn std::error::Error| Fault::new(StatusCode::UNPROCESSABLE_ENTITY, error);
    let raw = RawRequest::read(&wanted.text, wanted.dialect).map_err(|error| refused(&error))?;
    let (dialect, betas) = (raw.dialect(), headers::list(&wanted.headers, "anthropic-beta"));
    let target = raw.target();
    let named = if target.model.is_none() { wanted.model.clone() } else { None };
    let model = Model::from_target(&raw, named.into_iter().fold(target, Target::with_model), &betas);
    if let Some(why) = passed(&raw, &wanted.headers) {
        let report = Report { dialect, passed: Some(why), window: None, cut: None, compacted: Vec::new() };
        return Ok(Windowed { messages: None, report });
    }
    // No log has what is cut, so no tool can read it.
    let policies = admission.current.policies(false);
    let usual = || if model.is_shortened { policies.yielding.clone() } else { policies.usual.clone() };
    let policy = wanted.policy.clone().unwrap_or_else(usual);
    let policy = Policy { start: policy.start.max(wanted.start), ..policy };
    let request = Request::decode(wanted.text.clone(), Some(dialect)).map_err(|error| refused(&error))?;
    let mut engine = Engine::new(model.settings(dialect).policy(policy));
    let mut run = run_request(&mut engine, &request, &mut |_| None, &mut |_| {}).map_err(|error| refused(&error))?;
    if let Some(exceeded) = run.outcome.exceeded.take() {
        return Err(refused(&lookback_session::Error::from(exceeded)));
    }
    let view = run.outcome.on_read.as_deref().unwrap_or(engine.view());
    let cut = Cut::from_view(view);
    // A request that is only repaired stays as it came, because the provider may accept it.
    let messages = match cut {
        Some(_) => {
            let encoded = view.encode(engine.target().clone()).map_err(|error| refused(&error))?;
            Some(encoded.into_iter().map(Cow::into_owned).collect())
        }
        None => None,
    };
    let compacted = run.entries.iter().filter_map(Compacted::from_entry).collect();
    let report = Report { dialect, passed: None, window: Some(engine.tokens(view)), cut, compacted };
    Ok(Windowed { messages, report })
}

/// Returns the reason to send a request whole, if it is no turn of a conversation.
fn passed(request: &RawRequest<'_>, headers: &HeaderMap) -> Option<Passed> {
    let preamble = request.preamble();
    match Kind::from_request(request, &preamble, &Identity::from_request(headers, request)) {
        Kind::Turn => LineQuery::new(request, &preamble).may_compact().then_some(Passed::COMPACTION),
        Kind::Compaction => Some(Passed::COMPACTION),
        Kind::Stored(member) => Some(Passed::stored(member)),
        _ => Some(Passed::SIDE),
    }
}
