//! The sessions and their calls in the REST API.

use std::sync::Arc;

use axum::Extension;
use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use axum::http::StatusCode;
use lookback_engine::Settings;
use lookback_replay::prices::{Price, Prices};
use lookback_replay::receipt::Receipt;
use lookback_replay::receipt::{CallReceipt, ReceiptTotal};
use lookback_session::Session;
use lookback_session::SessionInfo;
use lookback_store::{LogInfo, purge};
use lookback_store::{LogName, Store};
use lookback_wire::dialect::Dialect;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::fault::{Fault, Faults};
use super::time::rfc3339;
use crate::gateway::admission::Admission;
use crate::gateway::admission::caller::ACCOUNT;
use crate::inspect::related;

/// The most sessions on a page.
const MOST: usize = 1000;
/// The default prices of calls.
pub(crate) const PRICES: &str = "anthropic-5m";

/// The name of a session: no part between slashes is empty, `.` or `..`, and no character is a control character or a
/// backslash. In a path, a slash is written %2F.
#[derive(Deserialize, ToSchema)]
#[schema(as = SessionName, max_length = 200, pattern = r"^(?!\.{0,2}(/|$))(?!.*/\.{0,2}(/|$))[^\u0000-\u001F\u007F-\u009F\\]+$")]
pub(super) struct Name(pub(super) String);

/// A session.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct Named {
    /// Its name.
    pub(super) session: Name,
}

/// The page of sessions to list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// Begins the page after this name: the `next` of the previous page.
    after: Option<String>,
    /// The maximum number of sessions.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// A page of sessions, sorted by name.
#[derive(Serialize, ToSchema)]
pub(super) struct Sessions {
    sessions: Vec<Listed>,
    /// The last name of the page, if there are more.
    next: Option<String>,
}

/// A session in a list.
#[derive(Serialize, ToSchema)]
pub(super) struct Listed {
    /// Its name.
    session: String,
    /// The number of entries in its log.
    entries: u64,
    /// The size of its log in bytes.
    bytes: u64,
    /// When it was created.
    #[schema(format = DateTime)]
    created: Option<String>,
    /// When it was last written or read.
    #[schema(format = DateTime)]
    used: Option<String>,
}

/// The state of a session.
#[derive(Serialize, ToSchema)]
pub(super) struct Shown {
    /// Its name.
    session: String,
    /// When it was created.
    #[schema(format = DateTime)]
    created: Option<String>,
    /// When it was last written or read.
    #[schema(format = DateTime)]
    used: Option<String>,
    /// The number of messages in the conversation.
    messages: u64,
    /// The number of entries in its log.
    entries: u64,
    /// The number of messages in the window.
    window_messages: u64,
    /// The tokens of the window, by Lookback's count.
    window_tokens: u64,
    /// Other sessions that may be the same conversation, the oldest first: at most 32.
    related: Vec<RelatedSession>,
}

/// A session that may be the same conversation: it begins with the same messages, or the client gave it the same name.
#[derive(Serialize, ToSchema)]
pub(super) struct RelatedSession {
    /// Its name.
    session: String,
    /// The number of messages with which both begin, up to 200, without system messages at the beginning. If it is 0, only
    /// the client's name connects them.
    messages: u64,
}

/// The calls of a session.
#[derive(Serialize, ToSchema)]
pub(super) struct Calls {
    calls: Vec<Call>,
    total: Total,
}

/// A model call: its tokens and its cost.
#[derive(Serialize, ToSchema)]
pub(super) struct Call {
    /// The number of the call, from 1.
    call: u64,
    /// The position of its answer in the log.
    entry: u64,
    /// The number of messages that were sent.
    messages: u64,
    /// Input tokens.
    sent_tokens: u64,
    /// Input tokens that were read from the provider's cache.
    cache_read_tokens: u64,
    /// Input tokens that were written to the provider's cache.
    cache_write_tokens: u64,
    /// All other input tokens.
    uncached_tokens: u64,
    /// The tokens of the answer.
    output_tokens: u64,
    /// The cost of the input, in US dollars.
    cost: f64,
    /// The cost of the input without a window, in US dollars.
    cost_without_window: f64,
    /// Whether there was a compaction since the previous call.
    compacted: bool,
    /// Whether the provider reported the tokens.
    reported: bool,
}

