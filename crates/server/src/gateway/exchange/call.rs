//! A model call, and the line that it belongs to.

use std::fmt::Display;

use bytes::Bytes;
use lookback_conversation::{Account, Identity, Kind, Query, Scope};
use lookback_wire::dialect::{Dialect, Preamble, RawRequest};

use crate::causes::chained;
use crate::gateway::admission::Admission;
use crate::gateway::client::Head;
use crate::gateway::config::additions::Additions;
use crate::gateway::config::upstream::Upstream;
use crate::gateway::http::headers;
use crate::gateway::lines::turn::{Model, Turn};
use crate::gateway::report::event::Event;
use crate::gateway::report::note::Passed;
use crate::gateway::windows::{NoWindow, Windows};

/// A model call.
pub(crate) struct Call {
    pub(crate) head: Head,
    /// The body as it arrived.
    pub(crate) body: Bytes,
    /// The body without its encoding. `None` if it cannot be decoded.
    pub(crate) text: Option<Bytes>,
    pub(crate) dialect: Dialect,
    /// The model, if the path names it.
    pub(crate) model: Option<String>,
    /// The additions to the call.
    pub(crate) adds: Additions,
}

/// A call that belongs to a line, with everything needed to make its windows.
pub(super) struct LineCall<'a> {
    pub(super) windows: Windows,
    pub(super) request: RawRequest<'a>,
    pub(super) preamble: Preamble,
    pub(super) turn: Turn,
}

/// Finds the line of a call.
///
/// # Errors
/// Returns the reason that the call passes unchanged, if it belongs to no line.
pub(super) async fn find_line<'a>(
    admission: &Admission,
    upstream: &Upstream,
    call: &'a Call,
) -> Result<LineCall<'a>, Passed> {
    let text = call.text.as_deref().ok_or(Passed::ENCODED)?;
    let text = std::str::from_utf8(text).ok();
    let Some(request) = text.and_then(|text| RawRequest::read(text, Some(call.dialect)).ok()) else {
        return Err(Passed::NOT_UNDERSTOOD);
    };
    let preamble = request.preamble();
    let identity = Identity::from_request(&call.head.headers, &request);
    let kind = Kind::from_request(&request, &preamble, &identity);
    match kind {
        Kind::Turn | Kind::Compaction => {}
        Kind::Stored(member) => return Err(Passed::stored(member)),
        _ => return Err(Passed::SIDE),
    }
    let account = Account { tenant: admission.caller.tenant.clone(), name: admission.caller.account.clone() };
    let scope = Scope::new(&identity, account, &request).ok_or(Passed::NO_USER)?;
    let retries = headers::text(&call.head.headers, "x-stainless-retry-count").and_then(|count| count.parse().ok());
    let retry = retries.is_some_and(|count: u32| count > 0);
    let betas = headers::list(&call.head.headers, "anthropic-beta");
    let model = Model::from_request(&request, &call.head.path_and_query, &betas);
    let query = Query::new(&request, &preamble).retry(retry);
    let windows = Windows::open(admission).map_err(|error| failed(admission, &chained(&error)))?;
    let place = match kind {
        Kind::Compaction => windows.compaction(&scope, query).await,
        _ => windows.line(&scope, query).await,
    };
    match place {
        Ok(place) => {
            let turn = Turn::new(place, &call.adds, upstream, model, (&request, &preamble));
            Ok(LineCall { windows, request, preamble, turn })
        }
        Err(NoWindow::Session(lookback_session::Error::Request(_))) => Err(Passed::NOT_UNDERSTOOD),
        Err(error) => Err(failed(admission, &chained(&error))),
    }
}

/// Records a failure of the store, and returns the reason that the call passes unchanged.
pub(super) fn failed(admission: &Admission, what: &dyn Display) -> Passed {
    admission.shared.metrics.store_failed();
    admission.shared.emit(&Event::failure(what.to_string()));
    Passed::STORE_FAILED
}