/// The sums of the calls.
#[derive(Serialize, ToSchema)]
pub(super) struct Total {
    calls: u64,
    sent_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    uncached_tokens: u64,
    output_tokens: u64,
    /// In US dollars.
    cost: f64,
    /// In US dollars.
    cost_without_window: f64,
    compactions: u64,
    /// Calls that do not extend the previous one.
    prefix_breaks: u64,
    reported_calls: u64,
    /// The cost that the window saved, in US dollars. Negative if the window cost more.
    saved: f64,
    /// The calls whose tokens the provider reported. `null` if it reported none.
    paid: Option<Paid>,
}

/// What the calls cost by the provider's reports.
#[derive(Serialize, ToSchema)]
struct Paid {
    calls: u64,
    /// The cost of their input, in US dollars.
    cost: f64,
    /// About what their input would have cost if they had sent everything. `null` if nothing was cut, or after one call.
    everything: Option<f64>,
    /// Twice the standard error of that estimate.
    error: Option<f64>,
}

/// The prices to use.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Priced {
    /// The name of the prices, such as `anthropic-5m` or a model's. By default, they are those of the session's model, if
    /// it is known, or else `anthropic-5m`.
    prices: Option<String>,
}

/// List sessions
#[utoipa::path(get, path = "/sessions", tag = "sessions", params(Page), responses(
    (status = 200, description = "A page of sessions", body = Sessions), Faults,
))]
pub(super) async fn list(
    Extension(admission): Extension<Admission>,
    page: Result<Query<Page>, QueryRejection>,
) -> Result<Json<Sessions>, Fault> {
    let Query(Page { after, limit }) = page?;
    let limit = bounded(limit, 100, MOST)?;
    let mut logs = admission.store()?.list("").await?;
    logs.retain(|log| !log.name.is_derived() && after.as_deref().is_none_or(|after| log.name.as_str() > after));
    logs.sort_by(|one, other| one.name.cmp(&other.name));
    let has_more = logs.len() > limit;
    logs.truncate(limit);
    let last = if has_more { logs.last() } else { None };
    let next = last.map(|log| log.name.to_string());
    Ok(Json(Sessions { sessions: logs.iter().map(Listed::from).collect(), next }))
}

/// Show a session
#[utoipa::path(get, path = "/sessions/{session}", tag = "sessions",
    params(Named),
    responses(
        (status = 200, description = "The state of the session", body = Shown), Faults,
    ))]
pub(super) async fn show(
    Extension(admission): Extension<Admission>,
    named: Result<Path<Named>, PathRejection>,
) -> Result<Json<Shown>, Fault> {
    let (store, name) = existing(&admission, &named?.session).await?;
    let related = related(&store, &name).await?.into_iter();
    let mut session = Session::open(store, name.as_str(), Settings::default()).await?;
    let info = session.info().await?.ok_or_else(|| Fault::missing("such session"))?;
    let SessionInfo { session, created, used, messages, entries, window, .. } = info;
    let (session, created, used) = (session.to_string(), rfc3339(created), rfc3339(used));
    let (window_messages, window_tokens) = (window.size.messages, window.size.tokens);
    let related = related.map(|other| RelatedSession { session: other.session.to_string(), messages: other.messages });
    let related = related.collect();
    Ok(Json(Shown { session, created, used, messages, entries, window_messages, window_tokens, related }))
}

/// Delete a session
///
/// Deletes its messages and its facts. If its client continues, the session starts over with what the client sends.
#[utoipa::path(delete, path = "/sessions/{session}", tag = "sessions",
    params(Named),
    responses(
        (status = 204, description = "The session is deleted"), Faults,
    ))]
pub(super) async fn delete(
    Extension(admission): Extension<Admission>,
    named: Result<Path<Named>, PathRejection>,
) -> Result<StatusCode, Fault> {
    let (store, name) = existing(&admission, &named?.session).await?;
    purge(&*store, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the model calls of a session
///
/// Returns what each call sent and cost, and what it would have cost without a window.
#[utoipa::path(get, path = "/sessions/{session}/calls", tag = "sessions",
    params(Named, Priced),
    responses(
        (status = 200, description = "The calls, and their sums", body = Calls), Faults,
    ))]
pub(super) async fn calls(
    Extension(admission): Extension<Admission>,
    named: Result<Path<Named>, PathRejection>,
    priced: Result<Query<Priced>, QueryRejection>,
) -> Result<Json<Calls>, Fault> {
    let (Path(named), Query(Priced { prices })) = (named?, priced?);
    let (store, name) = existing(&admission, &named.session).await?;
    let price = match &prices {
        Some(named) => Prices::builtin().find(named),
        None => Price::for_log(&*store, &name).await?.or_else(|| Prices::builtin().find(PRICES)),
    };
    let price = price.ok_or_else(|| Fault::missing("such prices"))?;
    // The same counter as that of a replay without a model.
    let counter = Settings::for_model(Dialect::default(), "gpt-4o").counter;
    let receipt = Receipt::load(&*store, &name, &*counter, price).await?;
    let saved = receipt.total.saved();
    Ok(Json(Calls { calls: receipt.calls.iter().map(Call::from).collect(), total: Total::new(&receipt.total, saved) }))
}

/// Returns the store and the name of a session, which must exist.
pub(super) async fn existing(admission: &Admission, Name(name): &Name) -> Result<(Arc<dyn Store>, LogName), Fault> {
    let name: LogName = name.parse()?;
    let store = admission.store()?;
    match called(admission, &*store, &name).await? {
        Some(name) => Ok((store, name)),
        None => Err(Fault::missing("such session")),
    }
}

/// The most names of sessions that an error lists.
const LISTED: usize = 5;

/// Finds a session by the name that its client uses. If the client has its own provider key, the gateway adds an
/// account to the name, which readers of the session need not know.
pub(super) async fn called(admission: &Admission, store: &dyn Store, name: &LogName) -> Result<Option<LogName>, Fault> {
    let own: Option<LogName> =
        admission.caller.account.as_ref().and_then(|account| format!("{name}@{account}").parse().ok());
    for name in [Some(name.clone()), own].into_iter().flatten() {
        if store.head(&name, None).await?.is_some() {
            return Ok(Some(name));
        }
    }
    let begin = format!("{name}@");
    let mut logs = store.list(&begin).await?;
    logs.retain(|log| log.name.as_str().strip_prefix(&begin).is_some_and(is_account));
    let found = logs.pop().map(|log| log.name);
    match (found, logs.len()) {
        (Some(last), more) if more > 0 => {
            let names: Vec<&str> =
                logs.iter().map(|log| log.name.as_str()).chain([last.as_str()]).take(LISTED).collect();
            let says = format!("several accounts have a session of this name; name one of them: {}", names.join(", "));
            Err(Fault::new(StatusCode::CONFLICT, says))
        }
        (found, _) => Ok(found),
    }
}

/// Returns whether a text is the account part of a session's name.
fn is_account(text: &str) -> bool {
    text == "-" || (text.len() == ACCOUNT && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns the number of items on a page, or an error if it is out of range.
pub(super) fn bounded(limit: Option<usize>, usual: usize, most: usize) -> Result<usize, Fault> {
    match limit.unwrap_or(usual) {
        limit if (1..=most).contains(&limit) => Ok(limit),
        _ => Err(Fault::new(StatusCode::BAD_REQUEST, format_args!("`limit` is from 1 to {most}"))),
    }
}

impl From<&LogInfo> for Listed {
    fn from(log: &LogInfo) -> Listed {
        let LogInfo { name, records, bytes, created, used, .. } = log;
        let (created, used) = (rfc3339(*created), rfc3339(*used));
        Listed { session: name.to_string(), entries: *records, bytes: *bytes, created, used }
    }
}

impl From<&CallReceipt> for Call {
    fn from(call: &CallReceipt) -> Call {
        Call {
            call: call.number,
            entry: call.position,
            messages: call.messages,
            sent_tokens: call.sent_tokens,
            cache_read_tokens: call.cache_read_tokens,
            cache_write_tokens: call.cache_write_tokens,
            uncached_tokens: call.uncached_tokens,
            output_tokens: call.output_tokens,
            cost: call.cost,
            cost_without_window: call.cost_without_window,
            compacted: call.compacted,
            reported: call.reported,
        }
    }
}

impl Total {
    fn new(total: &ReceiptTotal, saved: f64) -> Total {
        Total {
            calls: total.calls,
            sent_tokens: total.sent_tokens,
            cache_read_tokens: total.cache_read_tokens,
            cache_write_tokens: total.cache_write_tokens,
            uncached_tokens: total.uncached_tokens,
            output_tokens: total.output_tokens,
            cost: total.cost,
            cost_without_window: total.cost_without_window,
            compactions: total.compactions,
            prefix_breaks: total.prefix_breaks,
            reported_calls: total.reported_calls,
            saved,
            paid: (total.paid.calls > 0).then(|| {
                let estimate = total.paid.everything();
                let (everything, error) = (estimate.map(|it| it.cost), estimate.and_then(|it| it.error));
                Paid { calls: total.paid.calls, cost: total.paid.cost, everything, error }
            }),
        }
    }
}
